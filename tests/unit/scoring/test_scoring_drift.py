from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from builders import configuration, estimate, provenance, score, spec, trial

from autotune.domain.trial import Origin, TrialResult, TrialState
from autotune.scoring.trials.drift import Curve, Repeat, Standing, study_clock
from autotune.scoring.trials.readings import Reading

SPEC = spec()


def curve(values: Sequence[float], hours: Sequence[float] | None = None, window: float = 0.003) -> Curve:
    times = hours or [0.5 * place for place in range(len(values))]
    readings = [Reading(value, window**2, 10.0) for value in values]
    return Curve([Repeat(time, reading) for time, reading in zip(times, readings, strict=True)])


def study(*ratios: tuple[str, float]) -> list[TrialResult]:
    """`b` is a run of the baseline, `t` another trial; half an hour each."""
    found = []
    for number, (kind, ratio) in enumerate(ratios):
        base = kind == "b"
        found.append(
            trial(
                number,
                333.0 * ratio,
                origin=Origin.BASELINE if base else Origin.GREEDY,
                **({"configuration": configuration()} if base else {}),
                node_seconds=1800.0,
            )
        )
    return found


def test_one_measurement_says_nothing_of_drift_and_corrects_nothing() -> None:
    standing = Standing(SPEC, study(("b", 1.0), ("t", 1.1), ("t", 0.9)))
    assert standing.drift() is None
    corrected = standing.corrected(study(("b", 1.0), ("t", 1.1))[1])
    assert corrected is not None
    assert corrected.value == pytest.approx(333.0 * 1.1)


def test_repeats_that_agree_show_no_drift_and_leave_scores_nearly_as_they_are() -> None:
    found = curve([0.0, 0.003, -0.002, 0.004, 0.0])
    change, variance = found.change(found.last, found.first)
    assert abs(change) < 0.002
    assert abs(change) < 1.96 * math.sqrt(variance)


@pytest.mark.parametrize(("window", "is_told"), [(0.003, True), (0.01, True), (0.05, False), (0.3, False)])
def test_where_the_windows_are_wide_neither_drift_nor_launches_are_told_of(window: float, is_told: bool) -> None:
    found = curve([0.0, window, -0.7 * window], [0.0, 0.15, 0.3], window)
    assert found.tells_of_drift is is_told
    assert found.tells_of_launches is is_told


def test_a_drift_or_luck_that_is_large_is_told_of_beside_any_window() -> None:
    assert curve([-0.3 * place for place in range(6)], window=0.05).tells_of_drift
    assert curve([0.0, 0.05, -0.04, 0.06, -0.05, 0.04], window=0.02).tells_of_launches


def test_repeats_at_one_moment_tell_of_no_drift() -> None:
    assert not curve([0.0, 0.1], [1.0, 1.0]).tells_of_drift
    at_once = [replace(one, node_seconds=0.0) for one in study(("b", 1.0), ("b", 1.0))]
    drift = Standing(SPEC, at_once).drift()
    assert drift is not None
    assert not drift.told


def test_a_level_that_tells_of_no_drift_has_no_figure_for_it() -> None:
    trials = [
        replace(
            one,
            measurements=(one.measurements[0], replace(one.measurements[1], output_throughput=estimate(300.0, 60.0))),
        )
        for one in study(("b", 1.0), ("t", 1.05), ("b", 1.0), ("b", 1.0))
    ]
    drift = Standing(SPEC, trials).drift()
    assert drift is not None
    assert drift.levels[1] is not None
    assert drift.levels[10] is None


def test_a_steady_drift_is_followed_and_its_interval_holds_it() -> None:
    found = curve([-0.02 * place for place in range(6)])
    change, variance = found.change(found.last, found.first)
    assert change == pytest.approx(-0.1, abs=0.015)
    assert abs(change + 0.1) < 1.96 * math.sqrt(variance)
    middle, _ = found.at(1.25)
    assert middle == pytest.approx(-0.05, abs=0.01)


def test_launches_that_differ_back_and_forth_are_luck_and_not_drift() -> None:
    found = curve([0.0, 0.04, -0.01, 0.035, 0.0, 0.04])
    change, _variance = found.change(found.last, found.first)
    assert math.sqrt(found.launch_variance) > 0.012
    assert abs(change) < 0.02


def test_the_same_difference_is_trusted_less_between_two_repeats_than_after_many() -> None:
    two, many = curve([0.0, -0.04]), curve([0.0, 0.001, -0.001, -0.04, -0.041, -0.039])
    assert abs(two.change(two.last, two.first)[0]) < 0.6 * abs(many.change(many.last, many.first)[0])


def test_uncertainty_grows_with_the_time_since_the_last_repeat() -> None:
    found = curve([0.0, -0.02, -0.04])
    assert found.at(1.0)[1] < found.at(2.0)[1] < found.at(4.0)[1]


def test_trials_of_a_slow_hour_are_lifted_and_the_raw_figures_stay() -> None:
    trials = study(("b", 1.0), ("t", 1.05), ("b", 0.97), ("b", 0.94), ("t", 0.96), ("b", 0.91), ("b", 0.88))
    drift = Standing(SPEC, trials).drift()
    assert drift is not None
    assert drift.seen
    assert drift.repeats == 5
    assert drift.change.value == pytest.approx(0.88, abs=0.02)
    assert set(drift.levels) == {1, 10}
    early, late = drift.corrected[1], drift.corrected[4]
    assert early.value / 333.0 == pytest.approx(1.05, abs=0.035)
    assert late.value / 333.0 == pytest.approx(0.96 / 0.925, abs=0.025)
    assert trials[4].score is not None
    assert trials[4].score.estimate.value == pytest.approx(333.0 * 0.96)
    assert early.half_width is not None
    assert early.half_width > 1.0, "launch and drift are in it, beside the window"


def test_ratios_and_their_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    rng = random.Random(5)
    inside = 0
    for _ in range(200):
        state, trials = 0.0, []
        for kind in "bttbttbtt":
            state += rng.gauss(0.0, 0.01)
            value = math.exp(state + rng.gauss(0.0, 0.006) + (0.05 if kind == "t" else 0.0))
            trials.append((kind, value))
        made = study(*trials)
        ratio = Standing(SPEC, made).ratio(made[4])
        assert ratio is not None
        inside += (ratio.low or 0.0) <= math.exp(0.05) <= (ratio.high or 9.9)
    assert inside >= 180


def test_failed_repeats_and_runs_of_other_configurations_are_no_repeats() -> None:
    trials = study(("b", 1.0), ("t", 1.1))
    trials.append(trial(2, None, origin=Origin.BASELINE, configuration=configuration()))
    trials.append(trial(3, 300.0, origin=Origin.CONFIRMATION, configuration=configuration()))
    assert Standing(SPEC, trials).drift() is None


def test_a_trial_without_a_figure_has_no_ratio() -> None:
    trials = [*study(("b", 1.0)), trial(1, None)]
    standing = Standing(SPEC, trials)
    assert standing.ratio(trials[1]) is None
    assert standing.corrected(trials[1]) is None
    assert Standing(SPEC, [trial(1, 300.0)]).ratio(trial(1, 300.0)) is None, "no baseline"


def test_the_clock_counts_node_time_and_the_pause_before_a_resumed_trial() -> None:
    first = trial(0, node_seconds=600.0, started_at="2026-01-01T00:00:00+00:00")
    second = trial(1, node_seconds=600.0, started_at="2026-01-01T00:10:30+00:00")
    third = trial(2, node_seconds=600.0, started_at="2026-01-01T09:20:30+00:00")
    clock = study_clock([first, second, third])
    assert [clock[number] * 3600 for number in range(3)] == pytest.approx([300, 900, 600 + 600 + 9 * 3600 + 300])


def test_the_clock_of_a_simulated_node_reads_pauses_at_its_own_rate() -> None:
    fast = provenance(simulated=True, clock_rate=60.0)
    first = trial(0, node_seconds=600.0, started_at="2026-01-01T00:00:00+00:00", provenance=fast)
    second = trial(1, node_seconds=600.0, started_at="2026-01-01T00:01:10+00:00", provenance=fast)
    clock = study_clock([first, second])
    assert clock[1] * 3600 == pytest.approx(4200 + 300)


def test_a_score_in_the_recorded_units_is_corrected_whatever_the_metric() -> None:
    trials = study(("b", 1.0), ("b", 0.9), ("b", 0.8), ("t", 0.9))
    speedup = score(0.9, 0.01, metric="weighted_speedup")
    trials[3] = trial(3, 333.0 * 0.9, score=speedup, node_seconds=1800.0)
    corrected = Standing(SPEC, trials).corrected(trials[3])
    assert corrected is not None
    assert 1.0 < corrected.value < 1.2


def test_states_other_than_complete_teach_nothing() -> None:
    trials = study(("b", 1.0), ("b", 0.5))
    trials[1] = trial(1, 100.0, origin=Origin.BASELINE, configuration=configuration(), state=TrialState.INTERRUPTED)
    assert len(Standing(SPEC, trials).repeats) == 1
