"""A window cut into equal parts, and what was made in each; the streams of requests, and what each made of its time.

It is filled one record at a time, so that the load client can do it in turns. Only the few chunks that stand beside
an edge of a part are looked at.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from autotune.domain.measurement import RequestRecord
from autotune.scoring.intervals.correlation import LENGTHS
from autotune.scoring.window import Floats, Window, has_end

STEPS_A_PART = 2.0
"""Fewer decode steps in a part, and whether one more falls into it would look like noise."""


PLAIN_EFFECT = 4.0
"""Standard errors beyond which prefills are taken to slow a part down. Where they do little, a slope fitted to chance
would take away what the node really wandered by."""


@dataclass(frozen=True)
class Pace:
    """What the requests of a level have in common, from those that ended. `steps_per_s`: decode steps, as the chunks
    of one stream show them. `prefill_share`: time to the first token over the E2E latency. `request_s`: mean E2E
    latency; None where no request ended but warm-up's."""

    steps_per_s: float
    prefill_share: float
    request_s: float | None


def pace_of(ended: Iterable[RequestRecord]) -> Pace:
    chunks, streaming, waiting, altogether, whole = 0, 0.0, 0.0, 0.0, 0
    for record in ended:
        if len(record.chunk_times_s) > 1:
            first, last = record.chunk_times_s[0], record.chunk_times_s[-1]
            chunks += len(record.chunk_times_s)
            streaming += last - record.sent_s
            if not record.warmup and record.ok:
                waiting += first - record.sent_s
                altogether += last - record.sent_s
                whole += 1
    return Pace(
        steps_per_s=chunks / streaming if streaming > 0 else 0.0,
        prefill_share=waiting / altogether if altogether > 0 else 0.0,
        request_s=altogether / whole if whole else None,
    )


def parts_for(window: Window, pace: Pace) -> int | None:
    """How many parts the window is cut into; None where it holds too few decode steps for any."""
    steps = (window[1] - window[0]) * pace.steps_per_s
    return next((count for count in LENGTHS if steps >= STEPS_A_PART * count), None)


class RateSeries:
    """A request's tokens count as made evenly: those of a chunk over the time since the chunk before, and the prefill
    as the share of the answer that it takes of the time. All slots of a server step together; tokens counted at their
    stamps would make noise of that rhythm, which is none.

    Nor is it noise that a part is slow because many prefills fell into it: they are due once a request, and the next
    parts have the fewer. `rates` is therefore freed, by regression, of what goes with the number of prefills in a
    part. Its mean stays what it is.
    """

    def __init__(self, window: Window, parts: int, pace: Pace) -> None:
        self.window, self.parts, self.request_s = window, parts, pace.request_s
        self._share = pace.prefill_share
        self._part_s = (window[1] - window[0]) / parts
        self._edges = [window[0] + self._part_s * i for i in range(parts)] + [window[1]]
        self._made = [0.0] * parts
        self._prefills = [0.0] * parts
        self._sums = [[0.0] * parts for _ in range(5)]  # over streams: made, time, made^2, made x time, time^2
        self._tokens: list[float] = []
        self._times: list[float] = []

    def add(self, record: RequestRecord) -> None:
        start, end = self.window
        last = self._last(record)
        if record.sent_s >= end or last <= start or last <= record.sent_s:
            return
        first = max(0, min(self.parts - 1, int((record.sent_s - start) / self._part_s)))
        total = self._total(record)
        before, prefilled = self._progress(record, self._edges[first], total), _prefilled(record, self._edges[first])
        for place in range(first, self.parts):
            edge = self._edges[place + 1]
            made, prefill = self._progress(record, edge, total), _prefilled(record, edge)
            self._made[place] += made - before
            self._prefills[place] += prefill - prefilled
            before, prefilled = made, prefill
            if edge >= last:
                break
        if record.chunk_times_s and record.chunk_times_s[0] < end:
            self._add_stream(record, last)

    def _add_stream(self, record: RequestRecord, last: float) -> None:
        """From the first token on: how long a request waits for it, in a line say, is no property of its own."""
        start, end = self.window
        began = max(start, record.chunk_times_s[0])
        if min(end, last) <= began:
            return
        place = min(self.parts - 1, int((began - start) / self._part_s))
        moment, before = began, _between(record, began)
        first = before
        while place < self.parts and moment < min(end, last):
            until = min(self._edges[place + 1], end, last)
            now = _between(record, until)
            self._note(place, now - before, until - moment)
            moment, before, place = until, now, place + 1
        self._tokens.append(before - first)
        self._times.append(min(end, last) - began)

    def _note(self, place: int, made: float, seconds: float) -> None:
        for sums, value in zip(
            self._sums, (made, seconds, made * made, made * seconds, seconds * seconds), strict=True
        ):
            sums[place] += value

    @property
    def variance_of_requests(self) -> float:
        """What the rate of a part varies by because its streams go their own ways, each part against its own mean."""
        made, time, squares, products, times = (np.asarray(sums) for sums in self._sums)
        some = time > 0
        if not some.any():
            return 0.0
        made, time, squares, products, times = (x[some] for x in (made, time, squares, products, times))
        pace, worth = made / time, time**2 / times
        apart = (squares - 2.0 * pace * products + pace**2 * times) * worth / np.maximum(worth - 1.0, 0.5)
        return float(np.maximum(apart, 0.0).mean()) / self._part_s**2

    @property
    def rates(self) -> Floats:
        """Tokens per second in each part, prefills evened out."""
        raw, beyond = np.asarray(self._made) / self._part_s, np.asarray(self._prefills)
        beyond = beyond - beyond.mean()
        squares = float((beyond**2).sum())
        if not squares > 0:
            return raw
        slope = float((beyond * raw).sum()) / squares
        rest = raw - raw.mean() - slope * beyond
        error = math.sqrt(float((rest**2).sum()) / max(self.parts - 2, 1) / squares)
        return np.asarray(raw - slope * beyond) if slope < -PLAIN_EFFECT * error else raw

    @property
    def by_request(self) -> tuple[Floats, Floats]:
        """Of each request that streamed inside the window, its tokens and its seconds from the first of them on."""
        return np.asarray(self._tokens), np.asarray(self._times)

    def _last(self, record: RequestRecord) -> float:
        """When it stopped being worked on; one that was cut off was so until the end."""
        if record.cancelled:
            return max(self.window[1], record.sent_s)
        if record.chunk_times_s:
            return record.chunk_times_s[-1]
        return record.ended_s if record.ended_s is not None else record.sent_s

    @staticmethod
    def _total(record: RequestRecord) -> float:
        """Tokens of the whole answer, as far as is known."""
        made = record.chunk_tokens[-1] if record.chunk_tokens else record.completion_tokens or 0
        return float(made if record.ok else max(record.requested_tokens, made))

    def _progress(self, record: RequestRecord, moment: float, total: float) -> float:
        if moment <= record.sent_s:
            return 0.0
        times, counts = record.chunk_times_s, record.chunk_tokens
        if not times:
            return _ramp(record, moment)
        prefill = self._share * total if total > counts[0] else float(counts[0])
        if moment < times[0]:
            return prefill * (moment - record.sent_s) / (times[0] - record.sent_s)
        if total <= counts[0]:
            return prefill
        return prefill + (total - prefill) * (_between(record, moment) - counts[0]) / (total - counts[0])


def _prefilled(record: RequestRecord, moment: float) -> float:
    """Share of the prefill that is over, as if it began with the sending."""
    if not record.chunk_times_s or moment >= record.chunk_times_s[0]:
        return 1.0
    return max(0.0, moment - record.sent_s) / (record.chunk_times_s[0] - record.sent_s)


def _between(record: RequestRecord, moment: float) -> float:
    """Tokens at `moment`, from the first chunk on."""
    times, counts = record.chunk_times_s, record.chunk_tokens
    place = bisect_right(times, moment)
    if place >= len(times):
        return float(counts[-1])
    earlier, later = times[place - 1], times[place]
    part = (moment - earlier) / (later - earlier) if later > earlier else 1.0
    return counts[place - 1] + part * (counts[place] - counts[place - 1])


def _ramp(record: RequestRecord, moment: float) -> float:
    """Of an answer whose stream carried no counts."""
    if not has_end(record) or record.ended_s is None or record.ended_s <= record.sent_s:
        return 0.0
    part = (moment - record.sent_s) / (record.ended_s - record.sent_s)
    return (record.completion_tokens or 0) * min(1.0, max(0.0, part))
