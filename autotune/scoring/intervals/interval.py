"""The 95 % interval of a level's throughput.

Two things make it uncertain, and the interval is the wider of the two:

Time. The server's speed wanders, and a window is a sample of it. The window is cut into up to 48 parts, and the
uncertainty of their mean follows from their rates with the dependence between them allowed for: see correlation.py.

Requests. How fast a request gets its tokens depends on its prompt, by what its drafts are worth, from its first token
to its last. Where requests are long, a window sees few of them, and the parts of the window all see the same ones: no
division by time shows what other requests would have done. The spread between requests does. With z = tokens - r t of
each request, t its seconds of streaming inside the window and r the mean rate of a stream, the variance of the sum of
the tokens is n / (n - 1) x sum of z^2, n = (sum of t)^2 / (sum of t^2) the number of requests that the window is worth.
Whole requests make this the ratio estimator of renewal theory; requests that outlive the window make it the spread over
the slots.

Not the sum of the two: where the window spans several requests, the rates of its parts already contain what the
requests differ by. How much of their variance that is follows from the spread between the requests, and how long it
lasts from their latency, so that it is not taken for a node that wanders (Known, in correlation.py). With one slot
the two cannot be told apart, and nothing is taken off. In an open loop the spread is left out altogether: requests
there do not share a fixed number of slots.

Assumed: the server is in steady state over the window, and requests are as good as independent draws of the prompts.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from autotune.domain.measurement import Estimate, LevelRun, RequestRecord
from autotune.scoring.intervals.correlation import LENGTHS, Known, half_width
from autotune.scoring.intervals.series import STEPS_A_PART, RateSeries, pace_of, parts_for
from autotune.scoring.student import t_quantile
from autotune.scoring.window import Window

MIN_REQUESTS = 2.0
"""What a window must be worth for their spread to be seen at all."""

MIN_SLOTS = 1.5
"""Below it, what requests differ by and what the node does are one and the same series."""

MIN_LIVES = 3.0
"""Mean requests that a window must be long for their coming and going to show in it."""

RECORDS_A_TURN = 16


@dataclass(frozen=True)
class Throughput:
    """`why_no_interval` is empty where there is one. `series` is what it is made of, if anything."""

    estimate: Estimate
    why_no_interval: str = ""
    series: RateSeries | None = None


def throughput(run: LevelRun, window: Window, *, tokens: int) -> Throughput:
    """`tokens` inside the window over its length, with the interval. The window must have a length."""
    value = tokens / (window[1] - window[0])
    series = _finished(fill(window, [r for r in run.records if not r.cancelled], run.records))
    if series is None:
        steps = (window[1] - window[0]) * pace_of(run.records).steps_per_s
        needed = STEPS_A_PART * LENGTHS[-1]
        return Throughput(Estimate(value), f"the window holds {steps:.0f} decode steps, and {needed:.0f} are needed")
    closed = run.rate is None
    half = uncertainty(series, closed_loop=closed)
    if half is None:
        worth = worth_requests(series)
        why = f"the window is worth {worth:.1f} requests, and {MIN_REQUESTS:g} are needed"
        return Throughput(Estimate(value), why, series)
    return Throughput(Estimate(value, value - half, value + half, batches=series.parts), series=series)


def fill(
    window: Window, ended: Sequence[RequestRecord], records: Iterable[RequestRecord]
) -> Generator[None, None, RateSeries | None]:
    """The series of a window, in turns of a few records; None where it holds too few decode steps. `ended` are those
    of `records` that the server finished."""
    pace = pace_of(ended)
    parts = parts_for(window, pace)
    if parts is None:
        return None
    series = RateSeries(window, parts, pace)
    for number, record in enumerate(records, start=1):
        series.add(record)
        if number % RECORDS_A_TURN == 0:
            yield
    return series


def fill_live(
    window: Window, ended: Sequence[RequestRecord], live: Iterable[RequestRecord]
) -> Generator[None, None, RateSeries | None]:
    return fill(window, ended, chain(ended, live))


def uncertainty(series: RateSeries, *, closed_loop: bool) -> float | None:
    """Half of the interval, tokens per second; None where too few requests were seen to know what they differ by."""
    length = series.window[1] - series.window[0]
    if not closed_loop:
        return half_width(series.rates, length)
    worth = worth_requests(series)
    if worth < MIN_REQUESTS:
        return None
    tokens, seconds = series.by_request
    apart = tokens - tokens.sum() / seconds.sum() * seconds
    error = math.sqrt(worth / (worth - 1.0) * float((apart**2).sum())) / length
    over_time = half_width(series.rates, length, known=_of_requests(series))
    return max(over_time, t_quantile(worth - 1.0) * error)


def _of_requests(series: RateSeries) -> Known | None:
    """The part of the variance over time that comes from what requests differ by.

    What they differ by inside one part of the window is theirs alone: what all slots share is gone. Some of it stays
    with a request as long as it lives. With c slots, requests whose rates have the variance v make c v of that; noise
    that all slots share makes them differ too, as they live at different times, by 1 / c of its own variance over
    time, which is taken off.
    """
    length = series.window[1] - series.window[0]
    tokens, seconds = series.by_request
    slots = float(seconds.sum()) / length
    altogether = float(series.rates.var(ddof=1))
    if slots < MIN_SLOTS or not altogether > 0:
        return None
    own = min(1.0, max(0.0, series.variance_of_requests / altogether))
    spread = float((seconds * (tokens / seconds - tokens.sum() / seconds.sum()) ** 2).sum()) / float(seconds.sum())
    lasting = min(own, max(0.0, (slots * slots * spread / altogether - 1.0) / (slots - 1.0)))
    if series.request_s is None or series.request_s > length / MIN_LIVES:
        return Known(own - lasting, 0.0, length)  # they stay, so that what they differ by hardly shows over time
    return Known(own - lasting, lasting, series.request_s)


def worth_requests(series: RateSeries) -> float:
    """How many whole requests of equal length would tell as much."""
    _tokens, seconds = series.by_request
    return float(seconds.sum()) ** 2 / float((seconds**2).sum()) if seconds.any() else 0.0


def _finished(turns: Generator[None, None, RateSeries | None]) -> RateSeries | None:
    while True:
        try:
            next(turns)
        except StopIteration as done:
            series: RateSeries | None = done.value
            return series
