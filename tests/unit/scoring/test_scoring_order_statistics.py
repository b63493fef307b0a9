"""Intervals of percentiles by ranks."""

from __future__ import annotations

import math

import numpy as np
import pytest

from autotune.scoring.order_statistics import percentile_interval, ranks


def below(count: int, quantile: float, successes: int) -> float:
    """P(Bin(count, quantile) <= successes), term by term."""
    return sum(math.comb(count, k) * quantile**k * (1 - quantile) ** (count - k) for k in range(successes + 1))


@pytest.mark.parametrize(("count", "quantile"), [(20, 0.5), (100, 0.95), (400, 0.99), (37, 0.5)])
def test_the_ranks_are_the_innermost_with_2_5_percent_outside_on_either_side(count: int, quantile: float) -> None:
    low, high = ranks(count, quantile)
    assert low is not None
    assert high is not None
    assert below(count, quantile, low - 1) <= 0.025 < below(count, quantile, low)
    assert 1 - below(count, quantile, high - 1) <= 0.025 < 1 - below(count, quantile, high - 2)


@pytest.mark.parametrize(("quantile", "needed"), [(0.5, 6), (0.95, 72), (0.99, 368)])
def test_fewer_samples_than_it_takes_leave_the_upper_end_open(quantile: float, needed: int) -> None:
    assert ranks(needed - 1, quantile)[1] is None
    assert ranks(needed, quantile)[1] == needed


def test_very_many_samples_are_ranked_as_by_the_normal_distribution() -> None:
    exact, nearly = ranks(20_000, 0.95), ranks(20_001, 0.95)
    assert None not in (*exact, *nearly)
    assert all(abs(a - b) <= 3 for a, b in zip(exact, nearly, strict=True) if a is not None and b is not None)


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    truth = -math.log(0.05)  # 95th percentile of an exponential
    held = 0
    for _ in range(1000):
        low, high = percentile_interval(np.sort(rng.exponential(size=200)), 0.95, 200)
        assert low is not None
        assert high is not None
        held += low <= truth <= high
    assert held >= 940


def test_samples_that_come_in_groups_count_as_so_many_as_there_are_groups() -> None:
    samples = np.sort(np.repeat(np.arange(1.0, 101.0), 50))
    assert percentile_interval(samples, 0.5, 100) == pytest.approx(percentile_interval(np.arange(1.0, 101.0), 0.5, 100))
    narrow = percentile_interval(samples, 0.5, len(samples))
    assert narrow[0] is not None
    assert narrow[0] > 45


def test_nothing_has_no_interval() -> None:
    assert percentile_interval(np.empty(0), 0.5, 0) == (None, None)
