"""Whether a trial can still come near the best, once some of its levels are measured; and which level to measure first.

Before a trial a model says what its levels are expected to show, how uncertain that is, and how the levels hang
together; and how far off the model was at each earlier trial that it had not seen. Given the levels that are measured,
the others follow by linear regression (the conditional distribution of a multivariate normal one). For each of them the
optimistic value is the highest of

- the regression's upper end: of Student's t, with the larger of the model's own deviation and the one that the
  earlier errors show under the same regression; and never less than the largest of these errors above it;
- the highest ratio to the baseline that the upper end of any measured level's interval allows.

If even with these the objective stays below the lower end of the best score's interval, the trial is stopped.
Everything is in natural logarithms of tokens a second, as of the first baseline where the node drifts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from autotune.domain.level import Level
from autotune.domain.measurement import Estimate, Measurement
from autotune.domain.pruning import Bound
from autotune.study.model.goal import Goal
from autotune.study.model.likeness import Floats


@dataclass(frozen=True)
class Incumbent:
    """The best score so far, in the metric's unit, and the trial that has it."""

    trial: int
    score: Estimate


@dataclass(frozen=True, eq=False)
class Expectation:
    """What a trial is expected to show, by level: `mean` [levels], `covariance` [levels, levels] of what one launch
    would show; `errors` [trials, levels] of such expectations at earlier trials (seen less expected); `quantile`, in
    standard deviations."""

    mean: Floats
    covariance: Floats
    errors: Floats
    quantile: float

    def given(self, known: Sequence[int], seen: Floats) -> tuple[Floats, Floats]:
        """Expected and optimistic value of every level, as the levels `known` show `seen`. Those known stay as seen."""
        rest = [index for index in range(len(self.mean)) if index not in known]
        expected = self.mean.copy()
        expected[list(known)] = seen
        optimistic = expected.copy()
        if rest:
            slopes = self._slopes(known, rest)
            expected[rest] = self.mean[rest] + slopes @ (seen - self.mean[list(known)])
            left = self.covariance[np.ix_(rest, rest)] - slopes @ self.covariance[np.ix_(known, rest)]
            missed = self.errors[:, rest] - self.errors[:, list(known)] @ slopes.T
            variance = np.maximum(np.diag(left), (missed**2).mean(axis=0) if len(missed) else 0.0)
            above = np.maximum(missed.max(axis=0, initial=0.0), self.quantile * np.sqrt(variance))
            optimistic[rest] = expected[rest] + above
        return expected, optimistic

    def explained(self, known: Sequence[int], shares: Floats) -> float:
        """Variance of the objective's logarithm that the levels `known` explain; `shares`: its derivative by level."""
        if not known:
            return 0.0
        toward = self.covariance[list(known)] @ shares
        return float(toward @ np.linalg.solve(self.covariance[np.ix_(known, known)], toward))

    def _slopes(self, known: Sequence[int], rest: Sequence[int]) -> Floats:
        between = self.covariance[np.ix_(known, rest)]
        return np.asarray(np.linalg.solve(self.covariance[np.ix_(known, known)], between).T)


def by_information(expectation: Expectation, shares: Floats, seconds: Floats) -> list[int]:
    """Indices of the levels: first the one that explains most of the objective's variance per second that it takes,
    then the one that adds most to that, and so on."""
    order: list[int] = []
    left = list(range(len(seconds)))
    while left:
        have = expectation.explained(order, shares)
        gains = {index: (expectation.explained([*order, index], shares) - have) / seconds[index] for index in left}
        order.append(max(left, key=lambda index: (gains[index], -index)))
        left.remove(order[-1])
    return order


@dataclass(frozen=True, eq=False)
class Screen:
    """Decides for one trial. `levels` ascending; `baseline` [levels]: what it showed. `drift`: logarithm of what the
    node makes of a figure now against the time of the first baseline."""

    metric: str
    goal: Goal
    levels: tuple[Level, ...]
    order: tuple[Level, ...]
    expectation: Expectation
    baseline: Floats
    incumbent: Incumbent
    drift: float = 0.0
    _places: Mapping[Level, int] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_places", {level: place for place, level in enumerate(self.levels)})

    def bound(self, measurements: Sequence[Measurement]) -> Bound | None:
        """None too where a level has no figure, which is for others to judge, and when all levels are there."""
        known, seen, upper = [], [], []
        for measurement in measurements:
            figure = measurement.output_throughput
            if figure is None or figure.value <= 0:
                return None
            known.append(self._places[measurement.level])
            seen.append(math.log(figure.value) - self.drift)
            upper.append(math.log(max(figure.value, figure.high or 0.0)) - self.drift)
        if not known or len(known) == len(self.levels) or self.incumbent.score.low is None:
            return None
        _expected, optimistic = self.expectation.given(known, np.array(seen))
        optimistic[known] = upper
        floor = float(np.max(np.array(upper) - self.baseline[known]))
        rest = [place for place in range(len(self.levels)) if place not in known]
        optimistic[rest] = np.maximum(optimistic[rest], self.baseline[rest] + floor)
        score = self._score(optimistic)
        if score >= self.incumbent.score.low:
            return None
        return Bound(
            self.metric,
            score,
            self.incumbent.score,
            self.incumbent.trial,
            tuple(measurement.level for measurement in measurements),
            {self.levels[place]: math.exp(optimistic[place] + self.drift) for place in rest},
        )

    def _score(self, logarithms: Floats) -> float:
        value = float(self.goal.value(logarithms))
        if self.metric == "weighted_speedup":
            value -= float(self.goal.value(self.baseline))
        return math.exp(value)
