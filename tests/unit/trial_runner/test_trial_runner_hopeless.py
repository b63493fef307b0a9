"""A level of a trial that ends before the asked precision, as the screen will give the trial up for what it shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from builders import estimate, measurement, plan

from autotune.domain.measurement import Estimate, Measurement, Objective
from autotune.domain.workload import Prompt, Workload
from autotune.scoring.intervals.stopping import WarmAndPrecise
from autotune.study.early_stopping.pruning import Expectation, Incumbent, Screen
from autotune.study.model.goal import Goal
from autotune.trial_runner.ending import bound_after, hopeless_at, with_rule

LEVELS = (1, 16, 64)
BASELINE = {1: 100.0, 16: 800.0, 64: 2000.0}
FIRST = plan(64).levels[0]


class Plenty:
    """Only counts."""

    capacity, position = 10**9, 0

    def take(self, count: int) -> list[Prompt]:
        raise NotImplementedError


TOGETHER = 0.04 * (0.98 + 0.02 * np.eye(3))
AGAINST = 0.0025 * np.array([[1.0, 0.9, -0.9], [0.9, 1.0, -0.9], [-0.9, -0.9, 1.0]])
"""Level 64 is low where the others are high."""


def screen(covariance: np.ndarray = TOGETHER) -> Screen:
    """The baseline's figures are expected; the best has 1.12 ± 0.02 x."""
    baseline = np.log(np.array(list(BASELINE.values())))
    return Screen(
        "weighted_speedup",
        Goal(Workload(dict.fromkeys(LEVELS, 1.0)), Objective("weighted_speedup")),
        LEVELS,
        (64, 16, 1),
        Expectation(baseline, covariance, np.zeros((20, 3)), 2.6),
        baseline,
        Incumbent(5, estimate(1.12, 0.02)),
    )


def figure(level: int, ratio: float, half_width: float) -> Estimate:
    """At `ratio` of the baseline; the half-width relative to it."""
    return estimate(BASELINE[level] * ratio, BASELINE[level] * ratio * half_width)


def why(found: Estimate, before: Sequence[Measurement] = (), *, level: int = 64, judge: Screen | None = None) -> str:
    hopeless = hopeless_at(replace(FIRST, concurrency=level), judge or screen(), before)
    assert hopeless is not None
    return hopeless(found)


def test_a_level_far_behind_is_hopeless_though_its_interval_is_wide_and_the_figures_are_told() -> None:
    assert why(figure(64, 0.6, 0.1)) == (
        "ended before the asked precision: anywhere from 1080 to 1320 tok/s here, the trial comes to at most 0.71 x, "
        "the best (trial 5) has 1.12 ± 0.02"
    )


def test_a_level_is_not_hopeless_while_its_interval_reaches_what_the_best_needs() -> None:
    assert why(figure(64, 0.9, 0.02)) != ""
    assert why(figure(64, 0.9, 0.2)) == ""


def test_a_contender_is_not_hopeless() -> None:
    assert why(figure(64, 1.08, 0.02)) == ""


@pytest.mark.parametrize(
    "found", [Estimate(100.0), Estimate(100.0, -20.0, 220.0)], ids=["no interval", "an interval that reaches zero"]
)
def test_a_figure_that_says_too_little_is_not_hopeless(found: Estimate) -> None:
    assert why(found) == ""


def test_both_ends_of_the_interval_are_asked_where_levels_pull_against_each_other() -> None:
    low, high = (why(figure(64, ratio, 0.0), judge=screen(AGAINST)) for ratio in (0.3, 0.9))
    assert (low, high != "") == ("", True)
    assert why(figure(64, 0.6, 0.5), judge=screen(AGAINST)) == ""


def test_the_last_level_of_a_trial_is_measured_to_its_precision_since_a_score_comes_of_it() -> None:
    before = [measurement(64, 1000.0, 5.0), measurement(16, 400.0, 2.0)]
    assert why(figure(16, 0.5, 0.1), before[:1], level=16) != ""
    assert why(figure(1, 0.5, 0.1), before, level=1) == ""


def test_an_earlier_passage_of_the_same_level_is_left_out() -> None:
    disturbed = measurement(64, 20_000.0, 5.0)
    assert why(figure(64, 0.6, 0.1), [disturbed]) == why(figure(64, 0.6, 0.1))


def test_what_is_hopeless_at_a_look_is_given_up_after_the_level() -> None:
    judge, rng = screen(), np.random.default_rng(3)
    given_up = 0
    for ratio, half in zip(rng.uniform(0.6, 1.2, 300), rng.uniform(0.01, 0.3, 300), strict=True):
        looked = figure(64, ratio, 1.5 * half)
        if why(looked, judge=judge):
            given_up += 1
            shown = measurement(64, looked.value, looked.value * half)
            after = bound_after(judge, [shown], precision=0.02)
            assert after is not None
            assert after.score < 1.10
    assert 50 < given_up < 250


def test_the_bound_on_record_holds_all_over_the_interval_of_a_level_that_ended_early() -> None:
    wide = [measurement(64, 1200.0, 120.0)]
    loose, exact = bound_after(screen(), wide, precision=0.02), screen().bound(wide)
    assert loose is not None
    assert exact is not None
    assert loose.score > exact.score
    inside = [replace(wide[0], output_throughput=Estimate(value, 1080.0, 1320.0)) for value in (1080.0, 1200.0, 1320.0)]
    bounds = [screen().bound([seen]) for seen in inside]
    assert max(bound.score for bound in bounds if bound is not None) == pytest.approx(loose.score)
    assert loose.measured == (64,)


def test_without_a_precision_a_trial_is_judged_by_its_figures_as_they_are() -> None:
    wide = [measurement(64, 1200.0, 120.0)]
    assert bound_after(screen(), wide, precision=None) == screen().bound(wide)


def test_without_a_screen_nothing_changes() -> None:
    hopeless = hopeless_at(FIRST, None, ())
    level = with_rule(plan(64), FIRST, Plenty(), precision=0.02, promised=0, hopeless=hopeless)
    assert level.rule == WarmAndPrecise(0.02)
    assert bound_after(None, [measurement(64, 1.0, 0.01)], precision=0.02) is None


def test_the_rule_of_a_screened_trial_asks_the_screen() -> None:
    hopeless = hopeless_at(FIRST, screen(), ())
    level = with_rule(plan(64), FIRST, Plenty(), precision=0.02, promised=0, hopeless=hopeless)
    assert level.rule == WarmAndPrecise(0.02, hopeless)


def test_a_level_without_a_figure_is_left_to_the_screen() -> None:
    assert bound_after(screen(), [measurement(64, None)], precision=0.02) is None
