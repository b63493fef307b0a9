#!/usr/bin/env python
"""How often the model's 95 % intervals of effects hold the truth, on replayed tables whose truth is known.

    benchmarks/model_effect_coverage.py --seeds 24

For each table of benchmarks/search and each seed: a study by the default strategy, then its explanation. The truth is
the table's throughput without noise. Beside the model's effects stand those out of pairs of trials, whose truth is what
the same trials would give without noise. `raw` instead of the averaged model: the posterior that proposals are made by.
Interactions: the intervals of what one change adds to another; and those that are reported, with the share of them
that the truth has the other way round.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from autotune.domain.configuration import Configuration
from autotune.domain.explanation import Effect
from autotune.domain.measurement import Estimate, Measurement
from autotune.domain.study import Budget
from autotune.domain.trial import TrialResult
from autotune.scoring import effects, evidence, settings
from autotune.study import run_study
from autotune.study.explaining.answers import Z95, Answers, Difference
from autotune.study.explaining.modelled import Known, believed, one_each
from autotune.study.explaining.surroundings import Step
from autotune.study.model.averaged import Joint
from autotune.study.model.goal import Goal
from autotune.study.model.greybox import GreyBox
from benchmarks.search import contestants, tables

KINDS = ("model", "model, levels", "raw", "raw, levels", "pairs", "pairs, levels", "interactions")


@dataclass
class Count:
    """Of one kind of interval on one table. `shares`: of each study. `widths`: half of each interval (logarithms)."""

    held: list[bool] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)
    widths: list[float] = field(default_factory=list)

    def add(self, held: Sequence[bool], widths: Sequence[float]) -> None:
        self.held += held
        self.widths += widths
        if held:
            self.shares.append(sum(held) / len(held))

    def row(self, kind: str, studies: int) -> str:
        if not self.held:
            return f"| {kind} | 0 | | | |"
        # Intervals of one study share its trials: the error is that of the mean over studies.
        error = statistics.stdev(self.shares) / math.sqrt(len(self.shares)) if len(self.shares) > 1 else math.nan
        quartiles = statistics.quantiles(self.widths, n=4) if len(self.widths) > 1 else [math.nan] * 3
        low, middle, high = (100 * width for width in quartiles)
        share = 100 * sum(self.held) / len(self.held)
        return (
            f"| {kind} | {len(self.held) / studies:.1f} | {share:.1f} ± {100 * error:.1f} % | {middle:.1f} % "
            f"| {low:.1f} to {high:.1f} % |"
        )


@dataclass
class Tally:
    counts: dict[str, Count] = field(default_factory=lambda: defaultdict(Count))
    reported: int = 0
    wrong: int = 0
    studies: int = 0
    withheld: int = 0
    factors: int = 0
    paired: int = 0
    without_truth: int = 0


class Raw(Answers):
    """The likeliest fit alone, its noise and strength as the search has them."""

    def __init__(self, table: tables.Table, known: Known, decompose: bool) -> None:
        spec = table.spec
        self._goal, self._levels, self.widened = Goal(spec.workload, spec.objective), spec.workload.closed, 1.0
        self._single = GreyBox(spec.space, self._levels, decompose=decompose)
        self._single.fit(known.observations)
        self._model = self  # type: ignore[assignment]

    def joint(self, configurations: Sequence[Configuration]) -> Iterator[Joint]:
        yield Joint(1.0, *self._single.joint(configurations))


def study(table: tables.Table, seed: int, trials: int) -> list[TrialResult]:
    session = contestants.Session(table, seed, trials)
    spec = replace(table.spec, strategy="greybox", seed=seed, budget=Budget(trials=trials, stop_when_settled=False))
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        storage = Path(folder) / "journal.log"
        run_study(spec, evaluate=session.evaluate, validity=table.validity(), history=(), storage=storage)
    return session.node.results


def count(table: tables.Table, results: Sequence[TrialResult], tally: Tally, *, plain: bool = False) -> None:
    spec = table.spec
    known = Known(spec, results)
    belief = believed(spec, known.observations)
    belief = replace(belief, decompose=False) if plain else belief
    tally.studies += 1
    _pairs(table, results, tally)
    if belief.why_not:
        tally.withheld += 1
        return
    around = known.surroundings()
    every = around.steps(known.point(spec.baseline))
    steps = [step for step in every if _lives(table, step.low) and _lives(table, step.high)]
    tally.without_truth += len(every) - len(steps)
    tally.factors += len({step.parameter for step in every})
    answers = Answers(spec, known.observations, decompose=belief.decompose)
    for kind, made in (("model", answers), ("raw", Raw(table, known, belief.decompose))):
        _effects(table, kind, steps, made.effects(steps), tally)
    chosen = one_each(every, answers.effects(every), around.best)
    squares = list(answers.squares(around, chosen))
    held, widths = [], []
    for square in squares:
        if all(_lives(table, corner) for corner in square.corners):
            held.append(_holds(square.extra, _extra(table, square.corners)))
            widths.append(Z95 * square.extra.deviation)
    tally.counts["interactions"].add(held, widths)
    by_name = {(s.interaction.parameter, s.interaction.others): s for s in squares}
    for one in answers.interactions(around, chosen)[0]:
        square = by_name[one.parameter, one.others]
        if all(_lives(table, corner) for corner in square.corners):
            tally.reported += 1
            tally.wrong += _extra(table, square.corners) * square.extra.value < 0


def _effects(table: tables.Table, kind: str, steps: Sequence[Step], found: Sequence[Effect], tally: Tally) -> None:
    goal, levels = Goal(table.spec.workload, table.spec.objective), table.spec.workload.closed
    overall, each = Count(), Count()
    for step, effect in zip(steps, found, strict=True):
        low, high = _true(table, step.low), _true(table, step.high)
        overall.add([_inside(effect.ratio, float(goal.value(high) - goal.value(low)))], [_half(effect.ratio)])
        inside = [_inside(effect.per_level[lv], float(high[i] - low[i])) for i, lv in enumerate(levels)]
        each.add(inside, [_half(effect.per_level[lv]) for lv in levels])
    tally.counts[kind].add(overall.held, overall.widths)
    tally.counts[f"{kind}, levels"].add(each.held, each.widths)


def _pairs(table: tables.Table, results: Sequence[TrialResult], tally: Tally) -> None:
    spec = table.spec
    baseline = settings(spec.space, spec.baseline)

    def of(trials: Sequence[TrialResult]) -> dict[tuple[object, ...], Effect]:
        made = effects(evidence(spec.space, trials, baseline, spec.objective, spec.workload.weights))
        return {(e.parameter, e.before, e.after, e.brought): e for e in made}

    seen, true = of(results), of([_without_noise(table, result) for result in results])
    tally.paired += len({key[0] for key in seen})
    both = [(effect, true[key]) for key, effect in seen.items() if key in true]
    tally.counts["pairs"].add(
        [_inside(e.ratio, math.log(t.ratio.value)) for e, t in both], [_half(e.ratio) for e, _t in both]
    )
    levels = [(e.per_level[lv], t.per_level[lv]) for e, t in both for lv in e.per_level if lv in t.per_level]
    tally.counts["pairs, levels"].add(
        [_inside(e, math.log(t.value)) for e, t in levels], [_half(e) for e, _t in levels]
    )


def _without_noise(table: tables.Table, result: TrialResult) -> TrialResult:
    """Its figures as the table has them, with intervals as wide as they were."""
    if not result.measurements:
        return result
    rates = dict(zip(table.levels, table.cell(result.configuration).throughput, strict=True))

    def exact(seen: Measurement) -> Measurement:
        old, rate = seen.output_throughput, rates[seen.concurrency]
        if old is None or old.half_width is None:
            return seen
        half = old.half_width / old.value * rate
        return replace(seen, output_throughput=Estimate(rate, rate - half, rate + half, old.batches))

    return replace(result, measurements=tuple(map(exact, result.measurements)))


def _lives(table: tables.Table, configuration: Configuration) -> bool:
    return table.cell(configuration).death is None


def _true(table: tables.Table, configuration: Configuration) -> np.ndarray:
    return np.log(np.array(table.cell(configuration).throughput))


def _extra(table: tables.Table, corners: Sequence[Configuration]) -> float:
    goal = Goal(table.spec.workload, table.spec.objective)
    values = [float(goal.value(_true(table, corner))) for corner in corners]
    return values[3] - values[2] - values[1] + values[0]


def _holds(found: Difference, truth: float) -> bool:
    return abs(found.value - truth) <= Z95 * found.deviation


def _inside(ratio: Estimate, log_truth: float) -> bool:
    return ratio.low is not None and ratio.high is not None and ratio.low <= math.exp(log_truth) <= ratio.high


def _half(ratio: Estimate) -> float:
    if ratio.low is None or ratio.high is None:
        return math.inf
    return 0.5 * math.log(ratio.high / ratio.low)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=list(tables.NAMES), choices=tables.NAMES)
    parser.add_argument("--seeds", type=int, default=24)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--plain", action="store_true", help="the model without what it knows of a server")
    options = parser.parse_args()
    for name in options.tables:
        table, tally = tables.load(name), Tally()
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            count(table, study(table, seed, options.trials), tally, plain=options.plain)
        print(report(name, tally), flush=True)  # noqa: T201


def report(name: str, tally: Tally) -> str:
    studies = tally.studies
    lines = [
        f"\n### {name}: {studies} studies, {tally.withheld} of them without a model to be believed\n",
        "| intervals of | a study | hold the truth | half width, median | quartiles |\n|---|---|---|---|---|",
        *(tally.counts[kind].row(kind, studies) for kind in KINDS),
        f"\nFactors with an effect: {tally.factors / studies:.1f} by the model, {tally.paired / studies:.1f} out of "
        f"pairs. Left out, a server that dies being part of it: {tally.without_truth / studies:.1f} effects a study. "
        f"Interactions reported: {tally.reported / studies:.1f} a study, {tally.wrong} of {tally.reported} the wrong "
        "way round.",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
