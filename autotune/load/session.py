"""What every kind of load shares: connections, the watch over the server, and an orderly end."""

from __future__ import annotations

import abc
import asyncio
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from autotune.domain.engine import Wire
from autotune.domain.measurement import ClientHealth, RequestRecord
from autotune.domain.workload import LevelPlan, MeasurementPlan, Prompt, PromptSource
from autotune.errors import LoadFailed, NoTokens
from autotune.load.connection import Connection, Inbox
from autotune.load.health import HealthMonitor
from autotune.load.request import LiveRequest

WATCH_PERIOD_S = 0.5
SHORTEST_PATIENCE_S = 5.0
FAILURES_BORNE = 10
FAILURE_SHARE_BORNE = 0.1
REQUEST_PATIENCE_FACTOR = 5
DEATH_NOTICE_S = 2.0


def _always_alive() -> str | None:
    return None


@dataclass(frozen=True)
class Clock:
    """`rate`: node seconds for each wall second, 1 on a real node. `alive` is asked every half second (wall) and
    must answer at once: None, or why the server is dead."""

    rate: float = 1.0
    alive: Callable[[], str | None] = _always_alive


@dataclass(frozen=True)
class Target:
    """Where the load goes, and in which words."""

    host: str
    port: int
    wire: Wire

    def message(self, request: LiveRequest, plan: MeasurementPlan) -> bytes:
        """The whole HTTP request."""
        body = self.wire.body(
            request.prompt.text,
            request.tokens,
            temperature=plan.temperature,
            ignore_eos=plan.ignore_eos,
            rid=uuid.uuid4().hex,
        )
        shown = f"[{self.host}]" if ":" in self.host else self.host
        more = "".join(f"{name}: {value}\r\n" for name, value in self.wire.headers.items())
        head = (
            f"POST {self.wire.path} HTTP/1.1\r\nHost: {shown}:{self.port}\r\nAccept: text/event-stream\r\n"
            f"Content-Type: application/json\r\n{more}Content-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body


class Prompts:
    """The prompts put aside for the level, then single ones: where answers end early, warm-up takes more of them."""

    def __init__(self, fresh: list[Prompt], source: PromptSource) -> None:
        self._fresh = iter(fresh)
        self._source = source

    def next(self) -> Prompt:
        return next(self._fresh, None) or self._source.take(1)[0]


@dataclass(frozen=True)
class Traffic:
    """What one level sends, where to, and how its time passes."""

    target: Target
    plan: MeasurementPlan
    level: LevelPlan
    clock: Clock
    prompts: Prompts


class Session(abc.ABC):
    """One level's traffic. All of it runs in callbacks of one loop; `_over` ends it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, traffic: Traffic) -> None:
        self._loop, self._target = loop, traffic.target
        self._plan, self._level = traffic.plan, traffic.level
        self._clock, self._prompts = traffic.clock, traffic.prompts
        self._health = HealthMonitor(loop)
        self._inbox = Inbox(loop)
        self._over: asyncio.Future[None] = loop.create_future()
        self._connections: set[Connection] = set()
        self._connecting: set[asyncio.Task[Any]] = set()
        self._timers: set[asyncio.TimerHandle] = set()
        self._records: list[RequestRecord] = []
        self._ended_count = self._failed_count = 0
        self._gave_up = False
        self._started = self._last_progress = 0.0

    @abc.abstractmethod
    def _live(self) -> list[LiveRequest]:
        """What is on the wire now."""

    @abc.abstractmethod
    def _starved(self, request: LiveRequest, error: str) -> None:
        """`request` got nothing for longer than is patient: it ends here."""

    async def _carry_out(self, begin: Callable[[], None]) -> ClientHealth:
        """The level from its first request to its end, with all sockets closed after it. Raises what ended it early."""
        self._loop.set_exception_handler(self._crash)
        self._started = self._last_progress = perf_counter()
        try:
            begin()
            self._after(WATCH_PERIOD_S, self._watch)
            await self._over
            client = self._health.stop()
            if self._gave_up:
                await self._ask_after_death()
        finally:
            await self._close()
        return client

    def stop(self) -> None:
        """Ends the level from outside; what it would have returned is lost."""
        if not self._over.done():
            self._over.cancel()

    def _ticks(self, stamp: float) -> float:
        """The one place where the wall's clock becomes the node's."""
        return (stamp - self._started) * self._clock.rate

    def _tokens(self, prompt: Prompt) -> int:
        return self._plan.max_tokens if prompt.max_tokens is None else prompt.max_tokens

    async def _open(self, on_end: Callable[[float, str | None], None]) -> Connection:
        connection = Connection(self._inbox, self._target.wire, on_progress=self._progressed, on_end=on_end)
        self._connections = {known for known in self._connections if not known.closed.is_set()} | {connection}
        try:
            await self._loop.create_connection(lambda: connection, self._target.host, self._target.port)
        except asyncio.CancelledError:
            connection.closed.set()  # uvloop closes the transport of a cancelled attempt and never tells its protocol
            raise
        return connection

    def _progressed(self, stamp: float) -> None:
        self._last_progress = stamp

    def _none_works(self, first: int) -> bool:
        """More than 10 % failed (and more than 10), or all of the first `first`."""
        borne = max(FAILURES_BORNE, FAILURE_SHARE_BORNE * self._level.requests)
        return self._failed_count > borne or self._failed_count == self._ended_count >= first

    async def _ask_after_death(self) -> None:
        """A dying server drops its connections a moment before its process is seen to end."""
        deadline = perf_counter() + DEATH_NOTICE_S
        while perf_counter() < deadline:
            if reason := self._clock.alive():
                raise LoadFailed(f"the server died while {self._name()} was measured: {reason}")
            await asyncio.sleep(0.05)

    def _name(self) -> str:
        return f"level {self._level.concurrency}"

    def _watch(self) -> None:
        if self._over.done():
            return
        if reason := self._clock.alive():
            self._fail(LoadFailed(f"the server died while {self._name()} was measured: {reason}"))
            return
        patience = max(self._level.patience_s / self._clock.rate, SHORTEST_PATIENCE_S)
        now = perf_counter()
        live = self._live()
        if (live or self._connecting) and now - self._last_progress > patience:
            silence = (now - self._last_progress) * self._clock.rate
            self._fail(
                NoTokens(
                    f"no token for {silence:.0f} s while {len(live)} requests are in flight "
                    f"(patience {self._level.patience_s:g} s)",
                    hint="see the end of the server's log; `limits.request_patience_s` sets the patience",
                )
            )
            return
        for request in live:
            silence = now - request.last_progress
            if silence > REQUEST_PATIENCE_FACTOR * patience:  # starved: it must not keep the window from opening
                self._starved(request, f"no token for {silence * self._clock.rate:.0f} s")
        self._after(WATCH_PERIOD_S, self._watch)

    def _fail(self, error: BaseException) -> None:
        if not self._over.done():
            self._over.set_exception(error)

    def _crash(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """An exception inside a callback is a bug (ours, or of `alive` or the wire): it ends the level, loudly."""
        if self._over.done():
            loop.default_exception_handler(context)
        else:
            self._fail(context.get("exception") or RuntimeError(context["message"]))

    def _after(self, delay: float, action: Callable[[], None]) -> None:
        def fire() -> None:
            self._timers.discard(timer)
            action()

        timer = self._loop.call_later(delay, fire)
        self._timers.add(timer)

    async def _close(self) -> None:
        """Cuts off what is in flight, and waits until no socket is left."""
        self.stop()
        self._health.stop()
        for timer in self._timers:
            timer.cancel()
        for task in self._connecting:
            task.cancel()
        await asyncio.gather(*self._connecting, return_exceptions=True)
        for request in self._live():
            self._records.append(self._cut_off(request))
        for connection in self._connections:
            connection.abort()
        for connection in self._connections:
            await connection.wait_closed()

    def _cut_off(self, request: LiveRequest) -> RequestRecord:
        return request.record(self._ticks, cancelled=True)
