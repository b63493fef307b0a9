"""A closed loop at one concurrency level: slots that keep requests in flight, and the rules for when that ends."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

import uvloop

from autotune.domain.engine import Wire
from autotune.domain.measurement import LevelRun, RequestRecord
from autotune.domain.workload import REQUESTS_PER_SLOT, LevelPlan, MeasurementPlan, Prompt, PromptSource
from autotune.errors import LevelRefused, LoadFailed, NoTokens
from autotune.load.connection import Connection, Inbox
from autotune.load.health import HealthMonitor
from autotune.load.interruption import orderly_signals
from autotune.load.request import LiveRequest
from autotune.load.window import Window

WATCH_PERIOD_S = 0.5
RETRY_PAUSE_S = 0.2
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


def run_level(
    host: str,
    port: int,
    *,
    wire: Wire,
    plan: MeasurementPlan,
    level: LevelPlan,
    prompts: PromptSource,
    clock: Clock,
) -> LevelRun:
    """Keeps `level.concurrency` requests in flight until `level.requests` have ended inside the window.

    Ticks of the result are node seconds since the start of the level. Records are in the order of sending; those
    still in flight at the end are cut off (`cancelled`), so that no node time goes into a tail.

    A request fails by an HTTP status, an error in its stream, a lost connection, unreadable data, an end without a
    finish reason, or silence for five times the patience; its slot goes on over a new connection. If more than
    max(10, 10 % of `level.requests`) fail, or all of the first 2 x concurrency, the level ends early and what there
    is comes back: judging it is up to the caller.

    Raises LevelRefused for fewer than 5 x concurrency requests; LoadFailed if prompts run out, the server dies, or
    no request gets a token for `level.patience_s` (node seconds, but at least 5 of the wall); Interrupted or
    whatever the program's own handler raises (KeyboardInterrupt) on SIGINT and SIGTERM, after all is closed.
    """
    _refuse_unreachable(level)
    fresh = prompts.take(level.prompts)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        loop = runner.get_loop()
        generator = _Generator(loop, (host, port), wire, plan, level, clock, _Prompts(fresh, prompts))
        with orderly_signals(lambda: loop.call_soon_threadsafe(generator.stop)):
            return runner.run(generator.run())


def _refuse_unreachable(level: LevelPlan) -> None:
    needed = REQUESTS_PER_SLOT * level.concurrency
    if level.concurrency < 1:
        raise LevelRefused(f"a level needs at least one request in flight, but got {level.concurrency}")
    if level.requests < needed:
        raise LevelRefused(
            f"level {level.concurrency:,} needs {needed:,} requests ({REQUESTS_PER_SLOT} for each of its "
            f"{level.concurrency:,} slots), the plan has {level.requests:,}: with fewer, ramp-up and tail are measured",
            hint=f"plan {needed:,} requests at this level, or a level of {level.requests // REQUESTS_PER_SLOT} at most",
        )


class _Prompts:
    """The prompts put aside for the level, then single ones: where answers end early, warm-up takes more of them."""

    def __init__(self, fresh: list[Prompt], source: PromptSource) -> None:
        self._fresh = iter(fresh)
        self._source = source

    def next(self) -> Prompt:
        return next(self._fresh, None) or self._source.take(1)[0]


class _Slot:
    def __init__(self, warmup_tokens: int) -> None:
        self.warmup_tokens = warmup_tokens
        self.warm = False
        self.connection: Connection | None = None
        self.request: LiveRequest | None = None  # on the wire, or waiting for its connection
        self.in_flight = False


class _Generator:
    """All of it runs in callbacks of one loop: a slot's next request leaves in the callback that saw the last one
    end, so between them no slot is ever seen empty.

    Warm-up: a slot's first request asks for a share of the tokens that grows from slot to slot, max_tokens x (i + 1)
    / concurrency. With equal lengths all slots would finish together and start together for ever; with spread ones
    the ages of the requests in flight are from the start what they are in the long run, and prefills come one by one.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        address: tuple[str, int],
        wire: Wire,
        plan: MeasurementPlan,
        level: LevelPlan,
        clock: Clock,
        prompts: _Prompts,
    ) -> None:
        self._loop, self._address, self._wire = loop, address, wire
        self._plan, self._level, self._clock, self._prompts = plan, level, clock, prompts
        self._slots = [_Slot(spread_tokens(plan.max_tokens, i, level.concurrency)) for i in range(level.concurrency)]
        self._window = Window(level.concurrency, level.requests)
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

    async def run(self) -> LevelRun:
        self._loop.set_exception_handler(self._crash)
        self._started = self._last_progress = perf_counter()
        try:
            for slot in self._slots:
                self._begin(slot)
            self._after(WATCH_PERIOD_S, self._watch)
            await self._over
            client = self._health.stop()
            if self._gave_up:
                await self._ask_after_death()
        finally:
            await self._close()
        bounds = self._window.bounds
        return LevelRun(
            concurrency=self._level.concurrency,
            records=tuple(sorted(self._records, key=lambda record: record.sent_s)),
            window=None if bounds is None else (self._ticks(bounds[0]), self._ticks(bounds[1])),
            client=client,
            in_flight_minimum=self._window.lowest,
        )

    def stop(self) -> None:
        """Ends the level from outside; what it would have returned is lost."""
        if not self._over.done():
            self._over.cancel()

    def _ticks(self, stamp: float) -> float:
        """The one place where the wall's clock becomes the node's."""
        return (stamp - self._started) * self._clock.rate

    # A slot's life: begin, send, ended, begin, …

    def _begin(self, slot: _Slot) -> None:
        if self._over.done():
            return
        try:
            prompt = self._prompts.next()
        except LoadFailed as error:
            self._fail(error)
            return
        tokens = self._plan.max_tokens if slot.warm else slot.warmup_tokens
        slot.request = LiveRequest(prompt, tokens, warmup=not slot.warm)
        if slot.connection is not None and slot.connection.usable:
            self._send(slot, slot.connection, slot.request)
            return
        self._window.slot_is_empty()
        slot.request.mark_sent(perf_counter())  # stands if the connection is refused
        task = self._loop.create_task(self._connect(slot))
        self._connecting.add(task)
        task.add_done_callback(partial(self._connected, slot))

    async def _connect(self, slot: _Slot) -> Connection:
        connection = Connection(
            self._inbox, self._wire, on_progress=self._progressed, on_end=partial(self._ended, slot)
        )
        self._connections = {known for known in self._connections if not known.closed.is_set()} | {connection}
        try:
            await self._loop.create_connection(lambda: connection, *self._address)
        except asyncio.CancelledError:
            connection.closed.set()  # uvloop closes the transport of a cancelled attempt and never tells its protocol
            raise
        return connection

    def _connected(self, slot: _Slot, task: asyncio.Task[Connection]) -> None:
        self._connecting.discard(task)
        if task.cancelled() or slot.request is None:
            return
        error = task.exception()
        if isinstance(error, OSError):
            self._ended(slot, perf_counter(), f"no connection: {error}")
        elif error is not None:
            raise error
        elif not self._over.done():
            slot.connection = task.result()
            self._send(slot, slot.connection, slot.request)

    def _send(self, slot: _Slot, connection: Connection, request: LiveRequest) -> None:
        body = self._wire.body(
            request.prompt.text,
            request.tokens,
            temperature=self._plan.temperature,
            ignore_eos=self._plan.ignore_eos,
            rid=uuid.uuid4().hex,
        )
        connection.send(request, self._head(len(body)) + body)
        slot.in_flight = True
        if self._window.sent(request.sent):
            self._health.start()

    def _head(self, length: int) -> bytes:
        host, port = self._address
        shown = f"[{host}]" if ":" in host else host
        return (
            f"POST {self._wire.path} HTTP/1.1\r\nHost: {shown}:{port}\r\nAccept: text/event-stream\r\n"
            f"Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        ).encode()

    def _ended(self, slot: _Slot, stamp: float, error: str | None) -> None:
        request = slot.request
        if request is None or self._over.done():
            return
        was_in_flight = slot.in_flight
        slot.request, slot.in_flight = None, False
        self._ended_count += 1
        self._failed_count += error is not None
        if error is None and not slot.warm:
            slot.warm = True
            self._window.slot_is_warm()
        if self._window.ended(stamp, was_in_flight=was_in_flight):
            self._over.set_result(None)
        elif self._too_many_failed():
            self._give_up()
        elif error is None:
            self._begin(slot)
        else:
            self._window.slot_is_empty()
            self._drop(slot)
            self._after(RETRY_PAUSE_S, partial(self._begin, slot))
        self._records.append(request.record(self._ticks, error=error))  # last: the slot's next request must not wait

    def _drop(self, slot: _Slot) -> None:
        if slot.connection is not None:
            slot.connection.abort()
            slot.connection = None

    # When to stop

    def _progressed(self, stamp: float) -> None:
        self._last_progress = stamp

    def _too_many_failed(self) -> bool:
        borne = max(FAILURES_BORNE, FAILURE_SHARE_BORNE * self._level.requests)
        none_worked = self._failed_count == self._ended_count >= 2 * self._level.concurrency
        return self._failed_count > borne or none_worked

    def _give_up(self) -> None:
        self._gave_up = True
        self._window.close_early()
        self._over.set_result(None)

    async def _ask_after_death(self) -> None:
        """A dying server drops its connections a moment before its process is seen to end."""
        deadline = perf_counter() + DEATH_NOTICE_S
        while perf_counter() < deadline:
            if reason := self._clock.alive():
                raise LoadFailed(f"the server died while level {self._level.concurrency} was measured: {reason}")
            await asyncio.sleep(0.05)

    def _watch(self) -> None:
        if self._over.done():
            return
        if reason := self._clock.alive():
            self._fail(LoadFailed(f"the server died while level {self._level.concurrency} was measured: {reason}"))
            return
        patience = max(self._level.patience_s / self._clock.rate, SHORTEST_PATIENCE_S)
        now = perf_counter()
        if now - self._last_progress > patience:
            silence = (now - self._last_progress) * self._clock.rate
            self._fail(
                NoTokens(
                    f"no token for {silence:.0f} s while {self._window.in_flight} requests are in flight "
                    f"(patience {self._level.patience_s:g} s)",
                    hint="see the end of the server's log; `limits.request_patience_s` sets the patience",
                )
            )
            return
        for slot in self._slots:
            if not slot.in_flight or slot.request is None:
                continue
            silence = now - slot.request.last_progress
            if silence > REQUEST_PATIENCE_FACTOR * patience:  # starved: it must not keep the window from opening
                self._ended(slot, now, f"no token for {silence * self._clock.rate:.0f} s")
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
        for slot in self._slots:
            if slot.in_flight and slot.request is not None:
                self._records.append(slot.request.record(self._ticks, cancelled=True))
        for connection in self._connections:
            connection.abort()
        for connection in self._connections:
            await connection.wait_closed()


def spread_tokens(max_tokens: int, slot: int, concurrency: int) -> int:
    """Tokens of a slot's warm-up request; slots count from 0."""
    return max(1, round(max_tokens * (slot + 1) / concurrency))
