"""The closed loop of autotune/load on a simulated node, in the node's own time: no process, no socket, no waiting.

The step loop is the simulated node's own, the window is the load client's own, and what comes out is a LevelRun as
the client would have brought it, so that `autotune.scoring.measure` takes it unchanged. What a real client adds is
left out: its lag (set `turnaround_s` for it), HTTP, and the bundling of steps at high speed.

    node = VirtualNode("rtx-pro-6000-x8", ["--tp-size", "8"], TUNED, seed=1, noise=Noise(relative=0.02))
    measure(node.level(LevelPlan(10, 50), 128)).output_throughput
    node.truth(10, 128)
    node.restart()
"""

from __future__ import annotations

import heapq
import itertools
import random
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from autotune.domain.measurement import ClientHealth, LevelRun, RequestRecord
from autotune.domain.stopping import Look
from autotune.domain.workload import LevelPlan, Prompt, PromptSource
from autotune.errors import LoadFailed
from autotune.load.generator import spread_tokens
from autotune.load.window import Window
from autotune.simulated_node.acceptance import CLASSES, reach_of
from autotune.simulated_node.latency import StepModel
from autotune.simulated_node.nodes import NodeDescription, node_named
from autotune.simulated_node.plan import ServingPlan
from autotune.simulated_node.resolution import resolve
from autotune.simulated_node.scheduler import NoiseLaw, Request, Scheduler
from benchmarks.measuring.long_run import long_run_throughput

TUNED: Mapping[str, str] = {"NCCL_PROTO": "LL", "NCCL_ALGO": "Ring", "NCCL_P2P_LEVEL": "SYS"}
BETWEEN_ENDS_S = 1e-6
"""The client reads the streams that end with one step one after the other; so far apart are their stamps."""

NO_CLIENT = ClientHealth(lag_p99_s=None, cpu_share=None)


@dataclass(frozen=True)
class Noise:
    """`relative`, `launch` and `drift_per_hour` as in NoiseLaw. `history` gives a further factor on every step by
    the node's clock: a neighbour who comes at a certain hour, say."""

    relative: float = 0.01
    launch: float = 0.0
    drift_per_hour: float = 0.0
    history: Callable[[float], float] | None = None


@dataclass(frozen=True)
class Burst:
    """`requests` requests, at most so many at a time, from an idle server to the last token."""

    tokens: int
    wall_s: float
    latencies_s: tuple[float, ...]

    @property
    def throughput(self) -> float:
        return self.tokens / self.wall_s


class MadeUpPrompts:
    """Prompts that differ, all of one length (in tokens as the simulated node counts them).

    They begin with random digits, since the node takes a prompt's class from its checksum: counted names would have
    checksums that go together, and the mix of classes would be far more uneven than that of real prompts.
    """

    def __init__(self, tokens: int, seed: int) -> None:
        if tokens < 7:
            raise ValueError(f"prompts need 7 tokens for 24 digits that tell them apart, but got {tokens}")
        self.position = 0
        self.capacity = 10**12
        self._characters = max(1, (tokens - 1) * 4)
        self._seed = seed

    def take(self, count: int) -> list[Prompt]:
        first, self.position = self.position, self.position + count
        return [self._at(number) for number in range(first, first + count)]

    def _at(self, number: int) -> Prompt:
        digits = random.Random(f"{self._seed} {number}").randbytes(12).hex()
        return Prompt(f"{self._seed}-{number}", digits.ljust(self._characters, "."))


class _AgingModel(StepModel):
    """Step times with a factor that depends on the node's clock."""

    def __init__(self, node: NodeDescription, plan: ServingPlan, factor: Callable[[], float]) -> None:
        super().__init__(node, plan)
        self._factor = factor

    def prefill_s(self, tokens: int) -> float:
        return super().prefill_s(tokens) * self._factor()

    def decode_s(self, running: int, context_tokens: int) -> float:
        return super().decode_s(running, context_tokens) * self._factor()


class VirtualNode:
    """One node with one server on it. `clock_s`: node seconds since it was made; it goes on through levels and
    launches, and each launch takes `startup_s` of it.

    `arguments` and `environment` are what the server would be started with, without `--model-path`. `prompts` gives
    every request its prompt (default: prompts of `prompt_tokens` tokens, all different). `turnaround_s`: node seconds
    from the end of a request to the arrival of the slot's next one.

    Raises ValueError where such a server would not start (what SGLang's own checks raise, and SystemExit, besides).
    """

    def __init__(
        self,
        node: NodeDescription | str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        *,
        seed: int = 0,
        noise: Noise | None = None,
        prompts: PromptSource | None = None,
        prompt_tokens: int = 100,
        turnaround_s: float = 0.0,
        startup_s: float = 60.0,
    ) -> None:
        self.node = node_named(node) if isinstance(node, str) else node
        self.noise = noise or Noise()
        self.prompts: PromptSource = prompts or MadeUpPrompts(prompt_tokens, seed)
        self.prompt_tokens = prompt_tokens
        self.turnaround_s = turnaround_s
        self.startup_s = startup_s
        self.launches = 0
        self._seed = seed
        self._launched_s = 0.0
        self._scheduler: Scheduler | None = None
        self.restart(arguments, environment)

    @property
    def clock_s(self) -> float:
        return self._launched_s + (self._scheduler.now_s if self._scheduler else 0.0)

    @property
    def scheduler(self) -> Scheduler:
        assert self._scheduler is not None
        return self._scheduler

    def restart(self, arguments: Sequence[str] | None = None, environment: Mapping[str, str] | None = None) -> None:
        """A new launch, of another server where arguments are given: its factor is drawn anew."""
        if arguments is not None:
            self.plan = _plan(self.node, arguments, environment or {})
            tree = self.plan.tree
            self._reaches = [reach_of(self.node.acceptance, tree, i) for i in range(CLASSES)] if tree else [()]
        self._launched_s = self.clock_s + self.startup_s
        self.launches += 1
        law = self.noise
        rng = random.Random(f"{self._seed} {self.launches}")
        noise = NoiseLaw(law.relative, law.launch, law.drift_per_hour, self._launched_s)
        self._scheduler = Scheduler(self.plan, self._model(), rng, noise)

    def rest(self, seconds: float) -> None:
        """Lets time pass while nothing is asked of the server."""
        self.scheduler.now_s += seconds

    def level(self, level: LevelPlan, max_tokens: int) -> LevelRun:
        """As autotune.load.run_level in a closed loop, with the plan's rule for when to end. A look takes no time. A
        prompt's own max_tokens goes before `max_tokens`. Raises LoadFailed if the server dies."""
        return _ClosedLoop(self, level, max_tokens).run()

    def burst(self, concurrency: int, requests: int, max_tokens: int, *, prompts: Sequence[Prompt] = ()) -> Burst:
        """The protocol of the published table: `requests` requests behind a gate that lets `concurrency` through at a
        time; the gate opens on an idle server, and the clock stops at the end of the last request. `prompts` are
        sent in turn, over and over; none: fresh ones."""
        chosen = list(itertools.islice(itertools.cycle(prompts), requests)) if prompts else self.prompts.take(requests)
        scheduler = self.scheduler
        start_s, tokens = scheduler.now_s, 0
        waiting = iter(chosen)
        latencies: list[float] = []
        for prompt in itertools.islice(waiting, concurrency):
            self._submit(prompt, max_tokens)
        while len(latencies) < requests:
            for request in self._step("a burst"):
                latencies.append(scheduler.now_s - request.submitted_s)
                tokens += request.tokens
                if (following := next(waiting, None)) is not None:
                    self._submit(following, max_tokens)
        return Burst(tokens, scheduler.now_s - start_s, tuple(latencies))

    def truth(self, concurrency: int, max_tokens: int) -> float:
        """Output tokens per node second of an endless measurement with prompts of `prompt_tokens` tokens, without
        noise, drift and turnaround; to about 0.1 % (see long_run)."""
        return long_run_throughput(self.node, self.plan, concurrency, max_tokens, self.prompt_tokens)

    def _submit(self, prompt: Prompt, tokens: int, owner: object = None, at_s: float | None = None) -> Request:
        text = prompt.text.encode()
        request = Request(
            prompt.identity,
            prompt_key=zlib.crc32(text),
            prompt_tokens=len(prompt.text) // 4 + 1,
            limit=tokens,
            reach=self._reaches[zlib.crc32(text, self._seed) % len(self._reaches)],
        )
        request.owner = owner
        self.scheduler.submit(request, self.scheduler.now_s if at_s is None else at_s)
        return request

    def _step(self, what: str) -> list[Request]:
        """Ends the step in progress; the requests that ended with it."""
        end_s = self.scheduler.next_step_end_s
        if end_s is None:
            raise LoadFailed(
                f"the server died while {what} was measured: {self.scheduler.failure or 'it stands still'}"
            )
        return self.scheduler.advance(end_s)

    def _model(self) -> StepModel:
        history = self.noise.history
        if history is None:
            return StepModel(self.node, self.plan)
        return _AgingModel(self.node, self.plan, lambda: history(self.clock_s))


def _plan(node: NodeDescription, arguments: Sequence[str], environment: Mapping[str, str]) -> ServingPlan:
    resolved = resolve(node, ["--model-path", "virtual", *arguments], environment)
    if resolved.failure is not None:
        raise ValueError(f"such a server dies while starting: {resolved.failure.error}")
    return resolved.plan


@dataclass(eq=False, slots=True)
class _Live:
    """One request on its way, as the client sees it. Times are of the scheduler's clock."""

    prompt: Prompt
    slot: int
    tokens: int
    warmup: bool
    sent_s: float
    request: Request | None = None  # None: it has not arrived yet
    times: list[float] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)


class _ClosedLoop:
    """The rules of autotune.load.generator.ClosedLoop."""

    def __init__(self, node: VirtualNode, level: LevelPlan, max_tokens: int) -> None:
        self._node, self._level, self._max_tokens = node, level, max_tokens
        self._scheduler = node.scheduler
        self._started = self._scheduler.now_s
        self._window = Window(
            level.concurrency,
            level.requests,
            looks=level.rule is not None,
            most=level.most_requests,
            seconds=level.seconds,
        )
        self._fresh = iter(node.prompts.take(level.prompts))
        self._warm = [False] * level.concurrency
        self._slots: list[_Live] = []
        self._travelling: list[tuple[float, int, _Live]] = []  # sent, not arrived yet
        self._numbers = itertools.count()
        self._records: list[RequestRecord] = []
        self._remarks: tuple[str, ...] = ()

    def run(self) -> LevelRun:
        for slot in range(self._level.concurrency):
            self._slots.append(self._send(slot, self._started))
        name = f"level {self._level.concurrency}"
        while True:
            self._arrive()
            finished = self._node._step(name)
            self._stamp_chunks()
            for place, request in enumerate(finished):
                if self._ended(request, self._scheduler.now_s + place * BETWEEN_ENDS_S):
                    return self._close()  # what ends later in this step is cut off

    def _send(self, slot: int, stamp: float) -> _Live:
        prompt = next(self._fresh, None) or self._node.prompts.take(1)[0]
        tokens = self._max_tokens if prompt.max_tokens is None else prompt.max_tokens
        warm = self._warm[slot]
        if not warm:
            tokens = spread_tokens(tokens, (slot + 1) / self._level.concurrency)
        live = _Live(prompt, slot, tokens, not warm, stamp)
        if self._node.turnaround_s > 0:
            heapq.heappush(self._travelling, (stamp + self._node.turnaround_s, next(self._numbers), live))
        else:
            live.request = self._node._submit(prompt, tokens, live)
        self._window.sent(stamp)
        return live

    def _arrive(self) -> None:
        """Hands in what arrives before the step in progress ends."""
        while self._travelling:
            at_s, _number, live = self._travelling[0]
            end_s = self._scheduler.next_step_end_s
            if end_s is not None and end_s <= at_s:
                return
            heapq.heappop(self._travelling)
            live.request = self._node._submit(live.prompt, live.tokens, live, at_s)

    def _stamp_chunks(self) -> None:
        now_s, interval = self._scheduler.now_s, self._node.plan.stream_interval
        for request in self._scheduler.running:
            tokens = request.tokens
            if tokens - request.emitted >= interval or not request.emitted:
                request.emitted = tokens
                live = request.owner
                live.times.append(now_s)  # type: ignore[attr-defined]
                live.counts.append(tokens)  # type: ignore[attr-defined]

    def _ended(self, request: Request, stamp: float) -> bool:
        """Returns whether the level is over by this."""
        live = request.owner
        assert isinstance(live, _Live)
        live.times.append(stamp)
        live.counts.append(request.tokens)
        if not self._warm[live.slot]:
            self._warm[live.slot] = True
            self._window.slot_is_warm()
        self._records.append(self._record(live, cancelled=False))
        if self._window.ended(stamp):
            return True
        self._slots[live.slot] = self._send(live.slot, stamp)
        return self._window.look_is_due and self._look(stamp)

    def _look(self, stamp: float) -> bool:
        """Returns whether the level is over by this."""
        self._window.look_is_due = False
        rule, opened = self._level.rule, self._window.opened
        if rule is None or opened is None:
            return False
        window = (opened - self._started, stamp - self._started)
        run = LevelRun(self._level.concurrency, tuple(self._records), window, NO_CLIENT)
        turns = rule.look(run, self._cut_off(), may_open_later=self._window.may_open_later)
        while True:
            try:
                next(turns)
            except StopIteration as done:
                look: Look = done.value
                break
        over = self._window.settle(look, stamp, None if look.opens_s is None else self._started + look.opens_s)
        self._remarks = (look.why,) if over and look.why else ()
        return over

    def _close(self) -> LevelRun:
        bounds = self._window.bounds
        run = LevelRun(
            concurrency=self._level.concurrency,
            records=tuple(sorted((*self._records, *self._cut_off()), key=lambda record: record.sent_s)),
            window=None if bounds is None else (bounds[0] - self._started, bounds[1] - self._started),
            client=NO_CLIENT,
            in_flight_minimum=self._window.lowest,
            remarks=self._remarks,
            opened_late_s=self._window.opened_late,
        )
        for live in self._slots:
            if live.request is not None:
                self._scheduler.abort(live.request)
        while (end_s := self._scheduler.next_step_end_s) is not None:  # the step in progress keeps its length
            self._scheduler.advance(end_s)
        return run

    def _cut_off(self) -> Iterator[RequestRecord]:
        return (self._record(live, cancelled=True) for live in self._slots if not self._has_ended(live))

    @staticmethod
    def _has_ended(live: _Live) -> bool:
        return bool(live.counts) and live.counts[-1] >= live.tokens

    def _record(self, live: _Live, *, cancelled: bool) -> RequestRecord:
        start, request = self._started, live.request
        ended = not cancelled and request is not None
        return RequestRecord(
            identity=live.prompt.identity,
            prompt=live.prompt.text,
            warmup=live.warmup,
            requested_tokens=live.tokens,
            sent_s=live.sent_s - start,
            chunk_times_s=tuple([time - start for time in live.times]),
            chunk_tokens=tuple(live.counts),
            prompt_tokens=request.prompt_tokens if request is not None and live.counts else None,
            completion_tokens=live.counts[-1] if live.counts else None,
            verify_count=request.verify_count if ended and request is not None and request.verify_count else None,
            finish_reason="length" if ended else None,
            cancelled=cancelled,
        )
