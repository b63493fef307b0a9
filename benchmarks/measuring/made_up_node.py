"""Studies on a node that exists on paper: real search, real confirmation, real statistics, made-up measurements.

A run at a level shows truth x node x launch x window: the configuration's own figure, what the node has become by then,
the luck of this launch, and the noise of the window, which the interval knows and the rest it does not.
"""

from __future__ import annotations

import math
import random
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from autotune import study
from autotune.domain.configuration import Configuration
from autotune.domain.measurement import Estimate, Measurement, Objective
from autotune.domain.space import Parameter, SearchSpace, Values
from autotune.domain.study import Budget, EngineSpec, StudyResult, StudySpec
from autotune.domain.trial import TrialRequest, TrialResult, TrialState
from autotune.domain.workload import Workload
from autotune.scoring import compare, score
from autotune.scoring.student import t_quantile

START_S, MEASURING_S = 90.0, 210.0
LEVELS: Mapping[int, tuple[float, float]] = {1: (1.0, 90.0), 8: (2.0, 520.0), 64: (3.0, 2100.0)}
"""Level: its weight, and tokens per second of the baseline."""
FREEDOM = 11
FACTORS, VALUES = 7, 3
ANYTHING = study.Validity(problems=lambda _configuration: (), canonical=lambda configuration: configuration)

Effect = Callable[[Configuration], float]
Drift = Callable[[float], float]


@dataclass(frozen=True)
class Noise:
    """Standard deviations, relative. `window` of a level within one launch, `launch` of all levels of a launch
    together, `level` of one level of a launch. `slow` of the launches go wrong and are 8 % slow. `drift`: logarithm of
    the node's speed after so many node hours."""

    window: float = 0.01
    launch: float = 0.007
    level: float = 0.004
    slow: float = 0.0
    drift: Drift = lambda _hours: 0.0


def linear(per_hour: float) -> Drift:
    return lambda hours: math.log(max(0.05, 1.0 + per_hour * hours))


def step(size: float, at_hours: float) -> Drift:
    return lambda hours: math.log(1.0 + size) if hours >= at_hours else 0.0


@dataclass
class Node:
    """`effect`: the true ratio of a configuration to the baseline, at every level."""

    seed: int
    noise: Noise
    effect: Effect
    results: list[TrialResult] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed * 7907 + 11)
        self._baseline: tuple[Measurement, ...] | None = None

    @property
    def hours(self) -> float:
        return sum(result.node_seconds for result in self.results) / 3600.0

    def evaluate(self, request: TrialRequest) -> TrialResult:
        seconds = START_S * math.exp(self._rng.gauss(0.0, 0.05)) + MEASURING_S
        node = self.noise.drift(self.hours + (START_S + MEASURING_S / 2) / 3600.0)
        luck = self._rng.gauss(0.0, self.noise.launch)
        luck += math.log(0.92) if self._rng.random() < self.noise.slow else 0.0
        true = math.log(self.effect(request.configuration))
        measurements = tuple(self._level(level, true + node + luck) for level in LEVELS)
        self._baseline = self._baseline or measurements
        weights = {level: weight for level, (weight, _speed) in LEVELS.items()}
        result = TrialResult(
            request.number,
            request.configuration,
            request.origin,
            TrialState.COMPLETE,
            started_at="",
            node_seconds=seconds,
            startup_seconds=START_S,
            measurements=measurements,
            score=score(measurements, Objective(), weights, self._baseline),
            replicate=request.replicate,
        )
        self.results.append(result)
        return result

    def _level(self, level: int, state: float) -> Measurement:
        """The interval is that of a window whose noise is known from so many batches."""
        value = LEVELS[level][1] * math.exp(state + self._rng.gauss(0.0, self.noise.level))
        value *= math.exp(self._rng.gauss(0.0, self.noise.window))
        seen = self.noise.window * math.sqrt(self._rng.gammavariate(FREEDOM / 2, 2.0) / FREEDOM)
        half = t_quantile(FREEDOM) * seen * value
        estimate = Estimate(value, value - half, value + half, batches=FREEDOM + 1)
        return Measurement(level, 5 * level, 5 * level, output_throughput=estimate)


def spec_of(budget: Budget, seed: int) -> StudySpec:
    """Seven factors of three values; the baseline has the first of each."""
    names = [f"factor_{number}" for number in range(FACTORS)]
    return StudySpec(
        name="made-up",
        engine=EngineSpec("paper", None, "model"),
        space=SearchSpace(tuple(Parameter(name, Values(tuple(range(VALUES)))) for name in names)),
        baseline=Configuration(dict.fromkeys(names, 0)),
        workload=Workload({level: weight for level, (weight, _speed) in LEVELS.items()}),
        objective=Objective(),
        budget=budget,
        seed=seed,
    )


def nothing(_configuration: Configuration) -> float:
    return 1.0


def one_factor(gain: float) -> Effect:
    """One value of one factor is faster by `gain`; nothing else does anything."""
    return lambda configuration: 1.0 + gain if configuration["factor_2"] == 1 else 1.0


def every_factor(seed: int, spread: float = 0.03) -> Effect:
    """Each value of each factor has an effect of its own, about as large as `spread`; the baseline's have none."""
    rng = random.Random(f"effects {seed}")
    effects = {(f"factor_{n}", value): rng.gauss(0.0, spread) for n in range(FACTORS) for value in range(1, VALUES)}
    return lambda configuration: math.exp(sum(effects.get((name, v), 0.0) for name, v in configuration.items()))  # type: ignore[call-overload,arg-type,misc]


def run(node: Node, budget: Budget) -> StudyResult:
    """A whole study, as `pipeline.tune` runs and concludes it."""
    spec = spec_of(budget, node.seed)
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        stopped = study.run_study(
            spec, evaluate=node.evaluate, validity=ANYTHING, history=(), storage=Path(folder) / "journal.log"
        )
    return study.conclude(spec, node.results, stopped)


def screening(result: StudyResult) -> StudyResult:
    """The same study as it would be concluded without drift and confirmation: the best against one baseline run."""
    bare = StudyResult(result.spec, result.search)
    best, baseline = bare.best, bare.baseline
    assert best is not None
    assert baseline is not None
    levels = result.spec.workload.concurrency
    compared = compare(best.measurements, baseline.measurements, Objective(), levels) if best is not baseline else None
    return replace(bare, comparison=compared)
