from builders import measurement, study_result, trial

from autotune.domain.trial import TrialResult
from autotune.reporting import alarms, markdown_report, terminal_report
from autotune.scoring.guarding.guards import finding

EAGER = "31% of 40 sampled decode steps ran without a graph"


def found_on(number: int, *levels: int, **overrides: object) -> TrialResult:
    measured = tuple(
        measurement(level, 90.0, findings=(finding("eager_steps", EAGER, level),) if level in levels else ())
        for level in (1, 10)
    )
    return trial(number, **{"measurements": measured, **overrides})


def test_the_terminal_tells_what_speaks_against_the_two_trials_that_the_verdict_is_made_of() -> None:
    text = terminal_report(study_result(found_on(0, 10), trial(1, 300.0)))
    assert f"trial 0: mark eager_steps, level 10: {EAGER}" in text
    assert "eager_steps" not in terminal_report(study_result(trial(0), trial(1, 356.6), found_on(2, 10)))


def test_the_report_has_every_finding_with_its_levels_in_one_row() -> None:
    text = markdown_report(study_result(trial(0), found_on(1, 1, 10)))
    assert "## What the guards found" in text
    (row,) = [line for line in text.splitlines() if "eager_steps" in line]
    assert "| 1 | mark | eager_steps | 1, 10 |" in row


def test_a_finding_on_the_trial_as_a_whole_stands_at_all_levels() -> None:
    text = markdown_report(study_result(trial(0), trial(1, None, findings=(finding("text", "other text", None),))))
    assert "| 1 | void | text | all | other text |" in text


def test_a_study_without_findings_has_no_such_section() -> None:
    assert "guards" not in markdown_report(study_result())
    assert "guards" not in terminal_report(study_result())


def test_an_alarm_of_a_guard_comes_before_the_verdict_and_not_again_among_the_marks() -> None:
    said = finding("nothing_accepted", "accept length 1.00 over 310 verify passes", 10)
    result = study_result(trial(0, measurements=(measurement(1), measurement(10, findings=(said,)))))
    assert alarms(result.trials) == ("trial 0, level 10: accept length 1.00 over 310 verify passes",)
    assert terminal_report(result).count("accept length 1.00") == 1
