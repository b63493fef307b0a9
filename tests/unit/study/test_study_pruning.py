"""When a trial is stopped before its last level, by the rule alone: expectations are made by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from builders import estimate, measurement

from autotune.domain.measurement import Estimate, Measurement, Objective
from autotune.domain.workload import Workload
from autotune.study.early_stopping.pruning import Expectation, Incumbent, Screen, by_information
from autotune.study.model.goal import Goal

LEVELS = (1, 16, 64)
BASELINE = {1: 100.0, 16: 800.0, 64: 2000.0}
NO_ERRORS = np.zeros((20, 3))


def covariance(deviation: float, correlation: float) -> np.ndarray:
    return deviation**2 * (correlation + (1.0 - correlation) * np.eye(3))


def screen(
    expectation: Expectation | None = None, metric: str = "weighted_speedup", best: Estimate | None = None
) -> Screen:
    """The baseline's figures are expected, by 20 % and nearly all of it common to the levels; the best has 1.12."""
    workload = Workload(dict.fromkeys(LEVELS, 1.0))
    baseline = np.log(np.array(list(BASELINE.values())))
    return Screen(
        metric,
        Goal(workload, Objective(metric)),
        LEVELS,
        (64, 16, 1),
        expectation or Expectation(baseline, covariance(0.2, 0.98), NO_ERRORS, 2.6),
        baseline,
        Incumbent(5, best or estimate(1.12, 0.02)),
    )


def seen(level: int, ratio: float, half_width: float = 0.01) -> Measurement:
    """At `ratio` of the baseline, its interval relative."""
    rate = BASELINE[level] * ratio
    return Measurement(level, 60, 60, output_throughput=estimate(rate, rate * half_width))


def test_a_trial_that_is_far_behind_at_the_first_level_is_stopped_with_its_bound() -> None:
    bound = screen().bound([seen(64, 0.7)])
    assert bound is not None
    assert (bound.holder, bound.measured, sorted(bound.optimistic)) == (5, (64,), [1, 16])
    above = 2.6 * 0.2 * math.sqrt(1 - 0.98**2)
    assert bound.score == pytest.approx(0.7 * math.exp(above * 2 / 3) * 1.01 ** (1 / 3), rel=0.02)
    assert str(bound).startswith("stopped after level 64: at most 0.76 x, the best (trial 5) has 1.12 ± 0.02")


def test_one_that_can_still_reach_the_interval_of_the_best_goes_on() -> None:
    assert screen().bound([seen(64, 1.08)]) is None


def test_a_winner_that_is_slow_at_the_first_level_goes_on_where_levels_say_little_of_each_other() -> None:
    loose = Expectation(np.log(np.array(list(BASELINE.values()))), covariance(0.4, 0.2), NO_ERRORS, 2.6)
    assert screen(loose).bound([seen(64, 0.7)]) is None


def test_errors_of_the_expectation_at_earlier_trials_count_though_the_model_is_sure_of_itself() -> None:
    tight = screen().expectation
    once_wrong = np.vstack([np.zeros((19, 3)), [[1.0, 0.0, 0.0]]])
    assert screen(tight).bound([seen(64, 0.8), seen(16, 0.8)]) is not None
    assert screen(replace(tight, errors=once_wrong)).bound([seen(64, 0.8), seen(16, 0.8)]) is None


def test_no_level_is_put_lower_than_the_best_ratio_that_was_measured_allows() -> None:
    opposite = np.array([[0.04, -0.039, 0.0], [-0.039, 0.04, 0.0], [0.0, 0.0, 0.0001]])
    expectation = Expectation(np.log(np.array(list(BASELINE.values()))), opposite, NO_ERRORS, 2.6)
    bound = screen(expectation, best=estimate(2.0, 0.02)).bound([seen(64, 1.0), seen(1, 1.5)])
    assert bound is not None
    assert bound.optimistic[16] == pytest.approx(800.0 * 1.5 * 1.01)


def test_the_upper_end_of_a_measured_interval_counts_not_its_middle() -> None:
    assert screen().bound([seen(64, 1.0), seen(16, 1.0)]) is not None
    assert screen().bound([seen(64, 1.0, 0.3), seen(16, 1.0, 0.3)]) is None


@pytest.mark.parametrize(
    "measurements",
    [(), (seen(64, 0.1), seen(16, 0.1), seen(1, 0.1)), (measurement(64, None),), (seen(64, 0.0),)],
    ids=["nothing measured", "all measured", "no figure", "no token"],
)
def test_there_is_no_bound_where_there_is_nothing_to_save_or_nothing_to_say(
    measurements: tuple[Measurement, ...],
) -> None:
    assert screen().bound(measurements) is None


def test_a_best_without_an_interval_stops_nobody() -> None:
    assert screen(best=Estimate(1.12)).bound([seen(64, 0.1)]) is None


def test_a_throughput_is_bounded_in_tokens_a_second() -> None:
    bound = screen(metric="weighted_throughput", best=estimate(1500.0, 20.0)).bound([seen(64, 0.5)])
    assert bound is not None
    assert 483 < bound.score < 800
    assert bound.at_most.endswith(" tok/s")


def test_a_node_that_has_become_slower_since_the_first_baseline_stops_no_trial_for_that() -> None:
    slower = replace(screen(), drift=math.log(0.8))
    assert screen().bound([seen(64, 0.85)]) is not None
    assert slower.bound([seen(64, 0.85)]) is None
    bound = slower.bound([seen(64, 0.5)])
    assert bound is not None
    assert bound.optimistic[1] < 100.0 * 0.75  # what would be measured now
    assert bound.score == pytest.approx(0.5 / 0.8 * 1.08, rel=0.05)  # as of the first baseline


def test_the_level_that_explains_most_per_second_is_first_and_a_copy_of_it_last() -> None:
    together = np.array([[0.04, 0.04, 0.0], [0.04, 0.0401, 0.0], [0.0, 0.0, 0.02]])
    expectation = Expectation(np.zeros(3), together, NO_ERRORS, 2.6)
    shares = np.array([1.0, 1.0, 1.0]) / 3
    assert by_information(expectation, shares, np.array([10.0, 11.0, 10.0])) == [0, 2, 1]
    assert by_information(expectation, shares, np.array([1000.0, 1100.0, 10.0])) == [2, 0, 1]
