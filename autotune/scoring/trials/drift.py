"""How a node drifts, from the repeats of the baseline; and every trial's score as it would have been without that.

    log score of a run = its configuration's own value + the node's state at the time + the launch's luck + window noise

Window noise is known from each run's interval. The launch's luck is independent from launch to launch, the same size
for all. The node's state is a random walk through time: between two repeats its expectation is a straight line, after
the last one it stays, and how far it follows the repeats at all depends on how large the walk's steps are against luck
and noise. Both sizes are unknown and few repeats tell little of them, so every pair of a grid is weighed by how well it
explains the repeats, times a prior in which a node that does not drift at all has half of the weight. That is what
shrinks the correction towards none where the repeats do not show a drift.

Assumed: a drift changes all configurations by the same factor at the same time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import numpy as np

from autotune.domain.confirmation import Drift
from autotune.domain.level import Level
from autotune.domain.measurement import Estimate
from autotune.domain.study import StudySpec
from autotune.domain.trial import Origin, TrialResult, TrialState
from autotune.scoring.student import t_quantile
from autotune.scoring.trials.readings import LEAST_VARIANCE, Reading, level_reading, score_reading
from autotune.scoring.window import Floats

LAUNCH = (
    (0.001, 1.0),
    (0.002, 1.5),
    (0.004, 2.0),
    (0.008, 2.0),
    (0.016, 1.0),
    (0.032, 0.4),
    (0.064, 0.1),
    (0.128, 0.03),
)
"""Standard deviations between launches, with their prior weights. 17 % between two launches has been seen, once."""
WALK = ((0.0, 0.5), (0.005, 0.12), (0.01, 0.14), (0.02, 0.12), (0.04, 0.07), (0.08, 0.03), (0.16, 0.02))
"""Standard deviations of the walk over one hour, with their prior weights."""
MOSTLY_ASSUMED = 3.0
"""Where the windows alone leave a size more than so many times as uncertain as the estimate is, nine tenths of what the
estimate knows is the prior. It is not printed then."""
_ANYWHERE = 1.0  # prior variance of the baseline's own logarithm, beside which nothing else counts
_PAUSE_S = 60.0
_NORMAL = t_quantile(math.inf)


@dataclass(frozen=True)
class Repeat:
    """One measurement of the baseline: hours since the study began, and its reading."""

    hours: float
    reading: Reading


class Curve:
    """What a run of the baseline would show, over time, in logarithms. `launch_variance`: expected."""

    def __init__(self, repeats: Sequence[Repeat]) -> None:
        """Needs one at least, in the order of time."""
        self.first, self.last = repeats[0].hours, repeats[-1].hours
        self._hours = np.array([repeat.hours for repeat in repeats])
        values = np.array([repeat.reading.value for repeat in repeats])
        self._windows = np.array([repeat.reading.variance or 0.0 for repeat in repeats])
        self._centre = float(values.mean())
        grid = [(launch, walk, a * b) for launch, a in LAUNCH for walk, b in WALK]
        launches, self._walks, priors = (np.array(column) for column in zip(*grid, strict=True))
        covariance = self._kernel(self._hours, self._hours)
        covariance = covariance + np.eye(len(values)) * (self._windows[None, :] + launches[:, None] ** 2)[:, None, :]
        self._inverse = np.linalg.inv(covariance)
        self._weighed = self._inverse @ (values - self._centre)
        _sign, size = np.linalg.slogdet(covariance)
        likelihood = np.log(priors) - 0.5 * (size + self._weighed @ (values - self._centre))
        weights = np.exp(likelihood - likelihood.max())
        self._weights = weights / weights.sum()
        self.launch_variance = float(self._weights @ launches**2)
        self.walk_variance = float(self._weights @ self._walks**2)

    @property
    def window(self) -> float:
        """Standard deviation of one repeat's window, of the median repeat."""
        return math.sqrt(float(np.median(self._windows)))

    @property
    def tells_of_launches(self) -> bool:
        """The variance of luck from the windows alone, against the estimate."""
        alone = float(self._windows.mean()) * math.sqrt(2 / max(1, len(self._windows) - 1))
        return alone <= MOSTLY_ASSUMED**2 * self.launch_variance

    @property
    def tells_of_drift(self) -> bool:
        """From the first repeat to the last, of a straight line through the windows alone; also where it is so large
        that it shows beside any noise."""
        if self.last <= self.first:
            return False
        change, variance = self.change(self.last, self.first)
        weights = 1 / np.maximum(self._windows, LEAST_VARIANCE)
        lever = self._hours - np.average(self._hours, weights=weights)
        alone = (self.last - self.first) ** 2 / float(weights @ lever**2)
        return alone <= MOSTLY_ASSUMED**2 * variance or abs(change) > _NORMAL * math.sqrt(variance)

    def at(self, hours: float) -> tuple[float, float]:
        """Expectation and variance."""
        return self._mixed(np.array([1.0]), np.array([hours]), self._centre)

    def change(self, hours: float, since: float) -> tuple[float, float]:
        """Expectation and variance of the difference between two times."""
        if hours == since:
            return 0.0, 0.0
        return self._mixed(np.array([1.0, -1.0]), np.array([hours, since]), 0.0)

    def _mixed(self, signs: Floats, hours: Floats, centre: float) -> tuple[float, float]:
        """Of a sum of values at `hours` with `signs`, over the whole grid."""
        cross = np.einsum("i,gij->gj", signs, self._kernel(hours, self._hours))
        own = np.einsum("i,gij,j->g", signs, self._kernel(hours, hours), signs)
        means = np.einsum("gj,gj->g", cross, self._weighed)
        variances = np.maximum(0.0, own - np.einsum("gi,gij,gj->g", cross, self._inverse, cross))
        mean = float(self._weights @ means)
        return centre + mean, float(self._weights @ (variances + (means - mean) ** 2))

    def _kernel(self, one: Floats, other: Floats) -> Floats:
        """[grid, one, other]."""
        since = np.maximum(np.minimum(one[:, None], other[None, :]) - self.first, 0.0)
        return np.asarray(_ANYWHERE + self._walks[:, None, None] ** 2 * since)


class Standing:
    """The trials of a search against the baseline as it was at their time. A pure function of what is recorded."""

    def __init__(self, spec: StudySpec, trials: Sequence[TrialResult]) -> None:
        self._spec = spec
        self._trials = tuple(trial for trial in trials if trial.origin is not Origin.CONFIRMATION)
        self.clock = study_clock(self._trials)
        self._repeated = [t for t in self._trials if _is_repeat(spec, t) and self.reading(t) is not None]
        self.curve = self._curve(self.reading)

    @property
    def repeats(self) -> tuple[TrialResult, ...]:
        return tuple(self._repeated)

    def reading(self, trial: TrialResult) -> Reading | None:
        return score_reading(trial, self._spec.objective, self._spec.workload.weights)

    def ratio(self, trial: TrialResult) -> Estimate | None:
        """To the baseline at the time of the trial: launch, window, drift and the baseline's own error in the interval.
        None where either has no figure."""
        found = self._against(trial)
        return None if found is None else _exponential(*found)

    def corrected(self, trial: TrialResult) -> Estimate | None:
        """The score as it would have been at the time of the first baseline; of the baseline itself, from all of its
        repeats. None where the trial has no figure or the baseline none."""
        reading = self.reading(trial)
        if self.curve is None or reading is None or trial.score is None or trial.number not in self.clock:
            return None
        raw = trial.score.estimate.value
        drift, uncertain = self.curve.change(self.clock[trial.number], self.curve.first)
        shift, variance = -drift, uncertain + self.curve.launch_variance + (reading.variance or 0.0)
        if trial in self._repeated:
            mean, variance = self.curve.at(self.curve.first)
            shift = mean - reading.value
        found = _exponential(shift, variance)
        low, high = found.low, found.high
        return Estimate(raw * found.value, raw * (low or 0.0), raw * (high or 0.0), trial.score.estimate.batches)

    def without_drift(self, trial: TrialResult) -> float:
        """By what a figure of the trial is multiplied to be as at the time of the first baseline."""
        if self.curve is None or trial.number not in self.clock:
            return 1.0
        return math.exp(-self.curve.change(self.clock[trial.number], self.curve.first)[0])

    def drift(self) -> Drift | None:
        """None with fewer than two repeats."""
        curve = self.curve
        if curve is None or len(self._repeated) < 2:
            return None
        corrected = {t.number: found for t in self._trials if (found := self.corrected(t)) is not None}
        shifts = [abs(curve.change(self.clock[number], curve.first)[0]) for number in corrected]
        levels: dict[Level, Estimate | None] = {}
        for level in self._spec.workload.levels:
            of_level = self._curve(lambda trial, level=level: level_reading(trial, level))
            if of_level is not None and of_level.last > of_level.first:
                change = _exponential(*of_level.change(of_level.last, of_level.first))
                levels[level] = change if of_level.tells_of_drift else None
        return Drift(
            repeats=len(self._repeated),
            hours=curve.last - curve.first,
            change=_exponential(*curve.change(curve.last, curve.first)),
            launch_spread=math.sqrt(curve.launch_variance) if curve.tells_of_launches else None,
            levels=levels,
            corrected=corrected,
            largest=math.expm1(max(shifts, default=0.0)),
            told=curve.tells_of_drift,
            window=math.expm1(_NORMAL * curve.window),
        )

    def _against(self, trial: TrialResult) -> tuple[float, float] | None:
        reading = self.reading(trial)
        if self.curve is None or reading is None or trial.number not in self.clock:
            return None
        mean, variance = self.curve.at(self.clock[trial.number])
        return reading.value - mean, variance + self.curve.launch_variance + (reading.variance or 0.0)

    def _curve(self, read: _Read) -> Curve | None:
        repeats = [Repeat(self.clock[t.number], r) for t in self._repeated if (r := read(t)) is not None]
        return Curve(repeats) if repeats else None


def study_clock(trials: Sequence[TrialResult]) -> Mapping[int, float]:
    """The middle of each trial, in node hours since the study began. Node time, and pauses between two trials (a study
    that was interrupted and gone on with later) where the times of their starts tell of one."""
    found: dict[int, float] = {}
    now = 0.0
    for place, trial in enumerate(trials):
        now += _pause(trials[place - 1], trial) if place else 0.0
        found[trial.number] = (now + trial.node_seconds / 2) / 3600.0
        now += trial.node_seconds
    return found


def _pause(trial: TrialResult, following: TrialResult) -> float:
    try:
        started, next_started = (datetime.fromisoformat(t.started_at) for t in (trial, following))
        wall = (next_started - started).total_seconds()
    except (ValueError, TypeError):
        return 0.0
    rate = trial.provenance.clock_rate if trial.provenance is not None else 1.0
    pause = wall * rate - trial.node_seconds
    return pause if pause > _PAUSE_S else 0.0


def _is_repeat(spec: StudySpec, trial: TrialResult) -> bool:
    measured = trial.state is TrialState.COMPLETE and trial.duplicate_of is None
    return measured and trial.origin is Origin.BASELINE and trial.configuration == spec.baseline


def _exponential(value: float, variance: float) -> Estimate:
    half = _NORMAL * math.sqrt(variance)
    return Estimate(math.exp(value), math.exp(value - half), math.exp(value + half))


class _Read(Protocol):
    def __call__(self, trial: TrialResult) -> Reading | None: ...
