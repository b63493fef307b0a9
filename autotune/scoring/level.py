"""One level's records to its measurement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from autotune.domain.measurement import LevelRun, Measurement, RequestRecord
from autotune.scoring import latency
from autotune.scoring.intervals.interval import Throughput, throughput
from autotune.scoring.intervals.series import RateSeries
from autotune.scoring.intervals.stationarity import warm_up_parts
from autotune.scoring.window import answered_inside, arrived_inside, ended_inside, has_end, tokens_inside


def measure(run: LevelRun) -> Measurement:
    """What the records of one level show. Whatever they do not show is None, and a remark says why.

    Throughput counts every completion token stamped inside the window. Requests are counted that ended inside it,
    and latencies, rates and the accept length look only at those of them that were sent inside it too; warm-up and
    cancelled requests are left out of all but the throughput. In an open loop the requests that arrived inside the
    window are counted instead, however late they ended.
    """
    window = run.window
    if window is None or window[1] <= window[0]:
        remarks = (*run.remarks, _no_window(run))
        return Measurement(run.concurrency, 0, 0, client=run.client, remarks=remarks, rate=run.rate)
    if run.rate is None:
        ended = ended_inside(run.records, window)
        good = answered_inside(ended, window)
    else:
        ended = arrived_inside(run.records, window)
        good = tuple(request for request in ended if request.ok and has_end(request))
    e2e = latency.e2e_s(good)
    tokens = tokens_inside(run.records, window)
    shown: Throughput | None = None
    if tokens > 0:
        shown = throughput(run, window, tokens=tokens)
    return Measurement(
        concurrency=run.concurrency,
        requests_total=len(ended),
        requests_ok=sum(request.ok for request in ended),
        window_s=window[1] - window[0],
        output_throughput=shown.estimate if shown else None,
        per_request_rate=latency.per_request_rate(good),
        ttft_ms=latency.summary(latency.ttft_s(good), 1000.0),
        itl_ms=latency.summary(latency.itl_s(good), 1000.0, independent=len(good)),
        tpot_ms=latency.summary(latency.tpot_s(good), 1000.0),
        e2e_s=latency.summary(e2e),
        accept_length=latency.accept_length(good),
        completion_tokens=tokens or None,
        client=run.client,
        remarks=(*run.remarks, *_window_remarks(run, shown), *_request_remarks(ended)),
        rate=run.rate,
    )


def _no_window(run: LevelRun) -> str:
    if run.window is None and run.rate is not None:
        return f"the window never opened at {run.rate:g} requests/s: no throughput"
    if run.window is None:
        return f"in flight never reached {run.concurrency}: no window, hence no throughput"
    return "the window has no length: no throughput"


def _window_remarks(run: LevelRun, shown: Throughput | None) -> list[str]:
    remarks = []
    if run.in_flight_minimum is not None and run.in_flight_minimum < run.concurrency:
        remarks.append(f"in flight fell to {run.in_flight_minimum} of {run.concurrency} inside the window")
    if shown is None:
        remarks.append("no token arrived inside the window: no throughput")
    elif shown.why_no_interval:
        remarks.append(f"no interval: {shown.why_no_interval}")
    if run.opened_late_s > 0:
        remarks.append(f"warm-up lasted {run.opened_late_s:.1f} s longer than every slot's first request")
    if shown is not None and shown.series is not None and run.rate is None:
        remarks += _unsteady(shown.series)
    return remarks


def _unsteady(series: RateSeries) -> list[str]:
    rates, length = series.rates, series.window[1] - series.window[0]
    parts = warm_up_parts(rates, length)
    if not parts:
        return []
    early, late = float(rates[:parts].mean()), float(rates[len(rates) // 2 :].mean())
    return [
        f"not steady: the first {length * parts / len(rates):.1f} s of the window gave {early:.4g} tok/s, its later "
        f"half {late:.4g}"
    ]


def _request_remarks(requests: Sequence[RequestRecord]) -> list[str]:
    remarks, total = [], len(requests)
    if failed := [request.error for request in requests if request.error is not None]:
        most_common, _count = Counter(failed).most_common(1)[0]
        remarks.append(f"{len(failed)} of {total} requests failed, mostly: {most_common}")
    good = [request for request in requests if request.ok]
    if uncounted := sum(request.ended_s is not None and not request.chunk_times_s for request in good):
        remarks.append(f"the streams of {uncounted} of {total} requests carry no token counts: each counts at its end")
    if silent := sum(request.completion_tokens is None for request in good):
        remarks.append(f"the server did not count the tokens of {silent} of {total} requests")
    other = sum(request.completion_tokens not in (None, request.requested_tokens) for request in good)
    if other:
        remarks.append(f"{other} of {total} requests ended with another number of tokens than requested")
    return remarks
