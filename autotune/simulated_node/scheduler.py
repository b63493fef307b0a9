"""The continuous-batching step loop, in the node's own time and without any I/O.

A step is either a prefill of waiting requests (they go first, as in SGLang) or one decode step of all that run. The
caller drives it: `advance(t)` ends every step that is over by `t`; requests are handed in at the time they arrive.
"""

from __future__ import annotations

import math
import random
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from autotune.simulated_node.latency import StepModel
from autotune.simulated_node.plan import ServingPlan

SLOW_NOISE_S = 5.0
"""Correlation time of the slow part of the noise, node seconds."""


class Request:
    """One request and how far it is. Times are node seconds; `reach` is what the draft achieves on its prompt."""

    __slots__ = (
        "cached_tokens",
        "emitted",
        "finish_reason",
        "finished_s",
        "first_token_s",
        "histogram",
        "limit",
        "owner",
        "prefill_left",
        "prompt_key",
        "prompt_tokens",
        "reach",
        "rid",
        "submitted_s",
        "text",
        "tokens",
        "verify_count",
    )

    def __init__(
        self, rid: str, *, prompt_key: int, prompt_tokens: int, limit: int, reach: tuple[float, ...] = ()
    ) -> None:
        self.rid = rid
        self.prompt_key = prompt_key
        self.prompt_tokens = prompt_tokens
        self.limit = limit  # completion tokens at which it ends
        self.reach = reach
        self.owner: object = None  # whoever reads it; the loop never looks at it
        self.text: str | None = None  # instead of the usual one
        self.finish_reason = "length"
        self.submitted_s = 0.0
        self.first_token_s: float | None = None
        self.finished_s: float | None = None
        self.cached_tokens = 0
        self.prefill_left = 0
        self.tokens = 0
        self.emitted = 0
        self.verify_count = 0
        self.histogram = [0] * (len(reach) + 1)


@dataclass(frozen=True)
class NoiseLaw:
    """`relative`: standard deviation of a slow factor on every step, and twice that of a fast one.

    `launch`: of one factor for the life of the process. `drift_per_hour`: slowdown for each node hour from `age_s`.
    """

    relative: float = 0.0
    launch: float = 0.0
    drift_per_hour: float = 0.0
    age_s: float = 0.0


@dataclass(frozen=True)
class DecodeReport:
    """What one `Decode batch` line of the log says."""

    running: int
    queued: int
    context_tokens: int
    accept_length: float | None
    graph: bool
    throughput: float


@dataclass
class Totals:
    """Since the start, or since the last flush where `accepted` and `verified` are concerned."""

    accepted: int = 0
    verified: int = 0
    generated: int = 0
    prompt: int = 0
    requests: int = 0
    aborted: int = 0
    last_throughput: float = 0.0
    average_accept: float | None = None


@dataclass
class _Interval:
    """Decode steps since the last report."""

    steps: int = 0
    tokens: int = 0
    accepted: int = 0
    verified: int = 0
    since_s: float = 0.0


@dataclass
class _Step:
    end_s: float
    prefilled: list[tuple[Request, int]] = field(default_factory=list)  # empty: a decode step


class Scheduler:
    """`on_report` gets a DecodeReport each decode_log_interval decode steps."""

    def __init__(
        self,
        plan: ServingPlan,
        model: StepModel,
        rng: random.Random,
        noise: NoiseLaw | None = None,
        on_report: Callable[[DecodeReport], None] | None = None,
    ) -> None:
        self.plan = plan
        self.now_s = 0.0
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self.totals = Totals()
        self.hung = False  # a switch of the caller: time goes on and no step ends
        self.failure: str | None = None  # set by the loop: what killed it
        self._model = model
        self._rng = rng
        self._noise = noise or NoiseLaw()
        self._slow_noise = 0.0
        self._launch_factor = math.exp(rng.gauss(0.0, 1.0) * self._noise.launch)
        self._on_report = on_report
        self._interval = _Interval()
        self._step: _Step | None = None
        self._prefilling: list[Request] = []
        self._reserved_tokens = 0
        self._context_tokens = 0
        self._seen: OrderedDict[int, int] = OrderedDict()
        self._seen_tokens = 0

    @property
    def context_tokens(self) -> int:
        return self._context_tokens

    @property
    def unfinished(self) -> int:
        return len(self.running) + len(self.waiting) + len(self._prefilling)

    @property
    def next_step_end_s(self) -> float | None:
        """When the step in progress ends; None when there is nothing to do."""
        if self._step is None and not self._stopped:
            self._begin_step()
        return None if self._step is None or self._stopped else self._step.end_s

    @property
    def _stopped(self) -> bool:
        return self.hung or self.failure is not None

    def quiet_until_s(self) -> float | None:
        """No request starts, or can end, before the returned time; None when there is nothing to do.

        Up to then a server may let steps pile up and deliver their tokens together.
        """
        end = self.next_step_end_s
        if end is None or self._step is None or self._step.prefilled:
            return end
        if self.waiting and len(self.running) < self.plan.max_running:  # a prefill comes next
            return end
        most = self.plan.tree.steps + 1 if self.plan.tree else 1
        steps = min((request.limit - request.tokens - 1) // most for request in self.running)
        return end + steps * (end - self.now_s) * 0.9

    def submit(self, request: Request, at_s: float) -> None:
        """Call `advance(at_s)` first: the loop must not be behind the arrival."""
        request.submitted_s = at_s
        if self._step is None:
            self.now_s = max(self.now_s, at_s)
        self.totals.requests += 1
        self.totals.prompt += request.prompt_tokens
        self.waiting.append(request)

    def abort(self, request: Request) -> None:
        """Takes effect at once; the step in progress keeps its length."""
        if request.finished_s is not None:
            return
        request.finish_reason = "abort"
        request.finished_s = self.now_s
        self.totals.aborted += 1
        if request in self.waiting:
            self.waiting.remove(request)
            return
        if request in self._prefilling:
            self._prefilling.remove(request)
        elif request in self.running:
            self.running.remove(request)
            self._context_tokens -= request.prompt_tokens + request.tokens
        self._reserved_tokens -= request.prompt_tokens + request.limit
        if self._step is not None and self._step.prefilled:
            self._step.prefilled = [pair for pair in self._step.prefilled if pair[0] is not request] or [
                (request, 0)  # an empty prefill, so that the step is not taken for a decode step
            ]

    def flush(self) -> bool:
        """Empties the prefix cache and the acceptance totals; False (and nothing done) while requests are there."""
        if self.unfinished:
            return False
        self._seen.clear()
        self._seen_tokens = 0
        self.totals.accepted = self.totals.verified = 0
        self.totals.average_accept = None
        return True

    def advance(self, until_s: float) -> list[Request]:
        """Ends every step that is over by `until_s`; returns the requests that finished, in order."""
        finished: list[Request] = []
        while not self._stopped:
            if self._step is None and not self._begin_step():
                break
            step = self._step
            if step is None or step.end_s > until_s:
                break
            started_s, self.now_s, self._step = self.now_s, step.end_s, None
            if step.prefilled:
                self._end_prefill(step, finished)
            elif self.running:
                self._end_decode(self.now_s - started_s, finished)
        return finished

    def _begin_step(self) -> bool:
        batch = self._prefill_batch()
        if batch:
            tokens = sum(tokens for _, tokens in batch)
            if tokens > self.plan.prefill_limit_tokens:
                self.failure = f"torch.OutOfMemoryError: CUDA out of memory in a prefill batch of {tokens} tokens."
                return False
            seconds = self._model.prefill_s(tokens)
        elif self.running:
            seconds = self._model.decode_s(len(self.running), self._context_tokens)
        else:
            return False
        self._step = _Step(self.now_s + seconds * self._noise_factor(seconds), batch)
        return True

    def _prefill_batch(self) -> list[tuple[Request, int]]:
        while self.waiting and len(self.running) + len(self._prefilling) < self.plan.max_running:
            request = self.waiting[0]
            need = request.prompt_tokens + request.limit
            if self._reserved_tokens + need > self.plan.kv_capacity_tokens and self._reserved_tokens:
                break
            self._reserved_tokens += need
            request.cached_tokens = self._cached(request)
            request.prefill_left = request.prompt_tokens - request.cached_tokens
            self._prefilling.append(self.waiting.popleft())
        budget = self.plan.chunk_tokens
        batch = []
        for request in self._prefilling:
            if budget <= 0:
                break
            tokens = min(budget, request.prefill_left)
            budget -= tokens
            batch.append((request, tokens))
        return batch

    def _cached(self, request: Request) -> int:
        """Tokens of the prompt that the prefix cache holds; whole prompts only, and never the last token."""
        if not self.plan.radix_cache:
            return 0
        known = self._seen.pop(request.prompt_key, None)
        self._seen[request.prompt_key] = request.prompt_tokens
        if known is not None:
            return max(0, request.prompt_tokens - 1)
        self._seen_tokens += request.prompt_tokens
        while self._seen_tokens > self.plan.kv_capacity_tokens and len(self._seen) > 1:
            self._seen_tokens -= self._seen.popitem(last=False)[1]
        return 0

    def _end_prefill(self, step: _Step, finished: list[Request]) -> None:
        for request, tokens in step.prefilled:
            if request.finished_s is not None:
                continue
            request.prefill_left -= tokens
            if request.prefill_left > 0:
                continue
            self._prefilling.remove(request)
            self.running.append(request)
            self._context_tokens += request.prompt_tokens + 1
            request.tokens = 1
            request.first_token_s = self.now_s
            self.totals.generated += 1
            if request.tokens >= request.limit:
                self._finish(request, finished)
        if finished:
            self.running = [request for request in self.running if request.finished_s is None]

    def _end_decode(self, seconds: float, finished: list[Request]) -> None:
        before = self._context_tokens
        count = len(self.running)
        ended = self._decode_speculating() if self.plan.tree else self._decode_plain()
        produced = self._context_tokens - before
        self.totals.generated += produced
        interval = self._interval
        if interval.steps == 0:
            interval.since_s = self.now_s - seconds
        interval.steps += 1
        interval.tokens += produced
        if ended:
            for request in ended:
                self._finish(request, finished)
            self.running = [request for request in self.running if request.finished_s is None]
        if interval.steps >= self.plan.decode_log_interval:
            self._report(count)

    def _decode_plain(self) -> list[Request]:
        ended = []
        for request in self.running:
            request.tokens += 1
            if request.tokens >= request.limit:
                ended.append(request)
        self._context_tokens += len(self.running)
        return ended

    def _decode_speculating(self) -> list[Request]:
        ended = []
        draw = self._rng.random
        accepted = produced = 0
        for request in self.running:
            request.verify_count += 1
            chance = draw()
            correct = 0
            for threshold in request.reach:
                if chance >= threshold:
                    break
                correct += 1
            request.histogram[correct] += 1
            accepted += correct + 1
            tokens = request.tokens + correct + 1
            if tokens >= request.limit:
                tokens = request.limit
                ended.append(request)
            produced += tokens - request.tokens
            request.tokens = tokens
        self._context_tokens += produced
        self._interval.accepted += accepted
        self._interval.verified += len(self.running)
        return ended

    def _finish(self, request: Request, finished: list[Request]) -> None:
        request.finished_s = self.now_s
        self._reserved_tokens -= request.prompt_tokens + request.limit
        self._context_tokens -= request.prompt_tokens + request.tokens
        finished.append(request)

    def _report(self, running: int) -> None:
        """Acceptance and throughput are brought up to date here only, as in SGLang: the tail of a run is missing."""
        interval, totals = self._interval, self.totals
        elapsed = self.now_s - interval.since_s
        totals.last_throughput = interval.tokens / elapsed if elapsed > 0 else 0.0
        length = None
        if interval.verified:
            totals.accepted += interval.accepted
            totals.verified += interval.verified
            totals.average_accept = totals.accepted / totals.verified
            length = interval.accepted / interval.verified
        self._interval = _Interval(since_s=self.now_s)
        if self._on_report is not None:
            graph = self._model.uses_graph(running)
            context, rate = self._context_tokens, totals.last_throughput
            self._on_report(DecodeReport(running, len(self.waiting), context, length, graph, rate))

    def _noise_factor(self, seconds: float) -> float:
        law = self._noise
        factor = self._launch_factor
        if law.drift_per_hour:
            factor *= 1.0 + law.drift_per_hour * (law.age_s + self.now_s) / 3600.0
        if law.relative:
            keep = math.exp(-seconds / SLOW_NOISE_S)
            gauss = self._rng.gauss
            self._slow_noise = self._slow_noise * keep + gauss(0.0, law.relative) * math.sqrt(1.0 - keep * keep)
            factor *= max(0.2, 1.0 + self._slow_noise + gauss(0.0, 2.0 * law.relative))
        return factor
