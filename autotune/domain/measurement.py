"""Clock ticks of one request, what a level showed, and the one number that is made of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from autotune.domain.finding import Effect, Finding, ServerWindow
from autotune.domain.level import Level, Rate


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """Ticks are seconds on the client's monotonic clock, stamped at the socket.

    chunk_times_s[i] is when the i-th chunk arrived, chunk_tokens[i] how many completion tokens the server had
    reported by then (cumulative). Tokens are what the server reports; a chunk may carry several.
    """

    identity: str
    prompt: str
    warmup: bool
    requested_tokens: int
    sent_s: float
    chunk_times_s: tuple[float, ...] = ()
    chunk_tokens: tuple[int, ...] = ()
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    verify_count: int | None = None  # target forward passes that verified drafts; None without speculation
    finish_reason: str | None = None
    text: str = ""
    error: str | None = None  # None: the server finished it
    cancelled: bool = False  # by the client, at the end of the window
    first_text_s: float | None = None  # first text, where the stream carries no counts (chunks are empty then)
    ended_s: float | None = None  # when the answer was complete, where the stream carries no counts

    @property
    def ok(self) -> bool:
        return self.error is None and not self.cancelled


@dataclass(frozen=True)
class ClientHealth:
    """`lag_p99_s`: how late the client's own loop ran; `cpu_share`: of one core, over the window."""

    lag_p99_s: float | None
    cpu_share: float | None


@dataclass(frozen=True)
class LevelRun:
    """All that the client saw at one level. `window` (start, end) is None if in flight never reached the level."""

    concurrency: int
    records: tuple[RequestRecord, ...]
    window: tuple[float, float] | None
    client: ClientHealth
    in_flight_minimum: int | None = None  # lowest number in flight during the window
    rate: float | None = None  # open loop: requests a second; `concurrency` is then the mean number in flight, rounded
    remarks: tuple[str, ...] = ()  # what the client has to say against the level, its stopping rule's word included
    opened_late_s: float = 0.0  # by how much a stopping rule moved the window's opening, as warm-up was not over

    @property
    def level(self) -> Level:
        return self.concurrency if self.rate is None else Rate(self.rate)

    @property
    def sustained(self) -> bool:
        """False of a rate at which in flight grew without bound: an open loop remarks on nothing else."""
        return self.rate is None or not self.remarks


@dataclass(frozen=True)
class Estimate:
    """A value with its 95 % interval; low and high are None where the data cannot give one."""

    value: float
    low: float | None = None
    high: float | None = None
    batches: int = 0  # parts of the window behind the interval

    @property
    def half_width(self) -> float | None:
        return None if self.low is None or self.high is None else (self.high - self.low) / 2

    def is_clearly_above(self, other: Estimate) -> bool:
        """The 95 % interval of the difference excludes 0; never where one of them has no interval."""
        if self.half_width is None or other.half_width is None:
            return False
        return self.value - other.value > math.hypot(self.half_width, other.half_width)


Interval = tuple[float | None, float | None]
"""Low and high of a 95 % interval; an end is None where the data set none to it."""


@dataclass(frozen=True)
class Percentiles:
    """`count` samples. The intervals are those of order statistics, with requests as independent (see
    scoring/order_statistics.py); in older records they are not told."""

    mean: float
    p50: float
    p95: float
    p99: float
    count: int
    p50_interval: Interval = (None, None)
    p95_interval: Interval = (None, None)
    p99_interval: Interval = (None, None)


@dataclass(frozen=True)
class DeviceWindow:
    """One GPU over a level's window, from `samples` readings; what the driver does not tell is None.

    power_w, sm_clock_mhz, memory_clock_mhz, utilisation (share of time with a kernel running): means.
    sm_clock_min_mhz: the lowest. temperature_c, memory_used_gib (by anyone): the highest. throttled: why the clocks
    were held down, with the share of the readings; idling is none of these reasons.
    """

    index: int
    name: str
    samples: int
    power_w: float | None = None
    sm_clock_mhz: float | None = None
    sm_clock_min_mhz: float | None = None
    memory_clock_mhz: float | None = None
    temperature_c: float | None = None
    utilisation: float | None = None
    memory_used_gib: float | None = None
    throttled: Mapping[str, float] = field(default_factory=dict)


UNSUSTAINED = "rate_not_sustained"
"""The guard that says that in flight grew without bound at a rate."""

ALARM = "ALARM: "
"""How a remark of older records begins that must be seen by whoever reads any figure of the trial: now a finding."""


@dataclass(frozen=True)
class Measurement:
    """What one level showed. Whatever was not seen is None, never zero.

    output_throughput: completion tokens inside the window per second. per_request_rate: mean over requests of
    completion tokens / E2E latency, tok/s. ttft, itl, tpot: milliseconds; e2e: seconds. ITL is the gap between
    chunks divided by the tokens of the later chunk. accept_length: sum of completion tokens / sum of verify passes.
    """

    concurrency: int
    requests_total: int  # asked for within the window; cancelled ones are not counted
    requests_ok: int
    window_s: float | None = None
    output_throughput: Estimate | None = None
    per_request_rate: float | None = None
    ttft_ms: Percentiles | None = None
    itl_ms: Percentiles | None = None
    tpot_ms: Percentiles | None = None
    e2e_s: Percentiles | None = None
    accept_length: float | None = None
    completion_tokens: int | None = None
    client: ClientHealth | None = None
    remarks: tuple[str, ...] = ()  # what a reader must know before using the figures
    rate: float | None = None  # open loop: requests a second; `concurrency` is then the mean number in flight, rounded
    devices: tuple[DeviceWindow, ...] = ()  # the trial's GPUs over the window; empty where none were read
    good_share: Estimate | None = None  # of requests within every bound that the SLO sets to a single request
    goodput: Estimate | None = None  # such requests a second
    findings: tuple[Finding, ...] = ()  # of the guards, in the order of their table
    server: ServerWindow | None = None  # from the server's own log; None where it could not be read
    looping_share: float | None = None  # of the answers long enough to tell (0 to 1)
    answer_tokens: float | None = None  # mean completion tokens of the requests that ended well

    @property
    def level(self) -> Level:
        return self.concurrency if self.rate is None else Rate(self.rate)

    @property
    def sustained(self) -> bool:
        """See LevelRun; of a measurement that the guards have looked at."""
        return all(found.guard != UNSUSTAINED for found in self.findings)

    @property
    def main_figure(self) -> Estimate | None:
        """What the level is about: its output throughput; at a rate, of which that is no more than a multiple, its
        goodput."""
        return self.output_throughput if self.rate is None else self.goodput

    @property
    def alarms(self) -> tuple[str, ...]:
        """Without the word itself. Older records have them among the remarks."""
        told = tuple(remark.removeprefix(ALARM) for remark in self.remarks if remark.startswith(ALARM))
        return (*told, *(finding.text for finding in self.findings if finding.effect is Effect.ALARM))

    @property
    def void(self) -> tuple[Finding, ...]:
        """What makes this level's figures missing."""
        return tuple(finding for finding in self.findings if finding.effect is Effect.VOID)


@dataclass(frozen=True)
class Objective:
    """metric: weighted_throughput, sum(w x tok/s) / sum(w); weighted_speedup, the weighted geometric mean of ratios to
    the baseline's throughput; or weighted_goodput, sum(w x good requests/s) / sum(w)."""

    metric: str = "weighted_throughput"

    METRICS = ("weighted_throughput", "weighted_speedup", "weighted_goodput")


@dataclass(frozen=True)
class Score:
    """One number with its 95 % interval (None where a level had none). Larger is better."""

    metric: str
    estimate: Estimate
    per_level: Mapping[Level, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Comparison:
    """ratio: candidate / baseline, an Estimate (1.0 is equal). verdict: better, worse or unclear."""

    ratio: Estimate
    verdict: str

    VERDICTS = ("better", "worse", "unclear")
