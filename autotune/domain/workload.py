"""What traffic to send, and what one trial is to measure of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from autotune.domain.level import Level, Rate
from autotune.domain.stopping import StoppingRule


@dataclass(frozen=True)
class Prompt:
    """`identity` is unique in a study: no prompt is sent twice. `max_tokens`: this prompt's own, if it has any."""

    identity: str
    text: str
    max_tokens: int | None = None


class PromptSource(Protocol):
    """Gives each prompt once. `capacity` counts the distinct prompts it can give in all."""

    @property
    def capacity(self) -> int: ...

    @property
    def position(self) -> int:
        """How many were given so far: what a resumed study skips."""
        ...

    def take(self, count: int) -> list[Prompt]:
        """Raises LoadFailed when fewer than `count` are left."""
        ...


ENDPOINTS = ("generate", "chat", "completions")


@dataclass(frozen=True)
class Workload:
    """`concurrency` maps each level (requests kept in flight, closed loop) to its weight in the objective.

    `rates` maps requests a second (open loop, Poisson arrivals, on the node's clock) to weights; either may be empty.

    `prefix_sharing`: every prompt begins with the same text of about `prefix_tokens` tokens. For closed loops alone:
    `precision`, half of the 95 % interval over the throughput that a level is to reach (None: a level ends with its
    floor of requests); `level_seconds`, bound on a window, on the node's clock.
    """

    concurrency: Mapping[int, float]
    prompts: str = "coding"
    max_tokens: int = 512
    temperature: float = 0.0
    ignore_eos: bool = True
    endpoint: str = "generate"
    prefix_sharing: bool = False
    prefix_tokens: int = 1024
    precision: float | None = None
    level_seconds: float | None = None
    rates: Mapping[float, float] = field(default_factory=dict)

    @property
    def weights(self) -> dict[Level, float]:
        """Of every level, closed loops first, each kind ascending."""
        found: dict[Level, float] = {level: self.concurrency[level] for level in self.closed}
        return found | {Rate(rate): weight for rate, weight in sorted(self.rates.items())}

    @property
    def closed(self) -> tuple[int, ...]:
        """Levels of closed loops."""
        return tuple(sorted(self.concurrency))

    @property
    def levels(self) -> tuple[Level, ...]:
        return tuple(self.weights)


@dataclass(frozen=True)
class LevelPlan:
    """`requests` complete inside the window; before it each of the `concurrency` slots runs one warm-up request.

    With a `rule` that is a floor: the rule says when warm-up is over and when the window may close. `most_requests`
    ends after the first warm-up (None: no bound), or `seconds` after it (on the node's clock), end the level all the
    same; the seconds end it even below the floor.

    `patience_s` (seconds on the node's clock) without any new token ends the level as stuck.

    With a `rate` (requests a second on the node's clock) it is an open loop: `requests` arrive inside the window,
    `warmup_requests` before it, and `concurrency` is how many may be in flight before the rate counts as too high.
    With `most_requests` each of the two goes on until it has lasted SETTLED_LATENCIES, or so many have arrived; the
    warm-up never beyond half of the room.
    """

    concurrency: int
    requests: int
    patience_s: float = 120.0
    rate: float | None = None
    warmup_requests: int = 0
    most_requests: int | None = None
    seconds: float | None = None
    rule: StoppingRule | None = field(default=None, compare=False)

    @property
    def level(self) -> Level:
        return self.concurrency if self.rate is None else Rate(self.rate)

    @property
    def prompts(self) -> int:
        """What is set aside for this level: warm-up, its floor of requests, and what is in flight at its end. Without
        a rule an upper bound."""
        if self.rate is not None:
            return 2 * self.requests + self.warmup_requests  # arrivals go on until the window's are answered
        return self.requests + 2 * self.concurrency

    @property
    def most_prompts(self) -> int:
        """An upper bound on the prompts this level takes, as long as `most_requests` bounds it. At a rate arrivals stop
        there, whether or not all of the window's are answered; with `most_requests` no more than the floor, it is
        `prompts`."""
        if self.rate is not None:
            spread = self.requests if self.most_requests is None else 3 * max(0, self.most_requests - self.requests)
            return self.prompts + spread
        if self.most_requests is None:
            return self.prompts
        return self.most_requests + 2 * self.concurrency

    def expected(self, latency_s: float) -> tuple[int, int, float]:
        """Requests in the window, prompts and seconds of the level, if each request took so long. At a rate as the load
        client has it: warm-up and window last for 1.5 latencies at least, and arrivals go on for another."""
        if self.rate is None:
            return self.requests, self.prompts, (self.requests / self.concurrency + 1) * latency_s
        settled, most = math.ceil(SETTLED_LATENCIES * latency_s * self.rate), self.most_requests or self.requests
        latest = min(self.warmup_requests + most, self.concurrency // 2)
        warm_up = min(latest, max(self.warmup_requests, settled))
        requests = max(self.requests, min(settled, most))
        prompts = warm_up + requests + math.ceil(latency_s * self.rate)
        return requests, min(prompts, self.most_prompts), (warm_up + requests) / self.rate + latency_s


@dataclass(frozen=True)
class MeasurementPlan:
    """What one trial is to measure. `name` tells plans apart in records (screening, baseline, confirmation)."""

    levels: tuple[LevelPlan, ...]
    max_tokens: int
    temperature: float = 0.0
    ignore_eos: bool = True
    name: str = "screening"

    @property
    def prompts(self) -> int:
        return sum(level.prompts for level in self.levels)


REQUESTS_PER_SLOT = 5
"""Requests per level and slot: fewer measure mostly ramp-up and tail (the seeds sent 30 requests at level 250)."""

LATE_WARM_UP, LATE_PRECISION = 2, 8
"""How many times its floor of requests a level may take: for its warm-up alone, and to be as precise as asked."""

ENDS_FOR_A_BOUND = 6
"""A window that its bound in time closes ends with the last request before, where the next end is the sixth or a later
one; a window of fewer is marked."""

LEAST_AT_RATE = 60
"""Requests that arrive inside a rate's window: a growing queue shows from 40 on, and a share is known to 13 points."""

ROOM_AT_RATE = 1000
"""Requests in flight at which a rate counts as more than the server sustains."""

LEAST_WARM_UP = 10

ASSUMED_TOKENS_PER_SECOND = 40.0
"""Of one request, before any was sent: for what a level is expected to take. `check --assume` names another."""

SETTLED_LATENCIES = 1.5
"""In flight has what the rate makes of it once so many of the longest latencies so far have passed."""


def at_rate(
    rate: float, requests: int, patience_s: float = LevelPlan.patience_s, *, most_requests: int | None = None
) -> LevelPlan:
    """An open loop of `rate` requests a second."""
    warmup = min(max(LEAST_WARM_UP, requests // 5), ROOM_AT_RATE // 2)
    return LevelPlan(ROOM_AT_RATE, requests, patience_s, rate=rate, warmup_requests=warmup, most_requests=most_requests)
