"""The interval of a level's throughput, by overlapping batch means.

A batch is a part of the window, and the spread of the batches' throughputs is the measure of uncertainty. That is
right only if batches are nearly independent, and a stream is not: a request whose drafts are seldom accepted is slow
from its first token to its last, and where all slots started together the whole server goes through prefill and
decoding in step, over and over. Both last for one request. So a batch is one mean E2E latency long, or several
where the window spans more than 20 of them: k batches fill the window.

Batches that lie end to end are not enough. Where the slots are in step, their borders can all fall into prefills,
in which no token arrives: each batch then holds exactly one round of requests, and looks as if nothing varied. So
the batch is moved over the window in twentieths of its length, and the variance is the mean over all places:
half-width = t(k - 1) x sqrt(mean of (batch - whole)^2 / (k - 1)).

Assumed: the server is in steady state over the window; dependence between batches further apart than one request is
small; batch means are near enough to normal. A drift of the node that is slower than the window (heat, other
tenants) is not in the interval: only measuring again at another time shows it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autotune.domain.measurement import Estimate, RequestRecord
from autotune.scoring.student import t_quantile
from autotune.scoring.window import Window, tokens_until

MIN_BATCHES = 5  # fewer leave t too large and the normal assumption untested
MAX_BATCHES = 20  # more gain next to nothing in t
MIN_SPANS = 3.0  # request lengths in the window, below which its batches would see the same requests
MIN_STEPS = 4.0  # decode steps in a batch
PLACES = 20  # places of the moving batch in each batch length


@dataclass(frozen=True)
class Throughput:
    """`why_no_interval` is empty where there is one."""

    estimate: Estimate
    why_no_interval: str = ""


def throughput(
    records: Sequence[RequestRecord], window: Window, *, tokens: int, request_s: float | None, steps: float
) -> Throughput:
    """`tokens` inside the window over its length, with the interval. `request_s` is the mean E2E latency (None:
    no request ended inside), `steps` the number of decode steps inside the window. The window must have a length."""
    length = window[1] - window[0]
    value = tokens / length
    batches, why = choose_batches(length, request_s, steps)
    if batches is None:
        return Throughput(Estimate(value), why)
    made = tokens_until(records, np.linspace(window[0], window[1], batches * PLACES + 1))
    rates = (made[PLACES:] - made[:-PLACES]) / (length / batches)
    whole = (made[-1] - made[0]) / length
    half = t_quantile(batches - 1) * math.sqrt(float(np.mean((rates - whole) ** 2)) / (batches - 1))
    return Throughput(Estimate(value, value - half, value + half, batches=batches))


def choose_batches(length: float, request_s: float | None, steps: float) -> tuple[int | None, str]:
    """How many batches, or None and why there can be no interval."""
    if not request_s or request_s <= 0:
        return None, "no request was sent and answered inside the window"
    spans = length / request_s
    if spans < MIN_SPANS:
        return None, f"the window is {spans:.1f} requests long, and {MIN_SPANS:g} are needed"
    if steps < MIN_BATCHES * MIN_STEPS:
        return None, f"the window holds {steps:.0f} decode steps, and {MIN_BATCHES * MIN_STEPS:.0f} are needed"
    per_batch = math.ceil(round(spans) / MAX_BATCHES)
    wanted = round(spans / per_batch)
    return min(max(wanted, MIN_BATCHES), MAX_BATCHES, int(steps // MIN_STEPS)), ""
