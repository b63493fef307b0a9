from __future__ import annotations

import numpy as np
import pytest

from autotune.scoring.intervals.correlation import LENGTHS, Floats, Known, half_width


def wandering(rng: np.random.Generator, *, tau_s: float, length_s: float, count: int = 24) -> Floats:
    """Means over the parts of a window of an exponentially correlated process with variance 1 and mean 0."""
    fine = 40
    keep = np.exp(-length_s / (count * fine * tau_s))
    values, now = np.empty(count * fine), rng.normal()
    for place in range(len(values)):
        values[place] = now
        now = keep * now + np.sqrt(1 - keep**2) * rng.normal()
    return values.reshape(count, fine).mean(axis=1)


def test_a_series_without_spread_has_no_width() -> None:
    assert half_width(np.full(24, 7.0), 30.0) == 0.0


@pytest.mark.parametrize("count", LENGTHS)
def test_the_width_goes_with_the_scale_of_the_series(count: int) -> None:
    series = np.random.default_rng(1).normal(100.0, 1.0, count)
    assert half_width(1000.0 * series, 30.0) == pytest.approx(1000.0 * half_width(series, 30.0), rel=1e-6)


@pytest.mark.parametrize(("tau_s", "length_s"), [(0.01, 60.0), (5.0, 40.0), (5.0, 200.0)])
def test_the_interval_of_a_mean_holds_zero_about_as_often_as_it_says(tau_s: float, length_s: float) -> None:
    rng = np.random.default_rng(3)
    series = [wandering(rng, tau_s=tau_s, length_s=length_s) for _ in range(80)]
    widths = np.asarray([half_width(one, length_s) for one in series])
    means = np.asarray([abs(one.mean()) for one in series])
    assert np.mean(means <= widths) >= 0.88
    assert np.median(widths) < 4.5 * np.sqrt(np.mean(means**2))


def test_a_wandering_series_is_less_certain_than_its_values_in_another_order() -> None:
    rng = np.random.default_rng(4)
    series = wandering(rng, tau_s=5.0, length_s=60.0)
    assert half_width(series, 60.0) > 1.5 * half_width(rng.permutation(series), 60.0)


def test_variance_that_is_known_to_be_white_narrows_the_interval_of_a_short_window() -> None:
    series = np.random.default_rng(5).normal(100.0, 1.0, 24)
    known = Known(white=1.0, lasting=0.0, lasts_s=1.0)
    assert half_width(series, 5.0, known=known) == pytest.approx(2.069 * series.std(ddof=1) / np.sqrt(24), rel=0.02)
    assert half_width(series, 5.0) > 1.5 * half_width(series, 5.0, known=known)


def test_a_smaller_share_of_misses_asks_for_a_wider_interval() -> None:
    series = np.random.default_rng(6).normal(100.0, 1.0, 12)
    assert half_width(series, 30.0, missed=0.01) > half_width(series, 30.0)
