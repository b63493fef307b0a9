"""Replays a table as a node would: each evaluation costs node time and is noisy."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from autotune.domain.configuration import Configuration
from autotune.domain.measurement import Estimate, Measurement
from autotune.domain.trial import Failure, FailureReason, TrialRequest, TrialResult, TrialState
from autotune.scoring import score
from benchmarks.search.tables import Cell, Table

LEVEL_NOISE = 0.008
"""Relative standard deviation of one level's throughput."""
LAUNCH_NOISE = 0.005
"""The same, of all levels of one launch together: no longer window averages it out."""
ACCEPT_NOISE = 0.004
FIRST_COMPILE_S = 90.0
"""The first start with an attention backend compiles or fetches its kernels. Assumed."""
STOP_S = 6.0
WITHIN = 0.02

_REASONS = {
    "refused": FailureReason.INVALID_COMBINATION,
    "distributed": FailureReason.COMMUNICATION_FAILED,
    "weights": FailureReason.OUT_OF_MEMORY,
    "pool": FailureReason.OUT_OF_MEMORY,
    "capture": FailureReason.GRAPH_CAPTURE_FAILED,
    "backend": FailureReason.UNSUPPORTED_HARDWARE,
    "serving": FailureReason.OUT_OF_MEMORY,
}


@dataclass
class Node:
    """One study's worth of a table. `noise`: a factor on all three. `results` in the order of evaluation."""

    table: Table
    seed: int
    noise: float = 1.0
    results: list[TrialResult] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed * 7919 + 17)
        self._compiled: set[object] = set()
        self._baseline: tuple[Measurement, ...] | None = None

    @property
    def seconds(self) -> float:
        return sum(result.node_seconds for result in self.results)

    def evaluate(self, request: TrialRequest) -> TrialResult:
        cell = self.table.cell(request.configuration)
        if cell.death is not None:
            reason = _REASONS[cell.death]
            failure = Failure(reason, f"died: {cell.death}", evidence=cell.death)
            result = TrialResult(
                request.number,
                request.configuration,
                request.origin,
                TrialState.INFEASIBLE,
                started_at="",
                node_seconds=cell.seconds + STOP_S,
                failure=failure,
            )
        else:
            result = self._measured(request, cell)
        self.results.append(result)
        return result

    def _measured(self, request: TrialRequest, cell: Cell) -> TrialResult:
        spec = self.table.spec
        start = cell.seconds * math.exp(self._rng.gauss(0.0, 0.02))
        backend = request.configuration.get("attention_backend")
        if backend not in self._compiled:
            self._compiled.add(backend)
            start += FIRST_COMPILE_S
        launch = math.exp(self._rng.gauss(0.0, self.noise * LAUNCH_NOISE))
        measurements = tuple(
            self._level(cell, index, level, launch) for index, level in enumerate(spec.workload.levels)
        )
        if self._baseline is None:
            self._baseline = measurements
        made = score(measurements, spec.objective, spec.workload.concurrency, self._baseline)
        measuring = measuring_seconds(
            self.table, [m.output_throughput.value for m in measurements if m.output_throughput]
        )
        return TrialResult(
            request.number,
            request.configuration,
            request.origin,
            TrialState.COMPLETE,
            started_at="",
            node_seconds=start + measuring + STOP_S,
            startup_seconds=start,
            measurements=measurements,
            score=made,
        )

    def _level(self, cell: Cell, index: int, level: int, launch: float) -> Measurement:
        noisy = cell.throughput[index] * launch * math.exp(self._rng.gauss(0.0, self.noise * LEVEL_NOISE))
        accept = None
        if cell.accept:
            accept = cell.accept[index] * math.exp(self._rng.gauss(0.0, self.noise * ACCEPT_NOISE))
        half = 2.0 * self.noise * LEVEL_NOISE * noisy
        estimate = Estimate(noisy, noisy - half, noisy + half, batches=20)
        return Measurement(level, 5 * level, 5 * level, output_throughput=estimate, accept_length=accept)


def measuring_seconds(table: Table, throughput: Sequence[float]) -> float:
    """Warm-up and window of every level: all the requests that the plan sends, at the throughput of the level."""
    plan = table.spec.plan()
    return sum(
        (level.requests + level.concurrency) * plan.max_tokens / rate
        for level, rate in zip(plan.levels, throughput, strict=True)
    )


class Truth:
    """The objective without noise, of every server of a table, as a share of the best legal one."""

    def __init__(self, table: Table) -> None:
        self._table = table
        baseline = self._perfect(table.cell(table.spec.baseline))
        self._values: dict[str, float] = {}
        for form, cell in table.cells.items():
            if cell.death is None:
                made = score(self._perfect(cell), table.spec.objective, table.spec.workload.concurrency, baseline)
                if made is not None:
                    self._values[form] = made.estimate.value
        legal = {
            form.canonical
            for text, (form, problems) in table.asked.items()
            if not problems and not table.spec.space.broken(json.loads(text))
        }
        self.best = max(value for form, value in self._values.items() if form in legal)
        self.legal = sorted(legal)

    def regret(self, configuration: Configuration) -> float:
        """0 is the optimum; 1 is a server that dies."""
        form = self._table.asked[configuration.canonical][0].canonical
        return self.regret_of(form)

    def regret_of(self, form: str) -> float:
        return 1.0 - self._values.get(form, 0.0) / self.best

    def _perfect(self, cell: Cell) -> tuple[Measurement, ...]:
        base = Measurement(0, 1, 1)
        return tuple(
            replace(base, concurrency=level, output_throughput=Estimate(rate))
            for level, rate in zip(self._table.levels, cell.throughput, strict=True)
        )


@dataclass(frozen=True)
class Run:
    """What one strategy did with one seed. `path`: node minutes and the true regret of the best it had measured,
    after each trial. `reached`: node minutes until that was within 2 % for good; None if it never was."""

    path: tuple[tuple[float, float], ...]
    invalid: int
    duplicates: int
    crashed: int
    suggest_ms: float

    @property
    def reached(self) -> float | None:
        found = None
        for minutes, regret in reversed(self.path):
            if regret > WITHIN:
                break
            found = minutes
        return found


def summarise(node: Node, truth: Truth, suggest_ms: float) -> Run:
    """`invalid`: launched though the rules forbid it; `duplicates`: a server that was launched before."""
    table = node.table
    minutes = 0.0
    best: tuple[float, Configuration] | None = None
    path: list[tuple[float, float]] = []
    seen: set[str] = set()
    invalid = duplicates = crashed = 0
    for result in node.results:
        minutes += result.node_seconds / 60.0
        form, problems = table.asked[result.configuration.canonical]
        illegal = bool(problems) or bool(table.spec.space.broken(result.configuration))
        invalid += illegal
        duplicates += form.canonical in seen
        crashed += result.state is TrialState.INFEASIBLE and not illegal
        seen.add(form.canonical)
        if result.score is not None and (best is None or result.score.estimate.value > best[0]):
            best = (result.score.estimate.value, result.configuration)
        path.append((round(minutes, 2), 1.0 if best is None else round(truth.regret(best[1]), 5)))
    return Run(tuple(path), invalid, duplicates, crashed, round(suggest_ms, 2))
