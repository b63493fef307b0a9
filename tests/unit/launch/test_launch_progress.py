from __future__ import annotations

from dataclasses import replace

import pytest

from autotune.launch.progress import Activity, Progress
from autotune.launch.readiness import LineWatch, show_status, wall_limit

FIRST = Activity(log_bytes=100, cpu_s=5.0, disk_bytes=10_000, files=3, pids=frozenset({10, 11}))


@pytest.mark.parametrize(
    "later",
    [
        replace(FIRST, log_bytes=101),
        replace(FIRST, cpu_s=5.5),
        replace(FIRST, disk_bytes=5_000_000),
        replace(FIRST, files=4),
        replace(FIRST, pids=frozenset({10, 12})),
    ],
    ids=["log", "CPU", "disk", "files", "processes"],
)
def test_each_sign_of_life_ends_the_silence(later: Activity) -> None:
    progress = Progress(0.0, FIRST)
    progress.observe(9.0, later)
    assert progress.silent_s(10.0) == 1.0


@pytest.mark.parametrize(
    "later",
    [
        FIRST,
        replace(FIRST, cpu_s=5.2),  # 0.2 s of CPU time in 9 s: threads that look at a clock
        replace(FIRST, disk_bytes=10_100),
        replace(FIRST, files=1),
        replace(FIRST, pids=frozenset({10})),
    ],
    ids=["nothing", "idle threads", "a few bytes", "fewer files", "fewer processes"],
)
def test_what_a_hung_server_also_does_is_no_sign_of_life(later: Activity) -> None:
    progress = Progress(0.0, FIRST)
    progress.observe(9.0, later)
    assert progress.silent_s(10.0) == 10.0


def test_slow_cpu_use_never_adds_up_to_a_sign_of_life() -> None:
    progress = Progress(0.0, FIRST)
    for second in range(1, 1000):
        progress.observe(float(second), replace(FIRST, cpu_s=5.0 + 0.01 * second))
    assert progress.silent_s(1000.0) == 1000.0


@pytest.mark.parametrize(
    ("node_seconds", "clock_rate", "wall"),
    [(600, 1.0, 600), (1, 1.0, 1), (600, 10.0, 60), (600, 100.0, 20), (3600, 100.0, 36)],
)
def test_limits_are_divided_by_the_clock_rate_down_to_a_floor(
    node_seconds: float, clock_rate: float, wall: float
) -> None:
    assert wall_limit(node_seconds, clock_rate) == wall


def test_a_line_is_found_across_the_seams_of_reads(tmp_path_factory: pytest.TempPathFactory) -> None:
    watch = LineWatch(tmp_path_factory.mktemp("log") / "unread", "fired up")
    for byte in b"The server is fired":
        watch.feed(bytes([byte]))
    assert not watch.found
    watch.feed(b" up and ready")
    assert watch.found
    assert watch.bytes_read == len(b"The server is fired up and ready")


def test_a_log_is_followed_as_it_grows(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("log") / "log"
    path.write_bytes(b"loading\nfired ")
    watch = LineWatch(path, "fired up")
    watch.look()
    assert not watch.found
    with path.open("ab") as log:
        log.write(b"up\n")
    watch.look()
    assert watch.found


@pytest.mark.parametrize(
    ("status", "words"),
    [(0, "exit status 0"), (2, "exit status 2"), (-9, "killed by SIGKILL"), (-1000, "killed by signal 1000")],
)
def test_an_exit_status_is_shown_in_words(status: int, words: str) -> None:
    assert show_status(status) == words
