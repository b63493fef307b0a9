from builders import measurement, study_result, trial

from autotune.domain.measurement import ALARM
from autotune.domain.trial import TrialResult
from autotune.reporting import alarm_line, alarms, markdown_report, terminal_report

SAID = "accept length 1.00 over 310 verify passes: the draft does not fit the target or is broken"


def alarmed(number: int, *levels: int) -> TrialResult:
    measured = tuple(
        measurement(level, 90.0, remarks=("a remark", ALARM + SAID) if level in levels else ()) for level in (1, 4, 10)
    )
    return trial(number, measurements=measured)


def test_a_trial_without_an_alarm_has_no_line() -> None:
    assert alarm_line(trial(1)) == ""
    assert alarms((trial(0), trial(1))) == ()


def test_the_levels_with_the_alarm_are_named() -> None:
    assert alarm_line(alarmed(3, 4)) == f"trial 3, level 4: {SAID}"
    assert alarm_line(alarmed(3, 1, 4, 10)) == f"trial 3, levels 1, 4 and 10: {SAID}"


def test_beyond_three_trials_only_the_numbers_are_given() -> None:
    lines = alarms([alarmed(number, 1) for number in range(1, 7)])
    assert len(lines) == 4
    assert lines[-1] == "an alarm also in trials 4, 5, 6"


def test_both_reports_say_it_before_the_verdict() -> None:
    result = study_result(trial(0), alarmed(1, 1))
    for text in (terminal_report(result), markdown_report(result)):
        assert text.index("accept length 1.00") < text.lower().index("verdict")


def test_a_report_without_alarms_does_not_speak_of_them() -> None:
    assert "ALARM" not in markdown_report(study_result())
