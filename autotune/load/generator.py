"""A closed loop at one concurrency level: slots that keep requests in flight, and the rules for when that ends."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from functools import partial
from time import perf_counter

import uvloop

from autotune.domain.engine import Wire
from autotune.domain.measurement import ClientHealth, LevelRun
from autotune.domain.stopping import Look
from autotune.domain.workload import REQUESTS_PER_SLOT, LevelPlan, MeasurementPlan, PromptSource
from autotune.errors import LevelRefused, LoadFailed
from autotune.load.connection import Connection
from autotune.load.interruption import orderly_signals
from autotune.load.open_loop import OpenLoop, refuse_rate
from autotune.load.request import LiveRequest
from autotune.load.session import Clock, Prompts, Session, Target, Traffic
from autotune.load.window import Window

RETRY_PAUSE_S = 0.2


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
    """Keeps `level.concurrency` requests in flight until `level.requests` have ended inside the window, or, where the
    level has a rule, until that is satisfied or the level's bounds are reached.

    Ticks of the result are node seconds since the start of the level. Records are in the order of sending; those
    still in flight at the end are cut off (`cancelled`), so that no node time goes into a tail.

    A request fails by an HTTP status, an error in its stream, a lost connection, unreadable data, an end without a
    finish reason, or silence for five times the patience; its slot goes on over a new connection. If more than
    max(10, 10 % of `level.requests`) fail, or all of the first 2 x concurrency, the level ends early and what there
    is comes back: judging it is up to the caller.

    A level with a `rate` is an open loop instead: see autotune.load.open_loop.

    Raises LevelRefused for fewer than 5 x concurrency requests; LoadFailed if prompts run out, the server dies, or
    no request gets a token for `level.patience_s` (node seconds, but at least 5 of the wall); Interrupted or
    whatever the program's own handler raises (KeyboardInterrupt) on SIGINT and SIGTERM, after all is closed.
    """
    kind: type[ClosedLoop] | type[OpenLoop] = ClosedLoop
    if level.rate is None:
        _refuse_unreachable(level)
    else:
        refuse_rate(level)
        kind = OpenLoop
    fresh = prompts.take(level.prompts)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        loop = runner.get_loop()
        session = kind(loop, Traffic(Target(host, port, wire), plan, level, clock, Prompts(fresh, prompts)))
        with orderly_signals(lambda: loop.call_soon_threadsafe(session.stop)):
            return runner.run(session.run())


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


class _Slot:
    def __init__(self, share: float) -> None:
        self.warmup_share = share
        self.warm = False
        self.connection: Connection | None = None
        self.request: LiveRequest | None = None  # on the wire, or waiting for its connection
        self.in_flight = False


class ClosedLoop(Session):
    """A slot's next request leaves in the callback that saw the last one end, so between them no slot is ever seen
    empty.

    Warm-up: a slot's first request asks for a share of its tokens that grows from slot to slot, (i + 1) / concurrency.
    With equal lengths all slots would finish together and start together for ever; with spread ones the ages of the
    requests in flight are from the start what they are in the long run, and prefills come one by one.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, traffic: Traffic) -> None:
        super().__init__(loop, traffic)
        level = traffic.level
        self._slots = [_Slot((i + 1) / level.concurrency) for i in range(level.concurrency)]
        self._window = Window(
            level.concurrency,
            level.requests,
            looks=level.rule is not None,
            most=level.most_requests,
            seconds=None if level.seconds is None else level.seconds / traffic.clock.rate,
        )
        self._remarks: tuple[str, ...] = ()

    async def run(self) -> LevelRun:
        client = await self._carry_out(self._begin_all)
        bounds = self._window.bounds
        return LevelRun(
            concurrency=self._level.concurrency,
            records=tuple(sorted(self._records, key=lambda record: record.sent_s)),
            window=None if bounds is None else (self._ticks(bounds[0]), self._ticks(bounds[1])),
            client=client,
            in_flight_minimum=self._window.lowest,
            remarks=self._remarks,
            opened_late_s=self._window.opened_late * self._clock.rate,
        )

    def _begin_all(self) -> None:
        for slot in self._slots:
            self._begin(slot)

    def _live(self) -> list[LiveRequest]:
        return [slot.request for slot in self._slots if slot.in_flight and slot.request is not None]

    # A slot's life: begin, send, ended, begin, …

    def _begin(self, slot: _Slot) -> None:
        if self._over.done():
            return
        try:
            prompt = self._prompts.next()
        except LoadFailed as error:
            self._without_prompts(error)
            return
        tokens = self._tokens(prompt) if slot.warm else spread_tokens(self._tokens(prompt), slot.warmup_share)
        slot.request = LiveRequest(prompt, tokens, warmup=not slot.warm)
        if slot.connection is not None and slot.connection.usable:
            self._send(slot, slot.connection, slot.request)
            return
        self._window.slot_is_empty()
        slot.request.mark_sent(perf_counter())  # stands if the connection is refused
        task = self._loop.create_task(self._open(partial(self._ended, slot)))
        self._connecting.add(task)
        task.add_done_callback(partial(self._connected, slot))

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
        connection.send(request, self._target.message(request, self._plan))
        slot.in_flight = True
        if self._window.sent(request.sent):
            self._health.start()

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
        elif self._none_works(2 * self._level.concurrency):
            self._give_up()
        elif error is None:
            self._begin(slot)
        else:
            self._window.slot_is_empty()
            self._drop(slot)
            self._after(RETRY_PAUSE_S, partial(self._begin, slot))
        self._records.append(request.record(self._ticks, error=error))  # late: the slot's next request must not wait
        if self._window.look_is_due and not self._over.done():
            self._begin_look(stamp)

    # A look: the statistics are asked whether this is enough, in turns between which the streams are read

    def _begin_look(self, stamp: float) -> None:
        self._window.look_is_due = False
        opened = self._window.opened
        if self._level.rule is None or opened is None:
            return
        run = LevelRun(
            concurrency=self._level.concurrency,
            records=tuple(self._records),
            window=(self._ticks(opened), self._ticks(stamp)),
            client=ClientHealth(None, None),
        )
        live = (request.record(self._ticks, cancelled=True) for request in self._live())
        look = self._level.rule.look(run, live, may_open_later=self._window.may_open_later)
        self._loop.call_soon(self._go_on_looking, look, stamp)

    def _go_on_looking(self, look: Generator[None, None, Look], stamp: float) -> None:
        if self._over.done():
            return
        try:
            next(look)
        except StopIteration as done:
            found: Look = done.value
            opens = None if found.opens_s is None else self._started + found.opens_s / self._clock.rate
            if self._window.settle(found, stamp, opens):
                self._remarks = (found.why,) if found.why else ()
                self._over.set_result(None)
        else:
            self._loop.call_soon(self._go_on_looking, look, stamp)

    def _without_prompts(self, error: LoadFailed) -> None:
        """No more are left: what there is stands, if it is what the plan asks for at least."""
        if self._window.has_its_floor and self._window.close_early():
            self._over.set_result(None)
        else:
            self._fail(error)

    def _drop(self, slot: _Slot) -> None:
        if slot.connection is not None:
            slot.connection.abort()
            slot.connection = None

    def _starved(self, request: LiveRequest, error: str) -> None:
        slot = next(slot for slot in self._slots if slot.request is request)
        self._ended(slot, perf_counter(), error)

    def _give_up(self) -> None:
        self._gave_up = True
        self._window.close_early()
        self._over.set_result(None)


def spread_tokens(tokens: int, share: float) -> int:
    """Tokens of a slot's warm-up request."""
    return max(1, round(tokens * share))
