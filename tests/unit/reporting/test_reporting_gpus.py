from __future__ import annotations

from builders import measurement, study_result, trial

from autotune.domain.measurement import DeviceWindow
from autotune.reporting import markdown_report
from autotune.reporting.sections.gpus import gpu_line, gpu_lines

FIRST = DeviceWindow(0, "NVIDIA H200", 50, 400.0, 1890.0, 1800.0, 3201.0, 60.0, 0.97, 131.0)
SECOND = DeviceWindow(
    1, "NVIDIA H200", 50, 424.0, 1760.0, 1500.0, 3201.0, 88.0, 0.97, 130.0, {"hardware slowdown": 0.24}
)


def test_a_line_shows_the_slowest_hottest_and_fullest_gpu_and_what_held_it() -> None:
    assert gpu_line(measurement(10, devices=(FIRST, SECOND))) == (
        "C= 10 | 2 GPUs | 412 W each | SM 1760 MHz (lowest 1500) | up to 88 °C | memory 131.0 GiB"
        " | hardware slowdown on GPU 1 (24%)"
    )


def test_what_was_not_told_is_left_out() -> None:
    assert gpu_line(measurement(1, devices=(DeviceWindow(0, "", 3),))) == "C=  1 | 1 GPU"


def test_levels_that_were_not_watched_have_no_line() -> None:
    assert gpu_lines(trial(measurements=(measurement(1), measurement(10, devices=(FIRST,))))) == [
        "C= 10 | 1 GPU | 400 W | SM 1890 MHz (lowest 1800) | up to 60 °C | memory 131.0 GiB"
    ]


def test_the_report_has_the_gpus_of_the_best_trial_where_they_were_watched() -> None:
    best = trial(1, 356.6, measurements=(measurement(1, 99.0, devices=(FIRST, SECOND)), measurement(10, 485.0)))
    text = markdown_report(study_result(trial(0), best))
    assert "## GPUs" in text
    assert "Best (trial 1), over each window" in text
    assert "hardware slowdown on GPU 1 (24%)" in text
    assert "## GPUs" not in markdown_report(study_result())
