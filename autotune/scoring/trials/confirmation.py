"""A confirmation: finalists and the baseline, each on several fresh servers, turn by turn, until it is decided.

The unit is the launch. Each round starts one server of every arm (the baseline and each finalist), the next one in
the reverse order (ABBA), so that a steady drift falls on all arms alike. The logarithm of the objective is fitted as
arm + slope x time; what remains is the spread between launches, one for all arms, and Student's t counts its degrees of
freedom. What a window says of its own error is only a floor under that spread. A drift that is no straight line widens
the spread, and so the intervals, rather than to favour an arm.

The figures are looked at half-way and at the end, and a look at random noise is a chance to be wrong. So the 5 % are
spent look by look: by round r of R, 5 % x (r / R) ** 3 are spent in all, and each look spends its part evenly on the
finalists (Bonferroni, over looks and finalists). The intervals hold for all finalists and looks at once.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from autotune.domain.confirmation import Confirmation, Finalist, Replicate
from autotune.domain.measurement import Estimate
from autotune.domain.study import StudySpec
from autotune.domain.trial import Origin, TrialResult, TrialState
from autotune.scoring.student import t_quantile
from autotune.scoring.trials.drift import study_clock
from autotune.scoring.trials.readings import Reading, level_reading, score_reading
from autotune.scoring.window import Floats

ERROR = 0.05
SPENDING = 3.0
NEGLIGIBLE = 1.01
"""A finalist that is not faster by more than this is not waited for, and a gain below it is not looked for."""
MAX_FAILURES = 2
FEWEST_FOR_TWO = 5
Arm = int | None
"""The number of the search's trial; None is the baseline."""


@dataclass(frozen=True)
class Progress:
    """`confirmation` is what is known so far; `pending` the run that is due, None where the confirmation is over;
    `ended` why it is."""

    confirmation: Confirmation
    pending: tuple[Arm, int] | None
    ended: str = ""


def runs_of(trials: Sequence[TrialResult]) -> tuple[TrialResult, ...]:
    """The runs of the last confirmation: those that no trial of a search follows. A search that goes on after a
    confirmation makes that one void."""
    reverse = itertools.takewhile(lambda trial: trial.origin is Origin.CONFIRMATION, reversed(trials))
    return tuple(trial for trial in reversed(tuple(reverse)) if trial.replicate is not None)


def looks(rounds: int) -> tuple[int, ...]:
    """After which rounds: half-way and at the end; the end alone where half-way would be two rounds or fewer."""
    return (rounds,) if rounds < FEWEST_FOR_TWO else ((rounds + 1) // 2, rounds)


def level_of(look: int, rounds: int, finalists: int) -> float:
    """Confidence of each interval at this look."""
    before = max((r for r in looks(rounds) if r < look), default=0)
    spent = ERROR * (math.pow(look / rounds, SPENDING) - math.pow(before / rounds, SPENDING))
    return 1.0 - spent / finalists


def progress(spec: StudySpec, plan: Replicate, trials: Sequence[TrialResult]) -> Progress:
    """A pure function of the recorded runs (`runs_of`), so that a resumed confirmation goes on where it stopped."""
    return _Course(spec, plan, trials).run()


class _Course:
    """The confirmation walked from its start over the runs that are in."""

    def __init__(self, spec: StudySpec, plan: Replicate, trials: Sequence[TrialResult]) -> None:
        self._spec, self._plan = spec, plan
        self._hours = study_clock(trials)
        self._runs = [t for t in trials if t.state is not TrialState.INTERRUPTED and t.replicate is not None]
        self._seconds = sum(trial.node_seconds for trial in trials)
        self._active = list(plan.finalists)
        self._dropped: dict[int, str] = {}
        self._seen: tuple[Finalist, ...] = tuple(Finalist(number, 0) for number in plan.finalists)
        self._spread: float | None = None
        self._rounds = 0

    def run(self) -> Progress:
        for number in range(1, self._plan.rounds + 1):
            order: list[Arm] = [None, *self._active]
            for arm in order if number % 2 else reversed(order):
                if not any(
                    t.replicate and (t.replicate.confirms, t.replicate.round) == (arm, number) for t in self._runs
                ):
                    return Progress(self._state("undecided"), (arm, number))
            self._rounds = number
            if ended := self._failed_arms(number):
                return Progress(self._state("undecided"), None, ended)
            if number in looks(self._plan.rounds):
                self._look(number)
                if ended := self._decided(number):
                    return Progress(self._state("undecided" if self._leader is None else "none"), None, ended)
        raise AssertionError("the last look decides")

    @property
    def _leader(self) -> Finalist | None:
        return next((f for f in self._seen if f.trial in self._active and f.gain is not None), None)

    def _state(self, otherwise: str) -> Confirmation:
        leader = self._leader
        outcome = "winner" if leader is not None and leader.verdict == "better" else otherwise
        return Confirmation(
            finalists=self._seen,
            baseline_servers=len(self._measured(None, self._plan.rounds)),
            rounds=self._rounds,
            planned=self._plan.rounds,
            outcome=outcome,
            launch_spread=self._spread,
            node_seconds=self._seconds,
        )

    def _failed_arms(self, until: int) -> str:
        """Takes out what cannot be measured; why the confirmation is over if nothing can be compared any more."""
        for arm in (None, *self._active):
            ended = [t for t in self._of(arm, until) if not _is_good(t)]
            hopeless = [t for t in ended if t.state is TrialState.INFEASIBLE]
            if hopeless or len(ended) >= MAX_FAILURES:
                failure = (hopeless or ended)[-1].failure
                why = "failed" if failure is None else f"failed ({failure.reason.word})"
                if arm is None:
                    return f"the baseline {why} in the confirmation"
                self._drop(arm, why)
        return "" if self._active else "no finalist could be measured again"

    def _drop(self, trial: int, why: str) -> None:
        self._active.remove(trial)
        self._dropped[trial] = why

    def _measured(self, arm: Arm, until: int) -> list[TrialResult]:
        return [trial for trial in self._of(arm, until) if _is_good(trial)]

    def _of(self, arm: Arm, until: int) -> list[TrialResult]:
        return [t for t in self._runs if t.replicate and t.replicate.confirms == arm and t.replicate.round <= until]

    def _look(self, number: int) -> None:
        level = level_of(number, self._plan.rounds, len(self._plan.finalists))
        fit = _Fit.of(self._points(number))
        self._spread = None if fit is None else fit.spread
        found = [self._finalist(fit, trial, level, number) for trial in self._plan.finalists]
        ranked = sorted(found, key=lambda f: (f.trial in self._active, f.gain.value if f.gain else 0.0), reverse=True)
        leader = ranked[0]
        self._seen = tuple(
            f if f is leader or fit is None else replace(f, behind=fit.ratio(f.trial, leader.trial, level))
            for f in ranked
        )

    def _decided(self, number: int) -> str:
        """Why it is over, else empty; finalists that are out of it are dropped on the way."""
        leader = self._leader
        others = [f for f in self._seen if f.trial in self._active and f is not leader]
        if leader is not None and leader.verdict == "better" and all(_is_below(f.behind, NEGLIGIBLE) for f in others):
            return f"decided after {number} rounds"
        if leader is not None and all(_is_below(f.gain, NEGLIGIBLE) for f in (leader, *others)):
            return f"decided after {number} rounds: no finalist can be faster by 1 %"
        if number == self._plan.rounds:
            return f"{number} rounds, as planned"
        for finalist in others:
            if _is_below(finalist.behind, 1.0) or _is_below(finalist.gain, 1.0):
                self._drop(finalist.trial, f"behind after {number} rounds")
        self._seen = tuple(replace(f, dropped=self._dropped.get(f.trial, "")) for f in self._seen)
        return ""

    def _points(self, until: int) -> list[_Point]:
        points = []
        for arm in (None, *self._plan.finalists):
            for trial in self._measured(arm, until):
                reading = score_reading(trial, self._spec.objective, self._spec.workload.weights)
                if reading is not None:
                    points.append(_Point(arm, self._hours[trial.number], reading))
        return points

    def _finalist(self, fit: _Fit | None, trial: int, level: float, until: int) -> Finalist:
        mine, theirs = self._measured(trial, until), self._measured(None, until)
        gain = None if fit is None else fit.ratio(trial, None, level)
        verdict = "better" if gain is not None and (gain.low or 0.0) > 1 else "unclear"
        if gain is not None and gain.high is not None and gain.high < 1:
            verdict = "worse"
        broken = sum(bool(t.broken) for t in mine)
        dropped = self._dropped.get(trial, "")
        if 2 * broken > len(mine) and trial in self._active:
            dropped = f"broke the SLO in {broken} of {len(mine)} runs"
            self._drop(trial, dropped)
        levels = {}
        for concurrency in self._spec.workload.levels:
            above, below = (_mean([level_reading(t, concurrency) for t in side]) for side in (mine, theirs))
            if above is not None and below is not None:
                levels[concurrency] = math.exp(above - below)
        return Finalist(trial, len(mine), gain, verdict, None, levels, dropped)


@dataclass(frozen=True)
class _Point:
    arm: Arm
    hours: float
    reading: Reading


class _Fit:
    """log objective = arm + slope x time, by least squares."""

    def __init__(
        self, arms: list[Arm], coefficients: Floats, inverse: Floats, *, variance: float, freedom: int
    ) -> None:
        self._arms, self._coefficients, self._inverse = arms, coefficients, inverse
        self._variance, self._freedom = variance, freedom
        self.spread = math.sqrt(variance)

    @classmethod
    def of(cls, points: Sequence[_Point]) -> _Fit | None:
        """None where no degree of freedom is left to tell the spread by."""
        arms = list(dict.fromkeys(point.arm for point in points))
        if None not in arms or len(arms) < 2:
            return None
        rows = np.zeros((len(points), len(arms) + 1))
        for row, point in zip(rows, points, strict=True):
            row[arms.index(point.arm)] = 1.0
            row[-1] = point.hours - points[0].hours
        values = np.array([point.reading.value for point in points])
        inverse = np.asarray(np.linalg.pinv(rows.T @ rows), dtype=np.float64)
        left = len(points) - int(np.linalg.matrix_rank(rows))
        if left < 1:
            return None
        coefficients = inverse @ rows.T @ values
        residual = float(np.sum((values - rows @ coefficients) ** 2)) / left
        windows = [point.reading.variance for point in points if point.reading.variance is not None]
        floor = sum(windows) / len(windows) if windows else 0.0
        return cls(arms, coefficients, inverse, variance=max(residual, floor), freedom=left)

    def ratio(self, one: Arm, other: Arm, level: float) -> Estimate | None:
        if one not in self._arms or other not in self._arms:
            return None
        contrast = np.zeros(len(self._coefficients))
        contrast[self._arms.index(one)] += 1.0
        contrast[self._arms.index(other)] -= 1.0
        value = float(contrast @ self._coefficients)
        error = math.sqrt(self._variance * float(contrast @ self._inverse @ contrast))
        half = t_quantile(self._freedom, level) * error
        return Estimate(math.exp(value), _bounded(value - half), _bounded(value + half), batches=self._freedom + 1)


def _bounded(value: float) -> float:
    """With one degree of freedom an interval may be wider than any number."""
    return math.exp(max(-50.0, min(50.0, value)))


def _is_below(estimate: Estimate | None, bound: float) -> bool:
    return estimate is not None and estimate.high is not None and estimate.high < bound


def _is_good(trial: TrialResult) -> bool:
    return trial.state is TrialState.COMPLETE and trial.score is not None


def _mean(readings: Sequence[Reading | None]) -> float | None:
    known = [reading.value for reading in readings if reading is not None]
    return sum(known) / len(known) if known else None
