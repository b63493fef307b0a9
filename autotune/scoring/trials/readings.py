"""What each trial showed, as logarithms with their errors, and how much one configuration varies between launches."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autotune.domain.level import Level
from autotune.domain.measurement import Estimate, Objective
from autotune.domain.trial import TrialResult
from autotune.scoring.objective import NONE_AT_ALL, least, log_score
from autotune.scoring.student import t_quantile
from autotune.scoring.trials.contexts import Settings

LEAST_VARIANCE = 1e-12  # an interval without width would weigh without bound


@dataclass(frozen=True)
class Reading:
    """Natural logarithm of a figure. `variance` is that of its window (None: no interval), `freedom` behind it."""

    value: float
    variance: float | None
    freedom: float


@dataclass(frozen=True)
class Spread:
    """Variance of the logarithm from launch to launch, beyond that of the windows. `freedom`: the replicates behind
    it; 0 where no configuration was measured twice, and then the variance is unknown and taken as none."""

    variance: float = 0.0
    freedom: int = 0


def score_reading(trial: TrialResult, objective: Objective, weights: Mapping[Level, float]) -> Reading | None:
    """Of the objective; from the recorded score where the levels are not there."""
    found = log_score(trial.measurements, objective, weights)
    if found is not None:
        value, error, freedom = found
        return Reading(value, None if error is None else max(error**2, LEAST_VARIANCE), freedom)
    return None if trial.score is None else _reading(trial.score.estimate)


def level_reading(trial: TrialResult, level: Level) -> Reading | None:
    """Of what the level is about."""
    seen = trial.at(level)
    return None if seen is None or seen.main_figure is None else _reading(seen.main_figure)


def _reading(estimate: Estimate) -> Reading | None:
    if estimate.value <= 0:  # a goodput: a throughput of 0 is no figure
        floor = least(estimate)
        return None if floor is None else Reading(math.log(floor), NONE_AT_ALL, math.inf)
    freedom = float(estimate.batches - 1) if estimate.batches > 1 else math.inf
    half = estimate.half_width
    variance = None if half is None else max((half / t_quantile(freedom) / estimate.value) ** 2, LEAST_VARIANCE)
    return Reading(math.log(estimate.value), variance, freedom)


def launch_spread(trials: Sequence[Settings], readings: Sequence[Reading | None]) -> Spread:
    """From configurations that were launched more than once: what their readings differ by, less what their windows
    explain."""
    groups: dict[tuple[tuple[str, str], ...], list[Reading]] = {}
    for held, reading in zip(trials, readings, strict=True):
        if reading is not None and reading.variance is not None:
            groups.setdefault(tuple(sorted(held.items())), []).append(reading)
    squares, windows, freedom = 0.0, 0.0, 0
    for group in groups.values():
        if len(group) > 1:
            mean = sum(reading.value for reading in group) / len(group)
            squares += sum((reading.value - mean) ** 2 for reading in group)
            windows += (len(group) - 1) * sum(r.variance or 0.0 for r in group) / len(group)
            freedom += len(group) - 1
    return Spread(max(0.0, (squares - windows) / freedom), freedom) if freedom else Spread()
