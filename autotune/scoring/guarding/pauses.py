"""Whether a server stood still within a window: no stream had anything for far longer than ever else.

A kernel that is compiled at the first batch of a new shape, a swap, a stop of the whole machine: it happens once, and
another window is free of it. Prefill makes gaps as well, and one long prompt among short ones makes one that stands
apart. So a gap has to be far longer than any other, and also than the prompts that waited in it explain, at what the
window's other long gaps took for a token of a prompt.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from autotune.domain.measurement import RequestRecord
from autotune.scoring.window import Window

APART = 5.0
"""So many times as long as the longest gap that is no pause."""
MOST = 3
"""Pauses in a window. More of them are how this server runs."""
LEAST_GAPS = 20
COMPARED = 10
"""The longest gaps that are no pauses: where there is prefill, it is in them."""


@dataclass(frozen=True)
class Pauses:
    """Seconds of the stamps' clock; `usual_s`: the longest gap that is none of them."""

    lengths_s: tuple[float, ...]
    usual_s: float


def pauses(records: Iterable[RequestRecord], window: Window) -> Pauses | None:
    """None where no gap between two chunks of whatever streams stands apart, or there are too few to tell."""
    known, (start, end) = tuple(records), window
    stamps = np.array([stamp for record in known for stamp in record.chunk_times_s if start <= stamp <= end])
    if len(stamps) < LEAST_GAPS:
        return None
    edges = np.sort(np.concatenate((stamps, (start, end))))
    gaps = np.diff(edges)
    order = np.argsort(gaps)[::-1]
    for count in range(1, MOST + 1):
        if gaps[order[count - 1]] >= APART * gaps[order[count]]:
            usual = [(edges[place], edges[place + 1]) for place in order[count : count + COMPARED]]
            found = [(edges[place], edges[place + 1]) for place in order[:count]]
            if all(end - start >= APART * _explained(known, (start, end), usual) for start, end in found):
                return Pauses(tuple(float(end - start) for start, end in found), float(gaps[order[count]]))
            return None
    return None


def _explained(records: Sequence[RequestRecord], gap: Window, usual: Sequence[Window]) -> float:
    """Seconds that the prefill of what waited in the gap would take by the other gaps; 0 where nothing waited.
    Infinite where the length of a prompt that waited is not known: then it may be all of it."""
    waiting = _waiting(records, gap[1])
    if waiting == 0:
        return 0.0
    each = [(end - start) / tokens for start, end in usual if 0 < (tokens := _waiting(records, end)) < math.inf]
    return waiting * statistics.median(each) if each else math.inf


def _waiting(records: Sequence[RequestRecord], until: float) -> float:
    """Prompt tokens of the requests that were sent before that moment and had their first chunk then or later."""
    lengths = [r.prompt_tokens for r in records if r.sent_s < until and r.chunk_times_s and r.chunk_times_s[0] >= until]
    return math.inf if None in lengths else float(sum(length or 0 for length in lengths))
