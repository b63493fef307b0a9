"""The node's clock, and the timer that wakes the step loop."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import time
from collections.abc import Callable

CLOCK_MONOTONIC = 1
TFD_NONBLOCK_CLOEXEC = 0o4000 | 0o2000000


class NodeClock:
    """Node seconds since the clock was made; `speed` of them pass in one wall second."""

    def __init__(self, speed: float) -> None:
        self.speed = speed
        self._started = time.monotonic()
        self._stands_until = self._started

    def now_s(self) -> float:
        return (max(time.monotonic(), self._stands_until) - self._started) * self.speed

    def pause(self, seconds: float) -> None:
        """Stands still for so many of its seconds, and goes on from there."""
        wall = time.monotonic()
        self._started += seconds / self.speed
        self._stands_until = wall + seconds / self.speed


class _TimeSpec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _TimerSpec(ctypes.Structure):
    _fields_ = (("interval", _TimeSpec), ("value", _TimeSpec))


class Alarm:
    """Calls back once, after a delay. A kernel timer: the timers of uvloop count whole milliseconds, and a
    millisecond of the wall is 50 of the node's at speed 50."""

    def __init__(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
        self._loop = loop
        self._callback = callback
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = self._libc.timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK_CLOEXEC)
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._spec = _TimerSpec()
        loop.add_reader(self._descriptor, self._fire)

    def set(self, delay_s: float) -> None:
        """Replaces what was set before."""
        nanoseconds = max(1, int(delay_s * 1e9))
        self._spec.value.seconds, self._spec.value.nanoseconds = divmod(nanoseconds, 1_000_000_000)
        self._libc.timerfd_settime(self._descriptor, 0, ctypes.byref(self._spec), None)

    def close(self) -> None:
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)

    def _fire(self) -> None:
        with contextlib.suppress(BlockingIOError):  # set again after it had rung
            os.read(self._descriptor, 8)
            self._callback()
