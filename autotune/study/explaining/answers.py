"""Effects and interactions out of the fitted model: differences of predictions, where what these share cancels.

An interval is that of the difference, over all plausible scales of the model (study/model/averaged.py). Pure numpy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from autotune.domain.configuration import Configuration
from autotune.domain.explanation import Effect, Interaction
from autotune.domain.level import Level
from autotune.domain.measurement import Estimate
from autotune.domain.study import StudySpec
from autotune.study.explaining.surroundings import Step, Surroundings
from autotune.study.model.averaged import AveragedGreyBox
from autotune.study.model.goal import Goal
from autotune.study.model.greybox import Observation
from autotune.study.model.likeness import Floats

SIGNIFICANT = 0.05
Z95 = 1.959964


@dataclass(frozen=True)
class Difference:
    """Of logarithms, with its standard deviation."""

    value: float
    deviation: float

    def ratio(self) -> Estimate:
        half = Z95 * self.deviation
        return Estimate(math.exp(self.value), math.exp(self.value - half), math.exp(self.value + half))


@dataclass(frozen=True)
class Square:
    """`extra`: how much more the first change does after the second than before it."""

    interaction: Interaction
    extra: Difference
    corners: tuple[Configuration, ...]


class Answers:
    """What the fitted model says of differences. `widened` is 1, or by how much the objective of trials that were left
    out was further off than the model has it (root mean square)."""

    def __init__(self, spec: StudySpec, observations: Sequence[Observation], *, decompose: bool) -> None:
        self._goal, self._levels = Goal(spec.workload, spec.objective), spec.workload.closed
        self._model = AveragedGreyBox(spec.space, self._levels, decompose=decompose)
        self._model.fit(observations)
        self.widened = max(1.0, self._error(observations))

    def effects(self, steps: Sequence[Step]) -> tuple[Effect, ...]:
        asked = list(dict.fromkeys(c for step in steps for c in (step.low, step.high)))
        place = {configuration: index for index, configuration in enumerate(asked)}
        weights = np.zeros((len(steps), len(asked)))
        for row, step in enumerate(steps):
            weights[row, place[step.high]] += 1.0
            weights[row, place[step.low]] -= 1.0
        overall, by_level = self._combined(asked, weights), self._by_level(asked, weights)
        return tuple(
            Effect(
                step.parameter,
                step.before,
                step.after,
                overall[row].ratio(),
                {level: found[row].ratio() for level, found in by_level.items()},
                contexts=0,
                brought=step.brought,
            )
            for row, step in enumerate(steps)
        )

    def interactions(self, surroundings: Surroundings, steps: Sequence[Step]) -> tuple[tuple[Interaction, ...], int]:
        """Those with p < 0.05 after Holm's correction, the surest first; and how many were looked at."""
        found = sorted(self.squares(surroundings, steps), key=lambda square: square.interaction.p_value)
        kept, largest = [], 0.0
        for rank, square in enumerate(found):
            largest = min(1.0, max(largest, square.interaction.p_value * (len(found) - rank)))
            if largest < SIGNIFICANT:
                kept.append(replace(square.interaction, p_value=largest))
        return tuple(kept), len(found)

    def squares(self, surroundings: Surroundings, steps: Sequence[Step]) -> Iterator[Square]:
        """Every pair of these changes that can be together, with its uncorrected p-value."""
        for index, first in enumerate(steps):
            pairs = [(second, surroundings.square(first, second)) for second in steps[index + 1 :]]
            legal = [(second, corners) for second, corners in pairs if corners is not None]
            if not legal:
                continue
            asked = list(dict.fromkeys(corner for _second, corners in legal for corner in corners))
            place = {configuration: number for number, configuration in enumerate(asked)}
            weights = np.zeros((3 * len(legal), len(asked)))
            for number, (_second, corners) in enumerate(legal):
                for corner, (without, with_it) in zip(corners, ((-1, 0), (1, 0), (0, -1), (0, 1)), strict=True):
                    weights[3 * number : 3 * number + 3, place[corner]] += (without, with_it, with_it - without)
            answers = self._combined(asked, weights)
            for number, (second, corners) in enumerate(legal):
                yield _square(first, second, corners, answers[3 * number : 3 * number + 3])

    def _combined(self, asked: Sequence[Configuration], weights: Floats) -> list[Difference]:
        """Of the objective: `weights` [differences, configurations]."""

        def at(mean: Floats, covariance: Floats) -> tuple[Floats, Floats]:
            shares = self._goal.shares(mean)
            return self._goal.value(mean), np.einsum("ai,aibj,bj->ab", shares, covariance, shares, optimize=True)

        parts = [(one.weight, *at(one.mean, one.covariance)) for one in self._model.joint(asked)]
        return self._mixed(parts, weights)

    def _by_level(self, asked: Sequence[Configuration], weights: Floats) -> dict[Level, list[Difference]]:
        joints = list(self._model.joint(asked))
        return {
            level: self._mixed([(j.weight, j.mean[:, i], j.covariance[:, i, :, i]) for j in joints], weights)
            for i, level in enumerate(self._levels)
        }

    def _mixed(self, parts: Sequence[tuple[float, Floats, Floats]], weights: Floats) -> list[Difference]:
        """Mean and deviation over the fits: what each is unsure of, and what they differ by."""
        shares = np.array([share for share, _mean, _covariance in parts])
        means = np.array([weights @ mean for _share, mean, _covariance in parts])
        variances = np.array([np.einsum("na,ab,nb->n", weights, c, weights, optimize=True) for _s, _m, c in parts])
        mean = shares @ means
        variance = shares @ (np.maximum(variances, 0.0) + (means - mean) ** 2)
        deviation = self.widened * np.sqrt(variance)
        return [Difference(float(value), float(error)) for value, error in zip(mean, deviation, strict=True)]

    def _error(self, observations: Sequence[Observation]) -> float:
        model = self._model.likeliest()
        whole = [place for place, one in enumerate(observations) if not one.assumed]
        foretold = model.left_out()[whole]
        seen = np.log(np.array([[observations[place].throughput[level] for level in self._levels] for place in whole]))
        shares = self._goal.shares(foretold)
        variance = np.einsum("ni,nij,nj->n", shares, model.left_out_covariance()[whole], shares)
        return float(np.sqrt(np.mean((self._goal.value(seen) - self._goal.value(foretold)) ** 2 / variance)))


def _square(first: Step, second: Step, corners: tuple[Configuration, ...], found: Sequence[Difference]) -> Square:
    without, with_it, extra = found
    z = abs(extra.value) / extra.deviation if extra.deviation > 0 else 0.0
    interaction = Interaction(
        parameter=first.parameter,
        before=first.before,
        after=first.after,
        others=(second.parameter,),
        under=(second.before, second.after),
        ratios=(without.ratio(), with_it.ratio()),
        p_value=math.erfc(z / math.sqrt(2.0)),
    )
    return Square(interaction, extra, corners)
