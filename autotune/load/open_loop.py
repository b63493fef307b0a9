"""An open loop: requests arrive at a rate, whether or not earlier ones are done, as users do.

Arrivals are a Poisson process, seeded by the first prompt of the level. A request's clock starts at its arrival, not
when a connection was found for it: a client that waits before it sends would hide the very delay it is to measure.

Warm-up ends when `warmup_requests` have arrived and 1.5 of the longest latencies so far have passed, so that in flight
has had the time to reach what the rate makes of it. `requests` then arrive inside the window; where the level names a
bound for them, more, until the window has lasted so long too. After it the arrivals go on until all of the window's are
answered (a server that drains is faster than one that serves), and those are cut off; they stop before that where the
level's `most_prompts` are used up, or no prompt is left, and the server drains.

However late the answers, the window opens when half of the room is used: a server that falls behind is to do so inside.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from functools import partial
from time import perf_counter

from autotune.domain.measurement import LevelRun, RequestRecord
from autotune.domain.workload import SETTLED_LATENCIES, LevelPlan, Prompt
from autotune.errors import LevelRefused, LoadFailed
from autotune.load.connection import Connection
from autotune.load.growth import InFlight
from autotune.load.request import LiveRequest
from autotune.load.session import Session, Traffic

UNSUSTAINED = "the rate is above what the server sustains"
UNFINISHED = "not finished when the level ended"


def refuse_rate(level: LevelPlan) -> None:
    """Raises LevelRefused for a rate that is none, or for a window without requests."""
    if level.rate is None or not 0 < level.rate < float("inf"):
        raise LevelRefused(f"a rate must be above 0 requests a second, but got {level.rate}")
    if min(level.requests, level.concurrency) < 1:
        raise LevelRefused(
            f"a rate needs at least one request and room for one in flight, but got {level.requests} requests and "
            f"room for {level.concurrency}"
        )


class _Visit:
    """One request on its way. `arrived` is a stamp."""

    def __init__(self, request: LiveRequest, arrived: float) -> None:
        self.request = request
        self.arrived = arrived
        self.connection: Connection | None = None


class OpenLoop(Session):
    """Connections are kept and reused; a new one is made where none is idle."""

    def __init__(self, loop: asyncio.AbstractEventLoop, traffic: Traffic) -> None:
        super().__init__(loop, traffic)
        if traffic.level.rate is None:
            raise ValueError("an open loop needs a rate")
        self._gap_s = 1.0 / (traffic.clock.rate * traffic.level.rate)  # mean, on the wall's clock
        self._visits: dict[Connection | LiveRequest, _Visit] = {}  # by request until it has a connection
        self._idle: list[Connection] = []
        self._in_flight = InFlight()
        self._arrived = 0
        self._first = 0  # number of the window's first arrival
        self._waited_for = 0  # of the window's requests, how many are not over
        self._longest_s = 0.0
        self._opened: float | None = None
        self._closed: float | None = None
        self._remarks: list[str] = []
        self._random = random.Random()

    async def run(self) -> LevelRun:
        first = self._prompts.next()
        self._random.seed(f"{first.identity}:{self._level.rate}")
        client = await self._carry_out(lambda: self._arrive(self._started, first))
        opened, closed = self._opened, self._closed
        whole = opened is not None and closed is not None and closed > opened
        return LevelRun(
            concurrency=max(1, round(self._in_flight.mean or 0.0)),
            records=tuple(sorted(self._records, key=lambda record: record.sent_s)),
            window=(self._ticks(opened), self._ticks(closed)) if whole and opened and closed else None,
            client=client,
            in_flight_minimum=None,
            rate=self._level.rate,
            remarks=tuple(self._remarks),
        )

    def _name(self) -> str:
        return f"rate {self._level.rate:g}"

    def _live(self) -> list[LiveRequest]:
        return [visit.request for visit in self._visits.values() if visit.connection is not None]

    # Arrivals

    def _arrive(self, due: float, prompt: Prompt | None = None) -> None:
        """`due` is when it was to arrive; the loop's lag is part of its latency. `prompt`: None takes the next, only
        once the window was looked at: the arrival that closes it may be one more than there are prompts for."""
        if self._over.done():
            return
        self._open_or_close(due)
        if not self._over.done() and (prompt := prompt or self._next()) is not None:
            self._enter(prompt, due)

    def _next(self) -> Prompt | None:
        """None ends the arrivals: the window's own are all on their way, and what follows only kept the server busy."""
        if self._closed is not None and self._arrived >= self._level.most_prompts:
            return None
        try:
            return self._prompts.next()
        except LoadFailed as error:
            if self._closed is None:
                self._fail(error)
            return None

    def _enter(self, prompt: Prompt, due: float) -> None:
        outside = self._opened is None or self._closed is not None
        visit = _Visit(LiveRequest(prompt, self._tokens(prompt), warmup=outside), due)
        self._arrived += 1
        self._waited_for += not outside
        if not self._visits:
            self._last_progress = perf_counter()
        visit.request.mark_sent(due)
        self._in_flight.change(due, +1)
        if self._in_flight.now > self._level.concurrency:
            self._unsustained(f"{self._in_flight.now:,} requests were in flight")
        self._send(visit)
        due += self._random.expovariate(1.0 / self._gap_s)
        self._after(max(0.0, due - perf_counter()), partial(self._arrive, due))

    def _open_or_close(self, due: float) -> None:
        level, most = self._level, self._level.most_requests or self._level.requests
        if self._opened is None:
            latest = min(level.warmup_requests + most, level.concurrency // 2)
            warm = self._arrived >= level.warmup_requests and self._settled(due, self._started)
            if warm or self._arrived >= latest:
                self._opened, self._first = due, self._arrived
                self._in_flight.begin(due)
                self._health.start()
        elif self._closed is None:
            came = self._arrived - self._first
            if came >= most or (came >= level.requests and self._settled(due, self._opened)):
                growth = self._in_flight.growth()  # the watch may not have looked since: a node's clock may be fast
                if growth:
                    self._unsustained(growth)
                    return
                self._shut(due)
                self._is_complete()

    def _settled(self, due: float, since: float) -> bool:
        return self._longest_s > 0 and due - since >= SETTLED_LATENCIES * self._longest_s

    def _is_complete(self) -> bool:
        """Ends the level once the window is closed and all of its requests are over."""
        if self._closed is None or self._waited_for or self._over.done():
            return False
        self._over.set_result(None)
        return True

    def _shut(self, stamp: float) -> None:
        self._closed = stamp
        self._in_flight.end(stamp)

    def _send(self, visit: _Visit) -> None:
        while self._idle:
            connection = self._idle.pop()
            if connection.usable:
                self._put(visit, connection)
                return
        self._visits[visit.request] = visit
        ends: list[Callable[[float, str | None], None]] = []
        task = self._loop.create_task(self._open(lambda stamp, error: ends[0](stamp, error)))
        self._connecting.add(task)
        task.add_done_callback(partial(self._connected, visit, ends))

    def _connected(
        self, visit: _Visit, ends: list[Callable[[float, str | None], None]], task: asyncio.Task[Connection]
    ) -> None:
        self._connecting.discard(task)
        if task.cancelled() or self._over.done():
            return
        error = task.exception()
        if isinstance(error, OSError):
            self._visits.pop(visit.request)
            self._finish(visit, perf_counter(), f"no connection: {error}")
        elif error is not None:
            raise error
        else:
            connection = task.result()
            ends.append(partial(self._ended, connection))
            self._visits.pop(visit.request)
            self._put(visit, connection)

    def _put(self, visit: _Visit, connection: Connection) -> None:
        visit.connection = connection
        self._visits[connection] = visit
        connection.send(visit.request, self._target.message(visit.request, self._plan), since=visit.arrived)

    # Ends

    def _ended(self, connection: Connection, stamp: float, error: str | None) -> None:
        visit = self._visits.pop(connection, None)
        if visit is None or self._over.done():
            return
        if error is None and connection.usable:
            self._idle.append(connection)
        else:
            connection.abort()
        self._finish(visit, stamp, error)

    def _starved(self, request: LiveRequest, error: str) -> None:
        visit = next(visit for visit in self._visits.values() if visit.request is request)
        if visit.connection is not None:
            self._ended(visit.connection, perf_counter(), error)

    def _finish(self, visit: _Visit, stamp: float, error: str | None) -> None:
        self._ended_count += 1
        self._failed_count += error is not None
        self._in_flight.change(stamp, -1)
        if error is None:
            self._longest_s = max(self._longest_s, stamp - visit.arrived)
        self._records.append(visit.request.record(self._ticks, error=error))
        if not visit.request.warmup:
            self._waited_for -= 1
            if self._is_complete():
                return
        if self._none_works(20):
            self._gave_up = True
            self._shut_early(stamp)

    def _shut_early(self, stamp: float) -> None:
        if self._opened is not None and self._closed is None:
            self._shut(stamp)
        if not self._over.done():
            self._over.set_result(None)

    def _watch(self) -> None:
        super()._watch()
        if not self._over.done() and self._closed is None and (growth := self._in_flight.growth()):
            self._unsustained(growth)

    def _unsustained(self, shown: str) -> None:
        if not self._over.done():
            self._remarks.append(f"{UNSUSTAINED}: {shown}")
            self._shut_early(perf_counter())

    def _cut_off(self, request: LiveRequest) -> RequestRecord:
        """One that arrived in the window and has no end is a failure; any other was only there to keep up the load."""
        if request.warmup:
            return request.record(self._ticks, cancelled=True)
        return request.record(self._ticks, error=UNFINISHED)
