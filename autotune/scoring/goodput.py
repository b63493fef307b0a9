"""Goodput: the share of requests that were answered well and within every bound."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from autotune.domain.measurement import Estimate, LevelRun, Measurement, RequestRecord
from autotune.domain.slo import REQUEST_BOUNDS
from autotune.errors import InputError
from autotune.scoring import latency
from autotune.scoring.window import Floats, arrived_inside, ended_inside

_Z = 1.959964  # 97.5 % of the normal distribution

BOUNDS = REQUEST_BOUNDS


def with_goodput(seen: Measurement, run: LevelRun, bounds: Mapping[str, float]) -> Measurement:
    """The measurement with its good share and its goodput, good requests a second; as it is where there are no bounds,
    or nothing to judge.

    The requests judged are those that the level counts: ended inside the window, or at a rate arrived inside it. In a
    closed loop the requests a second are the throughput over the tokens of one answer, which knows its interval better
    than a count of ends does; at a rate they are the rate, of which nothing is uncertain.
    """
    if not bounds or run.window is None:
        return seen
    inside = ended_inside if run.rate is None else arrived_inside
    requests = inside(run.records, run.window)
    share = goodput(requests, bounds)
    if share is None:
        return seen
    served = Estimate(run.rate, run.rate, run.rate) if run.rate is not None else _requests_a_second(seen, requests)
    return replace(seen, good_share=share, goodput=None if served is None else _product(share, served))


def _requests_a_second(seen: Measurement, requests: Sequence[RequestRecord]) -> Estimate | None:
    answers = [r.completion_tokens for r in requests if r.ok and r.completion_tokens]
    throughput = seen.output_throughput
    if throughput is None or not answers:
        return None
    each = sum(answers) / len(answers)
    if throughput.low is None or throughput.high is None:
        return Estimate(throughput.value / each)
    return Estimate(throughput.value / each, throughput.low / each, throughput.high / each, throughput.batches)


def _product(share: Estimate, served: Estimate) -> Estimate:
    """Of two independent estimates, to first order; each end from the ends on its own side."""
    value = share.value * served.value
    if share.low is None or share.high is None or served.low is None or served.high is None:
        return Estimate(value)
    below = math.hypot((share.value - share.low) * served.value, (served.value - served.low) * share.value)
    above = math.hypot((share.high - share.value) * served.value, (served.high - served.value) * share.value)
    return Estimate(value, max(0.0, value - below), value + above, batches=served.batches)


def goodput(records: Sequence[RequestRecord], slo: Mapping[str, float]) -> Estimate | None:
    """The share (0 to 1) with Wilson's 95 % interval; times the rate of requests it is goodput in requests a second.

    `records`: the requests to be judged (of an open loop, those that arrived inside the window); warm-up and those
    that the client cut off are left out. `slo` bounds each request's `ttft_ms`, `tpot_ms`, `e2e_s`, as vLLM's and
    SGLang's goodput does. A failed request is not good. One whose figure is not known is not judged, but for the
    TPOT of an answer of one token, which has no gap that could be too long.

    None where nothing can be judged. The interval counts requests as independent, which under load they are not
    quite: it is too narrow where a few stalls hit many at once. Raises InputError for a bound that is not known.
    """
    if unknown := sorted(set(slo) - set(BOUNDS)):
        raise InputError(f"goodput knows the bounds {', '.join(BOUNDS)}, but got {', '.join(unknown)}")
    verdicts = [
        verdict
        for record in records
        if not record.warmup and not record.cancelled and (verdict := _is_good(record, slo)) is not None
    ]
    if not verdicts:
        return None
    count, share = len(verdicts), sum(verdicts) / len(verdicts)
    centre = (share + _Z**2 / (2 * count)) / (1 + _Z**2 / count)
    half = _Z / (1 + _Z**2 / count) * math.sqrt(share * (1 - share) / count + _Z**2 / (4 * count**2))
    return Estimate(share, max(0.0, centre - half), min(1.0, centre + half), batches=count)


def _is_good(record: RequestRecord, slo: Mapping[str, float]) -> bool | None:
    if record.error is not None:
        return False
    seen = [(_figure(record, bound), limit) for bound, limit in slo.items()]
    known = [figure <= limit for figure, limit in seen if figure is not None]
    if not all(known):
        return False
    return True if len(known) == len(seen) else None


def _figure(record: RequestRecord, bound: str) -> float | None:
    if bound == "ttft_ms":
        return _only(latency.ttft_s([record]), 1000.0)
    if bound == "e2e_s":
        return _only(latency.e2e_s([record]), 1.0)
    if record.completion_tokens == 1:
        return 0.0
    return _only(latency.tpot_s([record]), 1000.0)


def _only(samples: Floats, scale: float) -> float | None:
    return float(samples[0]) * scale if samples.size else None
