from __future__ import annotations

import pytest

from autotune.launch.guard import ProcessEntry, descendants, parse_stat
from autotune.launch.node import cpu_model
from autotune.launch.nvml import visible

UUIDS = ("GPU-1aa", "GPU-1bb", "GPU-2cc")


@pytest.mark.parametrize(
    ("setting", "positions"),
    [
        (None, (0, 1, 2)),
        ("", ()),
        ("1", (1,)),
        ("2, 0", (2, 0)),
        ("GPU-2", (2,)),
        ("0,GPU-1bb", (0, 1)),
        ("0,7,1", (0,)),
        ("-1", ()),
        ("GPU-1,0", ()),  # names two
    ],
)
def test_visible_devices_are_read_as_cuda_reads_them(setting: str | None, positions: tuple[int, ...]) -> None:
    assert visible(setting, UUIDS) == positions


def stat(state: str = "S", name: str = "python3", threads: int = 1, flags: int = 0x400000) -> str:
    return f"42 ({name}) {state} 7 42 40 0 -1 {flags} 1 2 3 4 5 6 7 8 20 0 {threads} 0 9876 1000 200\n"


def test_a_line_of_the_process_table_is_read() -> None:
    assert parse_stat(stat()) == ProcessEntry(42, "python3", True, False, parent=7, session=40, started=9876)


def test_a_name_may_hold_blanks_and_parentheses() -> None:
    assert parse_stat(stat(name="sglang::sched (TP0) x")).name == "sglang::sched (TP0) x"


@pytest.mark.parametrize(
    ("state", "threads", "alive"),
    [("R", 1, True), ("D", 1, True), ("Z", 0, False), ("Z", 1, False), ("X", 0, False), ("Z", 5, True)],
)
def test_a_zombie_is_dead_unless_threads_of_it_still_run(state: str, threads: int, alive: bool) -> None:
    assert parse_stat(stat(state, threads=threads)).alive is alive


def test_a_process_on_its_way_out_is_known_by_its_flags() -> None:
    assert not parse_stat(stat("D")).exiting
    assert parse_stat(stat("D", flags=0x400104)).exiting
    assert parse_stat(stat("Z", threads=5)).exiting


def test_descendants_are_found_through_dead_parents() -> None:
    def entry(pid: int, parent: int, alive: bool = True) -> ProcessEntry:
        return ProcessEntry(pid, "p", alive, not alive, parent, 1, pid)

    table = [entry(2, 1), entry(3, 2, alive=False), entry(4, 3), entry(5, 1), entry(6, 4)]
    assert [found.pid for found in descendants(2, table)] == [4, 6]


def test_the_processor_is_named_as_the_kernel_names_it() -> None:
    assert cpu_model("processor : 0\nmodel name\t: AMD EPYC  9575F 64-Core\nflags : x\n") == "AMD EPYC 9575F 64-Core"
    assert cpu_model("processor : 0\nBogoMIPS : 50\n") == ""
