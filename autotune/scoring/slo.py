"""Measurements against the bounds of an SLO."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.domain.level import Level
from autotune.domain.measurement import Estimate, Interval, Measurement, Percentiles
from autotune.domain.slo import FLOORS, UNSEEN, Slo, SloCheck

_NOT_TOLD: Interval = (None, None)


def judge(measurements: Sequence[Measurement], slo: Slo, levels: Sequence[Level]) -> tuple[SloCheck, ...]:
    """Every bound at each of `levels`, by level and then in the order of the SLO.

    The figure's value decides; its interval only says whether that is clear. A bound on a figure that no measurement
    of the level shows is broken: nothing shows that it is kept. At a rate that is not sustained every bound is broken:
    waiting grows for as long as it lasts.
    """
    return tuple(
        _check(figure, bound, level, next((m for m in measurements if m.level == level), None))
        for level in levels
        for figure, bound in slo.at(level).items()
    )


def _check(figure: str, bound: float, level: Level, seen: Measurement | None) -> SloCheck:
    value, (low, high) = (None, _NOT_TOLD) if seen is None else _figure(seen, figure)
    violation = None
    if value is not None:
        violation = 1.0 - value / bound if figure in FLOORS else value / bound - 1.0
    sustained = seen is None or seen.sustained
    if not sustained and violation is not None and violation < UNSEEN:
        violation = None
    requests = seen.requests_ok if seen is not None else 0
    return SloCheck(figure, level, bound, value, violation, requests, low, high, sustained)


def _figure(seen: Measurement, figure: str) -> tuple[float | None, Interval]:
    if figure == "per_request_rate":
        return seen.per_request_rate, _rate_interval(seen)
    if figure == "good_share":
        return _of_estimate(seen.good_share)
    name, percentile, unit = figure.split("_")
    summary: Percentiles | None = getattr(seen, f"{name}_{unit}")
    if summary is None:
        return None, _NOT_TOLD
    return getattr(summary, percentile), getattr(summary, f"{percentile}_interval")


def _rate_interval(seen: Measurement) -> Interval:
    """A level keeps its requests in flight, so that their rates are the throughput shared out among them: the mean of
    one is as uncertain, in per cent, as the other, whose interval knows how requests hang together."""
    rate, throughput = seen.per_request_rate, seen.output_throughput
    if rate is None or throughput is None or throughput.low is None or throughput.high is None or throughput.value <= 0:
        return _NOT_TOLD
    return rate * throughput.low / throughput.value, rate * throughput.high / throughput.value


def _of_estimate(estimate: Estimate | None) -> tuple[float | None, Interval]:
    return (None, _NOT_TOLD) if estimate is None else (estimate.value, (estimate.low, estimate.high))
