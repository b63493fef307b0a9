"""Latencies of requests, as SGLang's and vLLM's benchmarks define them. A summary of nothing is None."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autotune.domain.measurement import Percentiles, RequestRecord
from autotune.scoring.order_statistics import percentile_interval
from autotune.scoring.window import Floats


def ttft_s(requests: Sequence[RequestRecord]) -> Floats:
    """From sending to the first chunk that carries a token, or to the first text where a stream has no counts."""
    counted = [stamps[0] - request.sent_s for request, stamps, _counts in _streams(requests)]
    uncounted = [r.first_text_s - r.sent_s for r in requests if r.first_text_s is not None and not r.chunk_times_s]
    return _array(counted + uncounted)


def itl_s(requests: Sequence[RequestRecord]) -> Floats:
    """The gap between two chunks over the tokens of the later one, once for each of those tokens, so that a server
    that sends four tokens at a time is compared with one that sends each alone."""
    parts = [np.empty(0)]
    for _request, stamps, counts in _streams(requests):
        fresh = np.diff(counts)
        parts.append(np.repeat(np.diff(stamps) / fresh, fresh.astype(int)))
    return np.concatenate(parts)


def tpot_s(requests: Sequence[RequestRecord]) -> Floats:
    """From the first chunk to the last, over the tokens that came after the first chunk. One value a request."""
    return _array(
        [
            (stamps[-1] - stamps[0]) / (counts[-1] - counts[0])
            for _request, stamps, counts in _streams(requests)
            if len(stamps) > 1
        ]
    )


def e2e_s(requests: Sequence[RequestRecord]) -> Floats:
    """From sending to the end of the stream."""
    return _array([end - request.sent_s for request in requests if (end := _end(request)) is not None])


def per_request_rate(requests: Sequence[RequestRecord]) -> float | None:
    """Mean over the requests of completion tokens / E2E latency, tok/s."""
    rates = [
        request.completion_tokens / (end - request.sent_s)
        for request in requests
        if request.completion_tokens and (end := _end(request)) is not None and end > request.sent_s
    ]
    return float(np.mean(rates)) if rates else None


def accept_length(requests: Sequence[RequestRecord]) -> float | None:
    """Completion tokens per pass of the target model that verified drafts; None where no request tells."""
    known = [(r.completion_tokens, r.verify_count) for r in requests if r.completion_tokens and r.verify_count]
    if not known:
        return None
    return sum(tokens for tokens, _verified in known) / sum(verified for _tokens, verified in known)


def summary(samples: Floats, scale: float = 1.0, *, independent: int | None = None) -> Percentiles | None:
    """Mean and percentiles of the raw samples times `scale` (1000: seconds to milliseconds), with their intervals.
    `independent`: how many of the samples count as independent; None: each."""
    if samples.size == 0:
        return None
    ordered = np.sort(samples) * scale
    p50, p95, p99 = (float(value) for value in np.percentile(ordered, (50, 95, 99)))
    count = int(samples.size)
    at_50, at_95, at_99 = (percentile_interval(ordered, q, independent or count) for q in (0.50, 0.95, 0.99))
    return Percentiles(
        mean=float(samples.mean()) * scale,
        p50=p50,
        p95=p95,
        p99=p99,
        count=count,
        p50_interval=at_50,
        p95_interval=at_95,
        p99_interval=at_99,
    )


def _end(request: RequestRecord) -> float | None:
    return request.chunk_times_s[-1] if request.chunk_times_s else request.ended_s


def _streams(requests: Sequence[RequestRecord]) -> list[tuple[RequestRecord, Floats, Floats]]:
    """Each request with the stamps and cumulative counts of the chunks that brought new tokens: the last event of
    a stream often brings none."""
    found = []
    for request in requests:
        counts = np.asarray(request.chunk_tokens, dtype=float)
        fresh = np.diff(np.maximum.accumulate(counts), prepend=0.0) > 0 if counts.size else np.zeros(0, dtype=bool)
        if fresh.any():
            found.append((request, np.asarray(request.chunk_times_s)[fresh], counts[fresh]))
    return found


def _array(values: list[float]) -> Floats:
    return np.asarray(values, dtype=float)
