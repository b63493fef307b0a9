"""Signs of life of a starting server: a first start compiles kernels or reads weights for minutes, and is alive."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

_CPU_FLOOR_S = 0.1
_IDLE_CPU_RATE = 0.02
_DISK_FLOOR_BYTES = 1 << 20


@dataclass(frozen=True)
class Activity:
    """What a server has done so far: running totals, of all its processes together."""

    log_bytes: int = 0
    cpu_s: float = 0.0
    disk_bytes: int = 0
    files: int = 0
    pids: frozenset[int] = frozenset()


class Progress:
    """When the last sign of life was seen. Times are seconds of one steady clock."""

    def __init__(self, now: float, activity: Activity) -> None:
        self._at = now
        self._then = activity

    def observe(self, now: float, activity: Activity) -> None:
        if self._has_moved(now, activity):
            self._at, self._then = now, activity

    def silent_s(self, now: float) -> float:
        return now - self._at

    def _has_moved(self, now: float, activity: Activity) -> bool:
        """CPU time counts from a fiftieth of a core on: a hung server's threads still wake up and look at a clock."""
        idle = _CPU_FLOOR_S + _IDLE_CPU_RATE * (now - self._at)
        return (
            activity.log_bytes > self._then.log_bytes
            or activity.cpu_s - self._then.cpu_s >= idle
            or activity.disk_bytes - self._then.disk_bytes >= _DISK_FLOOR_BYTES
            or activity.files > self._then.files
            or bool(activity.pids - self._then.pids)
        )


def activity_of(guard_pid: int, pids: Iterable[int], *, log_bytes: int, tmpdir: Path) -> Activity:
    """The guard is counted too: the CPU time of a process that has ended is with the parent that took its status."""
    cpu_s, disk_bytes = 0.0, 0
    living = frozenset(pids)
    for pid in {guard_pid, *living}:
        try:
            process = psutil.Process(pid)
            cpu_s += sum(process.cpu_times()[:4])
            counters = process.io_counters()
        except psutil.Error:
            continue
        disk_bytes += counters.read_bytes + counters.write_bytes
    files = sum(len(names) for _, _, names in os.walk(tmpdir))
    return Activity(log_bytes, cpu_s, disk_bytes, files, living)
