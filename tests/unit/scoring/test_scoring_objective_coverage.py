"""The interval of a score holds the true score as often as it says, whatever the levels' own intervals are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from builders import measurement

from autotune.domain.measurement import Estimate, Measurement, Objective
from autotune.scoring import compare, score
from autotune.scoring.student import t_quantile

WEIGHTS = {1: 1.0, 10: 2.0, 70: 3.0}
TRUE = {1: 90.0, 10: 450.0, 70: 750.0}
RUNS = 300


def levels(
    rng: np.random.Generator, batches: Mapping[int, int], errors: Mapping[int, float]
) -> tuple[Measurement, ...]:
    """Each level as a mean of so many normal batches, with Student's interval; `errors` are relative, of the mean."""
    found = []
    for level, true in TRUE.items():
        count = batches[level]
        seen = rng.normal(true, errors[level] * true * np.sqrt(count), count)
        value, half = seen.mean(), t_quantile(count - 1) * seen.std(ddof=1) / np.sqrt(count)
        found.append(measurement(level, output_throughput=Estimate(value, value - half, value + half, batches=count)))
    return tuple(found)


def share(held: Sequence[bool]) -> float:
    return float(np.mean(held))


CASES = [
    ({1: 24, 10: 24, 70: 24}, {1: 0.02, 10: 0.02, 70: 0.02}),
    ({1: 6, 10: 24, 70: 24}, {1: 0.05, 10: 0.01, 70: 0.01}),
    ({1: 6, 10: 6, 70: 6}, {1: 0.01, 10: 0.02, 70: 0.04}),
]


@pytest.mark.parametrize(("batches", "errors"), CASES)
def test_a_weighted_throughput(batches: Mapping[int, int], errors: Mapping[int, float]) -> None:
    rng, held = np.random.default_rng(1), []
    truth = sum(WEIGHTS[level] * TRUE[level] for level in TRUE) / sum(WEIGHTS.values())
    for _ in range(RUNS):
        made = score(levels(rng, batches, errors), Objective(), WEIGHTS, None)
        assert made is not None
        assert made.estimate.low is not None
        assert made.estimate.high is not None
        held.append(made.estimate.low <= truth <= made.estimate.high)
    assert 0.915 <= share(held) <= 0.985


@pytest.mark.parametrize(("batches", "errors"), CASES)
def test_a_weighted_speedup_with_the_error_of_the_baseline(
    batches: Mapping[int, int], errors: Mapping[int, float]
) -> None:
    rng, held = np.random.default_rng(2), []
    for _ in range(RUNS):
        mine, theirs = levels(rng, batches, errors), levels(rng, batches, errors)
        made = score(mine, Objective("weighted_speedup"), WEIGHTS, theirs)
        assert made is not None
        assert made.estimate.low is not None
        assert made.estimate.high is not None
        held.append(made.estimate.low <= 1.0 <= made.estimate.high)
    assert 0.915 <= share(held) <= 0.985


def test_a_ratio_of_weighted_throughputs_is_called_better_or_worse_for_nothing_once_in_twenty() -> None:
    rng = np.random.default_rng(3)
    batches, errors = CASES[0]
    verdicts = []
    for _ in range(RUNS):
        found = compare(levels(rng, batches, errors), levels(rng, batches, errors), Objective(), WEIGHTS)
        assert found is not None
        verdicts.append(found.verdict != "unclear")
    assert 0.015 <= share(verdicts) <= 0.085
