"""Whether a server stood still within a window: no stream had anything for far longer than ever else.

A kernel that is compiled at the first batch of a new shape, a swap, a stop of the whole machine: it happens once, and
another window is free of it. Prefill makes gaps as well, long ones where prompts are, but those come in all lengths.
So a pause is what stands apart from every other gap, not what is long.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from autotune.domain.measurement import RequestRecord
from autotune.scoring.window import Window

APART = 5.0
"""So many times as long as the longest gap that is no pause."""
MOST = 3
"""Pauses in a window. More of them are how this server runs."""
LEAST_GAPS = 20


@dataclass(frozen=True)
class Pauses:
    """Seconds of the stamps' clock; `usual_s`: the longest gap that is none of them."""

    lengths_s: tuple[float, ...]
    usual_s: float


def pauses(records: Iterable[RequestRecord], window: Window) -> Pauses | None:
    """None where no gap between two chunks of whatever streams stands apart, or there are too few to tell."""
    start, end = window
    stamps = np.array([stamp for record in records for stamp in record.chunk_times_s if start <= stamp <= end])
    if len(stamps) < LEAST_GAPS:
        return None
    gaps = np.sort(np.diff(np.sort(np.concatenate((stamps, (start, end))))))[::-1]
    for count in range(1, MOST + 1):
        if gaps[count - 1] >= APART * gaps[count]:
            return Pauses(tuple(float(gap) for gap in gaps[:count]), float(gaps[count]))
    return None
