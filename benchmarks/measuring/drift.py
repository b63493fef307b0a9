"""A node that drifts while it is searched: how well are trials ranked with the correction, and without?

    python -m benchmarks.measuring.drift            # 60 studies of each kind: 12 minutes
    python -m benchmarks.measuring.drift --quick    # 6 of each: 1 minute

Every factor has an effect (made_up_node.every_factor). Both studies of a pair have the same budget of trials, in which
the baseline's repeats count, the same seed and the same node. No confirmation: what is looked at is the ranking.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np

from autotune.domain.configuration import Configuration
from autotune.domain.study import Budget, StudyResult
from benchmarks.measuring.aa import spread
from benchmarks.measuring.command import options_of, say, under
from benchmarks.measuring.made_up_node import (
    FACTORS,
    MEASURING_S,
    START_S,
    VALUES,
    Drift,
    Effect,
    Node,
    Noise,
    every_factor,
    linear,
    run,
    screening,
    step,
)

TRIALS = 40
HOURS = TRIALS * (START_S + MEASURING_S) / 3600
DRIFTS: dict[str, Drift] = {
    "none": lambda _hours: 0.0,
    "-5 % an hour": linear(-0.05),
    "+5 % an hour": linear(0.05),
    "a step of -8 % half-way": step(-0.08, HOURS / 2),
    "a step of +8 % half-way": step(0.08, HOURS / 2),
}


@dataclass(frozen=True)
class Ranking:
    """`regret`: of the trial that is chosen, against the best of the space. `correlation`: Spearman's, of the trials'
    scores with the truth. `tau`: share of pairs of trials in the wrong order, of those that truly differ by over 2 %.
    `gain`: what the verdict says of the best against the baseline, less the truth."""

    regret: float
    correlation: float
    wrong: float
    gain: float


@dataclass(frozen=True)
class Pair:
    """One seed: without repeats of the baseline; with them, uncorrected; with them, corrected."""

    once: Ranking
    raw: Ranking
    corrected: Ranking
    repeats: int
    seen: bool


def one(drift: str, seed: int) -> Pair:
    effect = every_factor(seed)
    noise = Noise(drift=DRIFTS[drift])
    once = run(Node(seed, noise, effect), Budget(trials=TRIALS))
    repeated = run(Node(seed, noise, effect), Budget(trials=TRIALS, baseline_every="auto"))
    seen = repeated.drift is not None and repeated.drift.seen
    repeats = repeated.drift.repeats if repeated.drift is not None else 1
    return Pair(ranking(once, effect), ranking(screening(repeated), effect), ranking(repeated, effect), repeats, seen)


def ranking(result: StudyResult, effect: Effect) -> Ranking:
    trials = [t for t in result.complete if t.configuration != result.spec.baseline]
    scores = np.array([result.corrected(t).value for t in trials])
    truths = np.array([effect(t.configuration) for t in trials])
    best, baseline = result.best, result.baseline
    assert best is not None
    assert baseline is not None
    said = result.corrected(best).value / result.corrected(baseline).value
    return Ranking(
        regret=1 - effect(best.configuration) / optimum(effect),
        correlation=spearman(scores, truths),
        wrong=wrong_order(scores, truths),
        gain=said - effect(best.configuration),
    )


def optimum(effect: Effect) -> float:
    names = [f"factor_{number}" for number in range(FACTORS)]
    space = itertools.product(range(VALUES), repeat=FACTORS)
    return max(effect(Configuration(dict(zip(names, values, strict=True)))) for values in space)


def spearman(one: np.ndarray, other: np.ndarray) -> float:
    ranks = [values.argsort().argsort().astype(float) for values in (one, other)]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def wrong_order(scores: np.ndarray, truths: np.ndarray) -> float:
    pairs = [(a, b) for a, b in itertools.combinations(range(len(truths)), 2) if abs(truths[a] / truths[b] - 1) > 0.02]
    return sum((scores[a] - scores[b]) * (truths[a] - truths[b]) < 0 for a, b in pairs) / max(1, len(pairs))


def rows(drift: str, pairs: Sequence[Pair]) -> list[str]:
    repeats = statistics.fmean(pair.repeats for pair in pairs)
    seen = sum(pair.seen for pair in pairs)
    found = []
    for name, chosen in (
        ("baseline once", [pair.once for pair in pairs]),
        ("baseline repeated, raw", [pair.raw for pair in pairs]),
        ("baseline repeated, corrected", [pair.corrected for pair in pairs]),
    ):
        mean = statistics.fmean(r.regret for r in chosen)
        ratio = statistics.fmean(r.regret for r in chosen) / max(1e-9, statistics.fmean(p.once.regret for p in pairs))
        cells = [
            drift,
            name,
            f"{mean * 100:.2f}; {spread([r.regret for r in chosen])}",
            f"{ratio:.2f}",
            spread([r.correlation for r in chosen], 1.0),
            spread([r.wrong for r in chosen]),
            spread([r.gain for r in chosen]),
            f"{repeats:.1f}; {seen} of {len(pairs)}" if name.endswith("corrected") else "",
        ]
        found.append("| " + " | ".join(cells) + " |")
    return found


HEADER = (
    "| drift | study | regret of the chosen, %: mean; median (quartiles) | mean against `once` | rank correlation "
    "| pairs in the wrong order, % | gain overstated by, % points | baseline measured; drift claimed |"
)


def main() -> None:
    options = options_of(__doc__, studies=60, only="kinds of drift")
    count = 6 if options.quick else options.studies
    say(f"{count} studies of {TRIALS} trials ({HOURS:.1f} node hours) each\n\n{HEADER}")
    say(under(HEADER))
    with ProcessPoolExecutor(options.processes) as pool:
        for drift in (name for name in DRIFTS if options.only in name):
            say("\n".join(rows(drift, list(pool.map(partial(one, drift), range(count))))))


if __name__ == "__main__":
    main()
