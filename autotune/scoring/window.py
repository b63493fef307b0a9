"""What happened inside the measuring window: which tokens, and which requests.

The window is open at its start and closed at its end, for it begins and ends at events: a chunk that arrives at the
very start belongs to what came before, one that arrives at the very end is counted.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from autotune.domain.measurement import RequestRecord

Window = tuple[float, float]
Floats = NDArray[np.float64]


def tokens_inside(records: Iterable[RequestRecord], window: Window) -> int:
    """Completion tokens whose chunk was stamped inside the window, of every record: warm-up requests and cancelled
    ones kept the server just as busy. A chunk that straddles the start counts whole, at its stamp. An answer whose
    stream carried no counts counts whole at its end."""
    return sum(_tokens_at(record, window[1]) - _tokens_at(record, window[0]) for record in records)


def chunks_inside(records: Iterable[RequestRecord], window: Window) -> int:
    return sum(window[0] < stamp <= window[1] for record in records for stamp in record.chunk_times_s)


def _tokens_at(record: RequestRecord, moment: float) -> int:
    if record.ended_s is not None and not record.chunk_times_s:
        return (record.completion_tokens or 0) if record.ended_s <= moment else 0
    stamped = zip(record.chunk_times_s, record.chunk_tokens, strict=True)
    return max((tokens for stamp, tokens in stamped if stamp <= moment), default=0)


def tokens_until(records: Iterable[RequestRecord], moments: Floats) -> Floats:
    """Tokens made until each of the moments; the tokens of a chunk count as made evenly since the chunk before it.

    All slots of a server step together, so tokens counted at their stamps would put one whole step more or less
    into a batch, by where its border falls. That is no uncertainty of the throughput, yet would look like one.
    """
    total = np.zeros(len(moments))
    for record in records:
        if record.chunk_times_s:
            cumulative = np.maximum.accumulate(np.asarray(record.chunk_tokens, dtype=float))
            total += np.interp(moments, np.asarray(record.chunk_times_s), cumulative, left=0.0)
    return total


def ended_inside(records: Iterable[RequestRecord], window: Window) -> tuple[RequestRecord, ...]:
    """Requests that ended inside the window, well or not; no warm-up and none that the client cancelled.

    A failed request has no stamp of its end, so that its last chunk, or else its sending, stands for it.
    """
    return tuple(
        record
        for record in records
        if not record.warmup
        and not record.cancelled
        and (window[0] < _last_seen(record) or window[0] <= record.sent_s)
        and _last_seen(record) <= window[1]
    )


def arrived_inside(records: Iterable[RequestRecord], window: Window) -> tuple[RequestRecord, ...]:
    """Requests that arrived inside the window, whenever they ended: what an open loop counts. Counting by ends would
    leave out the slowest."""
    return tuple(r for r in records if not r.warmup and not r.cancelled and window[0] <= r.sent_s < window[1])


def answered_inside(ended: Iterable[RequestRecord], window: Window) -> tuple[RequestRecord, ...]:
    """Of those the ones that were also sent inside the window, ended well, and streamed something."""
    return tuple(r for r in ended if r.ok and has_end(r) and window[0] <= r.sent_s)


def has_end(record: RequestRecord) -> bool:
    """Whether it is known when the answer was complete."""
    return bool(record.chunk_times_s) or record.ended_s is not None


def _last_seen(record: RequestRecord) -> float:
    if record.chunk_times_s:
        return record.chunk_times_s[-1]
    return record.ended_s if record.ended_s is not None else record.sent_s
