"""Which processes of the node use its cores while a level runs, beside the trial's own."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from autotune.launch.guard import stat_fields, stat_texts

KERNEL_THREADS = 2  # the pid of their parent
_TICKS = os.sysconf("SC_CLK_TCK")
LEAST_CORES = 0.05
"""Below this a process is not worth a name."""


class CpuEntry(NamedTuple):
    """`started` (clock ticks since boot) with the pid names a process for good; `cpu_s`: since its start."""

    pid: int
    name: str
    parent: int
    started: int
    cpu_s: float


def parse_cpu(text: str) -> CpuEntry:
    """Reads /proc/PID/stat."""
    pid, name, fields = stat_fields(text)
    return CpuEntry(pid, name, int(fields[1]), int(fields[19]), (int(fields[11]) + int(fields[12])) / _TICKS)


def cpu_table() -> list[CpuEntry]:
    """All processes that can be seen; in a container those of the container."""
    return [parse_cpu(text) for text in stat_texts()]


def others_between(
    before: Iterable[CpuEntry], after: Iterable[CpuEntry], own: Iterable[int], seconds: float
) -> tuple[tuple[str, float], ...]:
    """`name (pid)` and the cores that it used on average over `seconds`, of each process that is none of `own` nor a
    descendant of one. A process that ended meanwhile is not seen; one that began counts from its start."""
    if seconds <= 0:
        return ()
    earlier = {(entry.pid, entry.started): entry.cpu_s for entry in before}
    table = list(after)
    ours = _with_descendants(set(own), {entry.pid: entry.parent for entry in table})
    found = []
    for entry in table:
        if entry.pid in ours or KERNEL_THREADS in (entry.pid, entry.parent):
            continue
        cores = (entry.cpu_s - earlier.get((entry.pid, entry.started), 0.0)) / seconds
        if cores >= LEAST_CORES:
            found.append((f"{entry.name} ({entry.pid})", cores))
    return tuple(sorted(found, key=lambda other: -other[1]))


def _with_descendants(own: set[int], parents: Mapping[int, int]) -> set[int]:
    found = set(own)
    for pid in parents:
        line, at = [], pid
        while at in parents and at not in found and at not in line:
            line.append(at)
            at = parents[at]
        if at in found:
            found.update(line)
    return found


class CpuWatch:
    """From its making to `others`."""

    def __init__(self) -> None:
        self._before, self._began_s = cpu_table(), time.monotonic()

    def others(self, own: Iterable[int]) -> tuple[tuple[str, float], ...]:
        """`own`: pids of the trial; the tuner is one of them."""
        return others_between(self._before, cpu_table(), {os.getpid(), *own}, time.monotonic() - self._began_s)
