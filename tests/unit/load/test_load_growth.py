from __future__ import annotations

import random

import pytest

from autotune.load.growth import InFlight


def queue(rate: float, service: float, arrivals: int, seed: int) -> InFlight:
    """One server that takes `service` seconds for each request, in order."""
    rng, seen = random.Random(seed), InFlight()
    now, free, ends = 0.0, 0.0, []
    for number in range(arrivals + 20):
        now += rng.expovariate(rate)
        for end in [end for end in ends if end <= now]:
            seen.change(end, -1)
            ends.remove(end)
        if number == 20:
            seen.begin(now)
        free = max(free, now) + service
        ends.append(free)
        seen.change(now, +1)
    return seen


def test_the_mean_is_over_time() -> None:
    seen = InFlight()
    seen.change(0.0, +1)
    seen.begin(1.0)
    seen.change(2.0, +1)
    seen.change(5.0, -1)
    seen.end(6.0)
    assert seen.mean == pytest.approx((1 * 1 + 2 * 3 + 1 * 1) / 5)


def test_a_window_that_never_opened_has_no_mean_and_no_growth() -> None:
    seen = InFlight()
    seen.change(1.0, +1)
    assert seen.mean is None
    assert seen.growth() is None


@pytest.mark.parametrize("seed", range(20))
def test_a_queue_at_half_its_capacity_does_not_grow(seed: int) -> None:
    assert queue(rate=5.0, service=0.1, arrivals=300, seed=seed).growth() is None


@pytest.mark.parametrize("seed", range(20))
def test_a_queue_at_twice_its_capacity_grows(seed: int) -> None:
    assert "in flight grew from" in (queue(rate=20.0, service=0.1, arrivals=300, seed=seed).growth() or "")


def test_few_arrivals_show_nothing() -> None:
    assert queue(rate=20.0, service=0.1, arrivals=30, seed=1).growth() is None
