"""What is read of a log between two moments, and which processes count as others'."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.launch.cpu_watch import CpuEntry, others_between, parse_cpu
from autotune.launch.log_marks import LogMarks


def marked(path: Path, *written: tuple[float, str]) -> LogMarks:
    """A log to which each text was added just before the mark at its moment."""
    now = [0.0]
    marks = LogMarks(path, lambda: now[0])
    for moment, text in written:
        with path.open("a") as file:
            file.write(text)
        now[0] = moment
        marks.mark()
    return marks


def test_the_text_of_a_window_lies_between_the_marks_inside_it(tmp_path: Path) -> None:
    marks = marked(tmp_path / "log", (0.0, "start\n"), (1.0, "ramp\n"), (2.0, "a\n"), (3.0, "b\n"), (4.0, "tail\n"))
    assert marks.text(1.0, 3.5) == "a\nb\n"
    assert marks.text(0.5, 2.0) == "a\n"


def test_a_window_between_two_marks_has_all_that_was_written_while_it_was_watched(tmp_path: Path) -> None:
    marks = marked(tmp_path / "log", (0.0, "before\n"), (1.0, "a\n"), (2.0, "b\n"))
    assert marks.text(1.2, 1.8) == "a\nb\n"


def test_without_marks_or_without_a_file_there_is_no_text(tmp_path: Path) -> None:
    assert LogMarks(tmp_path / "none").text(0.0, 9.0) == ""
    marks = LogMarks(tmp_path / "none", lambda: 1.0)
    marks.mark()
    marks.mark()
    assert marks.text(0.0, 9.0) == ""


STAT = "4242 (a (b) c) S 17 4242 4242 0 -1 4194560 1 0 0 0 250 50 0 0 20 0 1 0 987 0 0\n"


def test_a_line_of_the_process_table_is_read_whatever_the_name() -> None:
    entry = parse_cpu(STAT)
    assert (entry.pid, entry.name, entry.parent, entry.started) == (4242, "a (b) c", 17, 987)
    assert entry.cpu_s == pytest.approx(3.0)  # 250 + 50 ticks of a hundredth


def entry(pid: int, cpu_s: float, *, parent: int = 1, started: int = 5, name: str = "cc") -> CpuEntry:
    return CpuEntry(pid, name, parent, started, cpu_s)


def test_others_are_those_that_are_not_below_the_trials_own() -> None:
    before = [entry(10, 1.0), entry(20, 1.0), entry(21, 1.0, parent=20), entry(30, 1.0), entry(2, 9.0)]
    after = [
        entry(10, 5.0),  # another's: four seconds in eight
        entry(20, 9.0),  # own
        entry(21, 9.0, parent=20),  # started by it
        entry(22, 9.0, parent=21),  # and by that, meanwhile
        entry(30, 1.1),  # next to nothing
        entry(40, 2.0, started=99, name="late"),  # began meanwhile
        entry(50, 9.0, parent=2),  # a thread of the kernel
    ]
    assert others_between(before, after, [20], 8.0) == (("cc (10)", 0.5), ("late (40)", 0.25))


def test_a_pid_that_was_given_to_another_process_counts_from_its_start() -> None:
    assert others_between([entry(10, 100.0)], [entry(10, 4.0, started=77)], [], 8.0) == (("cc (10)", 0.5),)


def test_no_time_no_share() -> None:
    assert others_between([], [entry(10, 4.0)], [], 0.0) == ()
