"""When a study ends."""

from __future__ import annotations

from made_up_node import BASELINE, failed, result

from autotune.domain.study import Budget
from autotune.domain.trial import TrialResult, TrialState
from autotune.study.budget import spent


def complete(count: int, hours: float) -> list[TrialResult]:
    return [result(number, BASELINE, 1.0, hours=hours) for number in range(count)]


def test_without_bounds_it_never_ends() -> None:
    assert spent(Budget(), complete(500, 10.0)) is None


def test_trials_are_counted_whatever_came_of_them_but_for_interrupted_ones() -> None:
    results = [
        result(0, BASELINE, 1.0),
        failed(1, BASELINE, TrialState.INFEASIBLE),
        failed(2, BASELINE, TrialState.FAILED),
        failed(3, BASELINE, TrialState.INTERRUPTED),
    ]
    assert spent(Budget(trials=3), results) == "3 trials, as the budget asks"
    assert spent(Budget(trials=4), results) is None


def test_node_hours_count_failures_and_interrupted_trials_too() -> None:
    results = [failed(0, BASELINE, TrialState.INTERRUPTED, hours=0.5), failed(1, BASELINE, TrialState.FAILED, hours=1)]
    assert spent(Budget(hours=1.5), results) == "1.5 node hours used, of 1.5"
    assert spent(Budget(hours=1.6), results) is None


def test_a_trial_of_which_most_would_lie_beyond_the_hours_is_not_started() -> None:
    assert spent(Budget(hours=2.3), complete(2, 1.0)) == (
        "2 node hours used, of 2.3: the next trial would take about 1 h, and most of it would be too much"
    )
    assert spent(Budget(hours=2.6), complete(2, 1.0)) is None


def test_the_bound_that_is_reached_first_ends_it() -> None:
    assert spent(Budget(trials=2, hours=100), complete(2, 1.0)) == "2 trials, as the budget asks"
    assert spent(Budget(trials=100, hours=2), complete(2, 1.0)) == "2 node hours used, of 2"
