"""Drives the step loop by the wall clock and hands the tokens out.

Virtual time runs at `speed`. When the wall is ahead, all steps that are due are made in one go and each request gets
one chunk for all of them; so the delivered throughput is the model's even where a step is shorter than a timer's grain.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from autotune.simulated_node.children import die_of
from autotune.simulated_node.clock import Alarm, NodeClock
from autotune.simulated_node.scheduler import Request, Scheduler

PILE_UP_S = 0.002
"""Wall seconds for which steps may pile up while no request can start or end in them."""


class Reader(Protocol):
    """Whoever waits for a request's tokens; it is the request's `owner`."""

    def progress(self, request: Request) -> None:
        """There are stream_interval tokens more than `request.emitted`, or the first ones."""
        ...

    def finished(self, request: Request) -> None: ...


class Stepper:
    """`child` is the pid of the scheduler process that dies with the node when the loop fails."""

    def __init__(self, scheduler: Scheduler, clock: NodeClock, loop: asyncio.AbstractEventLoop, child: int) -> None:
        self.scheduler = scheduler
        self.clock = clock
        self._loop = loop
        self._child = child
        self._alarm = Alarm(loop, self._wake)
        self._finished: list[Request] = []
        self._scheduled = False

    def submit(self, request: Request) -> None:
        now_s = self.clock.now_s()
        self._finished += self.scheduler.advance(now_s)
        self.scheduler.submit(request, now_s)
        self._arm()

    def abort(self, request: Request) -> None:
        """The owner hears `finished` at the next turn of the loop."""
        if request.finished_s is None:
            self.scheduler.abort(request)
            self._finished.append(request)
            self._arm()

    def catch_up(self) -> None:
        """Makes all steps that are due, so that figures read from the scheduler are of now."""
        self._finished += self.scheduler.advance(self.clock.now_s())
        self._arm()

    def close(self) -> None:
        self._alarm.close()

    def _wake(self) -> None:
        self._scheduled = False
        scheduler = self.scheduler
        self._finished += scheduler.advance(self.clock.now_s())
        if scheduler.failure is not None:
            die_of(scheduler.failure, self._child, serving=True)
        interval = scheduler.plan.stream_interval
        for request in list(scheduler.running):
            if request.tokens - request.emitted >= interval or not request.emitted:
                request.owner.progress(request)  # type: ignore[attr-defined]
        finished, self._finished = self._finished, []
        for request in finished:
            request.owner.finished(request)  # type: ignore[attr-defined]
        self._arm()

    def _arm(self) -> None:
        if self._scheduled:
            return
        if self._finished or self._failed():
            self._soon()
            return
        quiet_s = self.scheduler.quiet_until_s()
        end_s = self.scheduler.next_step_end_s
        if self._failed():
            self._soon()
            return
        if quiet_s is None or end_s is None:
            return
        now_s, speed = self.clock.now_s(), self.clock.speed
        wake_s = max(end_s, min(quiet_s, now_s + PILE_UP_S * speed))
        delay_s = (wake_s - now_s) / speed
        if delay_s < 2e-5:
            self._soon()
        else:
            self._alarm.set(delay_s)

    def _failed(self) -> bool:
        return self.scheduler.failure is not None

    def _soon(self) -> None:
        self._scheduled = True
        self._loop.call_soon(self._wake)
