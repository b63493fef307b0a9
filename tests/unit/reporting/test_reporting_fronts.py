"""The front of per-request rate and throughput, and the best of each level."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import eagle, measurement, spec, study_result, trial, workload

from autotune.domain.slo import SloCheck
from autotune.domain.study import StudyResult
from autotune.domain.trial import TrialResult
from autotune.reporting import best_at, clearness, markdown_report, summary, terminal_report
from autotune.reporting.sections.front_views import front_line, front_plot, front_rows
from autotune.reporting.sections.fronts import best_per_level, front, left_out, points


def shown(number: int, low: float, high: float, half: float | None = 1.0, **overrides: object) -> TrialResult:
    """`low` tok/s at level 1, `high` at level 10."""
    levels = (measurement(1, low, half), measurement(10, high, half))
    return trial(number, 300.0, measurements=levels, **overrides)


def study(*trials: TrialResult) -> StudyResult:
    return study_result(*trials)


def on_front(*trials: TrialResult) -> list[tuple[int, int]]:
    return [(p.trial.number, p.level) for p in front(points(study(*trials)))]


def test_levels_trade_one_for_the_other_so_that_each_has_its_point() -> None:
    assert on_front(shown(0, 100.0, 500.0)) == [(0, 1), (0, 10)]


def test_what_is_clearly_below_on_both_axes_is_not_on_the_front() -> None:
    assert on_front(shown(0, 100.0, 500.0), shown(1, 120.0, 450.0)) == [(1, 1), (0, 10)]


def test_what_differs_by_noise_stays_on_the_front() -> None:
    assert on_front(shown(0, 100.0, 500.0), shown(1, 101.0, 501.2)) == [(1, 1), (0, 1), (1, 10), (0, 10)]
    assert on_front(shown(0, 100.0, 500.0), shown(1, 101.5, 501.5)) == [(1, 1), (1, 10)]


def test_what_is_better_on_one_axis_alone_takes_nothing_from_the_front() -> None:
    dense = shown(1, 130.0, 400.0)
    assert on_front(shown(0, 100.0, 500.0), dense) == [(1, 1), (0, 10)]
    assert (1, 10) not in on_front(shown(0, 100.0, 500.0), dense)


def test_points_without_an_interval_are_compared_by_their_values() -> None:
    assert on_front(shown(0, 100.0, 500.0, None), shown(1, 100.1, 499.0, None)) == [(1, 1), (0, 10)]


def test_a_point_that_breaks_a_bound_at_its_level_is_left_out_at_that_level_alone() -> None:
    slow = (SloCheck("ttft_p95_ms", 10, 500.0, 812.0, 0.624, 100),)
    trials = shown(0, 100.0, 500.0), shown(1, 120.0, 600.0, slo=slow)
    assert on_front(*trials) == [(1, 1), (0, 10)]
    assert left_out(study(*trials)) == 1


@pytest.mark.parametrize(
    "again",
    [shown(2, 200.0, 900.0, duplicate_of=1), shown(2, 200.0, 900.0, configuration=eagle(speculative_num_steps=1))],
)
def test_a_server_counts_once_by_its_first_measurement(again: TrialResult) -> None:
    first = shown(1, 120.0, 600.0, configuration=eagle(speculative_num_steps=1))
    assert {p.trial.number for p in points(study(shown(0, 100.0, 500.0), first, again))} == {0, 1}


def test_a_level_without_a_rate_or_a_throughput_has_no_point() -> None:
    bare = trial(1, 300.0, measurements=(measurement(1, None), measurement(10, 500.0, per_request_rate=None)))
    assert points(study(shown(0, 100.0, 500.0), bare)) == points(study(shown(0, 100.0, 500.0)))


def test_the_best_of_a_level_is_clear_where_all_others_are_clearly_below() -> None:
    one, ten = best_per_level(study(shown(0, 100.0, 500.0), shown(1, 120.0, 500.5), shown(2, 90.0, 470.0)))
    assert (one.level, one.point.trial.number, one.clear, clearness(one)) == (1, 1, True, "clear")
    assert (ten.level, ten.point.trial.number, ten.clear) == (10, 1, False)
    assert clearness(ten) == "no clear one: trial 0 is not clearly below"


def test_without_intervals_no_best_is_clear() -> None:
    (one, _ten) = best_per_level(study(shown(0, 100.0, 500.0, None), shown(1, 200.0, 500.5, None)))
    assert (one.point.trial.number, one.clear) == (1, False)


def test_one_trial_alone_is_no_clear_best() -> None:
    (one, _ten) = best_per_level(study(shown(0, 100.0, 500.0)))
    assert (one.clear, clearness(one)) == (False, "the only one")


def test_a_level_that_is_not_measured_has_no_best() -> None:
    assert best_at(study(shown(0, 100.0, 500.0)), 7) is None


def test_the_table_gives_each_trial_of_the_front_its_mark() -> None:
    rows = front_rows(study(shown(0, 100.0, 500.0), shown(1, 120.0, 450.0))).rows
    assert [row[:3] for row in rows] == [("A", "1", "1"), ("B", "0", "10")]
    assert rows[1][3:6] == ("50.0 ± 0.1", "500.0 ± 1.0", "80.8")


def test_the_plot_puts_the_fastest_user_right_and_the_largest_throughput_up() -> None:
    lines = front_plot(study(shown(0, 100.0, 500.0), shown(1, 120.0, 450.0))).splitlines()
    body = [line.split("|", 1)[1] for line in lines if "|" in line]
    (b_row, b_column) = next((y, line.index("B")) for y, line in enumerate(body) if "B" in line)
    (a_row, a_column) = next((y, line.index("A")) for y, line in enumerate(body) if "A" in line)
    assert (b_row, a_column) == (0, 59)
    assert a_row > b_row
    assert b_column < a_column
    assert sum(line.count("·") for line in body) == 2
    assert lines[1].startswith("500 |")


def test_fewer_than_three_points_are_not_plotted() -> None:
    assert front_plot(study(shown(0, 100.0, 500.0))) == ""


def test_a_long_front_is_cut_in_the_table_and_trials_beyond_the_alphabet_share_a_mark() -> None:
    noisy = study(
        *(shown(n, 100.0 - n, 500.0 + n, 90.0, configuration=eagle(speculative_num_steps=n)) for n in range(60))
    )
    assert len(front(points(noisy))) == 120
    assert len(front_rows(noisy).rows) == 24
    assert "And 96 more." in markdown_report(noisy)
    assert "*" in front_plot(noisy)


def test_reports_and_summary_show_both() -> None:
    found = study(shown(0, 100.0, 500.0), shown(1, 120.0, 450.0))
    assert front_line(found) == "trial 0 at 10; trial 1 at 1"
    assert "## Best at each level" in markdown_report(found)
    assert "## Per-request rate against throughput" in markdown_report(found)
    assert "trial 0 at 10; trial 1 at 1" in terminal_report(found)
    data = summary(found, run_dir="r")
    assert [(p["trial"], p["concurrency"]) for p in data["front"]] == [(1, 1), (0, 10)]
    assert [(b["concurrency"], b["trial"], b["clear"]) for b in data["best_per_level"]] == [(1, 1, True), (10, 0, True)]


def test_a_study_of_one_level_and_one_trial_has_neither_section() -> None:
    alone = replace(study(shown(0, 100.0, 500.0)), spec=spec(workload=workload(concurrency={1: 1.0})))
    assert "Best at each level" not in markdown_report(alone)
    assert "Per-request rate against" not in markdown_report(alone)
