from __future__ import annotations

import numpy as np
import pytest

from autotune.scoring.intervals.stationarity import warm_up_parts


def steady(seed: int, count: int = 24) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return 100.0 + np.random.default_rng(seed).normal(0.0, 1.0, count)


def test_a_steady_series_is_hardly_ever_cut() -> None:
    assert sum(warm_up_parts(steady(seed), 60.0) > 0 for seed in range(200)) <= 6


@pytest.mark.parametrize("slow", [2, 4, 8])
def test_a_slow_beginning_is_cut_where_it_ends(slow: int) -> None:
    series = steady(1)
    series[:slow] *= 0.7
    assert slow <= warm_up_parts(series, 60.0) <= slow + 2


def test_a_fast_beginning_is_warm_up_too() -> None:
    series = steady(2)
    series[:5] *= 1.3
    assert 5 <= warm_up_parts(series, 60.0) <= 7


def test_no_more_than_half_is_ever_cut() -> None:
    assert warm_up_parts(np.linspace(50.0, 100.0, 24), 60.0) <= 12


def test_a_series_too_short_to_have_halves_is_left_alone() -> None:
    assert warm_up_parts(np.asarray([1.0, 100.0, 100.0, 100.0, 100.0, 100.0]), 60.0) == 0
