"""How well the client itself kept up, so that a slow client is not taken for a slow server."""

from __future__ import annotations

import asyncio
import time
from array import array

from autotune.domain.measurement import ClientHealth

_PERIOD_S = 0.005


class HealthMonitor:
    """A timer every 5 ms that notes how late it ran: by so much may a stamp be late. Wall seconds, on any node.

    The loop's timers count whole milliseconds, so a lag below one is noise. Memory: 8 bytes a tick.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lags = array("d")
        self._timer: asyncio.TimerHandle | None = None
        self._due = self._started = self._cpu_started = 0.0

    def start(self) -> None:
        self._started, self._cpu_started = time.perf_counter(), time.process_time()
        self._arm(self._started)

    def stop(self) -> ClientHealth:
        """Both are None if the monitor never ran."""
        if self._timer is None:
            return ClientHealth(lag_p99_s=None, cpu_share=None)
        self._timer.cancel()
        wall, cpu = time.perf_counter() - self._started, time.process_time() - self._cpu_started
        lags = sorted(self._lags)
        return ClientHealth(
            lag_p99_s=lags[int(0.99 * (len(lags) - 1))] if lags else None,
            cpu_share=cpu / wall if wall > 0 else None,
        )

    def _arm(self, now: float) -> None:
        self._due = now + _PERIOD_S
        self._timer = self._loop.call_later(_PERIOD_S, self._tick)

    def _tick(self) -> None:
        now = time.perf_counter()
        self._lags.append(max(0.0, now - self._due))
        self._arm(now)
