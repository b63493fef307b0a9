"""What the models learn from a result: tokens a second and accept length by level, a pruned trial's included."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.domain.configuration import Configuration
from autotune.domain.level import Level
from autotune.domain.trial import TrialResult
from autotune.study.model.greybox import Observation


def rates_of(result: TrialResult) -> dict[Level, float]:
    """Tokens a second by level, where there are any."""
    found = {m.level: m.output_throughput.value for m in result.measurements if m.output_throughput is not None}
    return {level: rate for level, rate in found.items() if rate > 0}


def observed(result: TrialResult, point: Configuration, levels: Sequence[Level]) -> Observation | None:
    """`point`: the configuration as a point of the space. At levels that a pruned trial did not run stand its bound's
    values, marked as assumed. None where a level is missing for another reason."""
    rates = rates_of(result)
    accept, deviation = {}, {}
    for measurement in result.measurements:
        if measurement.accept_length is not None and measurement.accept_length > 0:
            accept[measurement.level] = measurement.accept_length
        estimate = measurement.output_throughput
        if estimate is not None and estimate.half_width is not None and estimate.value > 0:
            deviation[measurement.level] = estimate.half_width / (2.0 * estimate.value)
    assumed: frozenset[Level] = frozenset()
    if result.bound is not None:
        assumed = frozenset(result.bound.optimistic)
        rates = {**result.bound.optimistic, **rates}
    if not set(levels) <= rates.keys():
        return None
    return Observation(point, rates, accept, deviation, assumed)
