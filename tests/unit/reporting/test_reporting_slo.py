"""What is said of trials that break the study's SLO."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import comparison, spec, study_result, trial

from autotune.domain.confirmation import Confirmation, Finalist, Replicate
from autotune.domain.measurement import Estimate, Objective, Score
from autotune.domain.slo import Slo, SloCheck
from autotune.domain.study import StudyResult
from autotune.domain.trial import Origin, TrialResult
from autotune.reporting import markdown_report, summary, terminal_report, trial_line, verdict
from autotune.reporting.figures import score_text
from autotune.reporting.sections.slo import breach, slo_lines, slo_rows

BOUND = Slo({"ttft_p95_ms": 500.0})


def ttft(observed: float, level: int = 10) -> SloCheck:
    return SloCheck("ttft_p95_ms", level, 500.0, observed, observed / 500 - 1, 100, observed * 0.9, observed * 1.1)


def result(*trials: TrialResult, **overrides: object) -> StudyResult:
    return replace(study_result(*trials), spec=spec(slo=BOUND), **overrides)  # type: ignore[arg-type]


def test_a_trial_line_says_which_bounds_it_breaks() -> None:
    line = trial_line(trial(3, 350.0, slo=(ttft(812.0),)), trial(0))
    assert "| breaks SLO  |" in line
    assert "| breaks ttft_p95_ms at level 10: 812 > 500 |" in line


def test_of_many_breaches_the_two_worst_are_named() -> None:
    found = trial(3, slo=(ttft(600.0, 1), ttft(900.0, 10), ttft(800.0, 30), ttft(400.0, 70)))
    assert breach(found) == (
        "breaks ttft_p95_ms at level 10: 900 > 500; ttft_p95_ms at level 30: 800 > 500; and 1 more"
    )
    assert breach(trial(3, slo=(ttft(400.0),))) == ""


def test_a_faster_trial_that_breaks_it_is_named_beside_the_verdict() -> None:
    study = result(trial(0), trial(1, 356.6), trial(2, 380.0, slo=(ttft(812.0),)), comparison=comparison())
    assert verdict(study).startswith("trial 1 beats the baseline by 7.1 % ± 1.3")
    assert verdict(study).endswith("; trial 2 has a higher score, and breaks ttft_p95_ms at level 10: 812 > 500")


def test_a_slower_one_that_breaks_it_is_not() -> None:
    study = result(trial(0), trial(1, 356.6), trial(2, 340.0, slo=(ttft(812.0),)), comparison=comparison())
    assert "trial 2" not in verdict(study)


@pytest.mark.parametrize(
    ("compared", "by"),
    [
        (comparison(0.95, 0.01, "worse"), ", 5.0 % ± 1.0 below the baseline"),
        (None, ", 4.8 % below the baseline"),
    ],
)
def test_where_the_baseline_breaks_it_the_best_that_keeps_to_it_wins_even_if_it_is_slower(
    compared: object, by: str
) -> None:
    study = result(trial(0, slo=(ttft(812.0),)), trial(1, 317.0, slo=(ttft(400.0),)), comparison=compared)
    assert verdict(study) == (
        f"trial 1 is the best that keeps to the SLO{by}; the baseline breaks ttft_p95_ms at level 10: 812 > 500"
    )


def confirmed(number: int, confirms: int | None, *checks: SloCheck) -> TrialResult:
    return trial(
        number,
        350.0,
        origin=Origin.CONFIRMATION,
        replicate=Replicate(confirms, 1, 2, (1,)),
        slo=checks or (ttft(400.0),),
    )


def test_a_winner_that_breaks_the_slo_when_it_is_confirmed_is_named_with_it() -> None:
    gain = Estimate(1.07, 1.05, 1.09)
    found = Confirmation((Finalist(1, 2, gain, "better"),), 2, 2, 2, "winner")
    searched = trial(0, slo=(ttft(400.0),)), trial(1, 356.6, slo=(ttft(480.0),))
    runs = confirmed(2, 1), confirmed(3, None, ttft(900.0)), confirmed(4, 1, ttft(600.0))
    said = verdict(result(*searched, *runs, confirmation=found))
    assert "in 1 of 2 confirmation runs trial 1 breaks ttft_p95_ms at level 10: 600 > 500" in said
    assert "confirmation runs" not in verdict(result(*searched, *runs[:2], confirmation=found))


def test_a_confirmed_ratio_goes_before_the_searchs() -> None:
    found = Confirmation((Finalist(1, 2, Estimate(0.9, 0.88, 0.92), "worse"),), 2, 2, 2, "none")
    study = result(
        trial(0, slo=(ttft(812.0),)), trial(1, 317.0, slo=(ttft(400.0),)), comparison=comparison(), confirmation=found
    )
    assert verdict(study).startswith("trial 1 is the best that keeps to the SLO, 10.0 % ± 2.0 below the baseline;")


def test_where_none_keeps_to_it_the_verdict_names_the_one_that_comes_closest_and_no_command_is_shown() -> None:
    study = result(trial(0, slo=(ttft(812.0),)), trial(1, 317.0, slo=(ttft(600.0),)))
    assert verdict(study) == (
        "no trial keeps to the SLO; trial 1 comes closest: it breaks ttft_p95_ms at level 10: 600 > 500"
    )
    assert "launch command" not in terminal_report(study)
    assert "Launch command" not in markdown_report(study)


def test_the_table_has_all_bounds_of_baseline_and_best_and_what_others_break() -> None:
    study = result(
        trial(0, slo=(ttft(400.0, 1), ttft(480.0, 10))),
        trial(1, 356.6, slo=(ttft(300.0, 1), ttft(460.0, 10))),
        trial(2, 380.0, slo=(ttft(300.0, 1), ttft(812.0, 10))),
    )
    assert [(row[0], row[1], row[3], row[4], row[-1]) for row in slo_rows(study).rows] == [
        ("0 (baseline)", "1", "400", "360 to 440", "keeps"),
        ("0 (baseline)", "10", "480", "432 to 528", "keeps, unclear"),
        ("1", "1", "300", "270 to 330", "keeps"),
        ("1", "10", "460", "414 to 506", "keeps, unclear"),
        ("2", "10", "812", "731 to 893", "breaks"),
    ]


def test_the_reports_have_the_section_only_where_there_is_an_slo() -> None:
    bound = result(trial(0, slo=(ttft(400.0),)), trial(1, slo=(ttft(400.0),)))
    assert "## SLO" in markdown_report(bound)
    assert "Every complete trial keeps to it." in markdown_report(bound)
    assert "SLO:" in terminal_report(bound)
    assert "SLO" not in markdown_report(study_result())
    assert "SLO" not in terminal_report(study_result())


def test_the_summary_has_who_breaks_what() -> None:
    study = result(trial(0, slo=(ttft(400.0),)), trial(2, 380.0, slo=(ttft(812.0),)))
    found = summary(study, run_dir="r")["slo"]
    assert (found["keeping"], found["least_violating"]) == (1, None)
    (broken,) = found["breaking"]["2"]
    assert (broken["figure"], broken["concurrency"], broken["observed"], broken["clear"]) == (
        "ttft_p95_ms",
        10,
        812.0,
        True,
    )
    assert summary(study_result(), run_dir="r")["slo"] is None


def test_check_lists_the_bounds_and_the_levels_with_too_few_requests() -> None:
    bound = spec(slo=Slo({"ttft_p95_ms": 500.0}, {10: {"per_request_rate": 12.0, "ttft_ms": 400.0}}))
    assert slo_lines(bound) == [
        "",
        "slo",
        "  level 1: ttft_p95_ms ≤ 500",
        "  level 10: ttft_p95_ms ≤ 500, per_request_rate ≥ 12, good: ttft_ms ≤ 400",
        "  too few requests to keep a percentile clearly, at level 1 (10 requests, 72 needed), "
        "10 (50 requests, 72 needed)",
    ]
    assert slo_lines(spec()) == []


def test_a_goodput_has_its_unit() -> None:
    assert Objective.METRICS[2] == "weighted_goodput"
    assert score_text(Score("weighted_goodput", Estimate(1.25, 1.2, 1.3))) == "1.250 ± 0.050 req/s"
