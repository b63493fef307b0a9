"""The grey-box model under every plausible assumption of how noisy the figures are and how strong the effects.

For a proposal the likeliest scales are enough. For an interval they are not, in two ways. The likeliest of several is
taken for certain, though sixty trials hardly settle them. And there, noise within windows and noise from launch to
launch are multiplied together: where windows are steadier than assumed, launches are taken to be so too, and an error
that all levels of a trial share is taken for an effect. Here the windows' noise is what the trials' own intervals say,
or more; that of launches, the strength of factors and that of their pairs are free; and what is asked is answered by
all fits, each weighted by its likelihood.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from autotune.domain.configuration import Configuration
from autotune.domain.space import SearchSpace
from autotune.study.model.greybox import GreyBox, Observation, Scales
from autotune.study.model.likeness import Floats

LAUNCHES = (0.003, 0.008, 0.025, 0.08)
"""Relative standard deviation from launch to launch, of all levels together."""
WINDOWS = (1.0, 2.5)
"""How many times wider than its own interval says a window's noise may be: it also takes what a level does alone."""
UNKNOWN_WINDOW = 0.014
"""Relative standard deviation of a window without an interval."""
STRENGTHS = (0.125, 0.35, 1.0, 3.0)
PAIRS = (0.2, 2.0, 20.0)
"""Of the variance that factors have beforehand, and of that of their pairs besides. All combinations are looked at: an
interaction that is held to be weak is taken for noise, and the noise then is the likeliest that goes with weak ones."""
LEAST_WEIGHT = 0.05
"""Of the largest: fits below it are left out."""
_LEAST_WINDOW = 1e-4


@dataclass(frozen=True)
class Joint:
    """One fit's answer, logarithms of tokens per second: `mean` [configurations, levels], `covariance`
    [configurations, levels, configurations, levels]. The weights of all fits sum to 1."""

    weight: float
    mean: Floats
    covariance: Floats


class AveragedGreyBox:
    def __init__(self, space: SearchSpace, levels: Sequence[int], *, decompose: bool = True) -> None:
        self._space, self._levels, self._decompose = space, tuple(levels), decompose
        self._fits: list[tuple[float, GreyBox]] = []

    def fit(self, observations: Sequence[Observation]) -> None:
        """Needs one observation at least, each with every level."""
        models = [
            self._fitted(observations, *scales) for scales in itertools.product(LAUNCHES, WINDOWS, STRENGTHS, PAIRS)
        ]
        evidence = np.array([model.evidence() for model in models])
        weights = np.exp(evidence - evidence.max())
        weights /= weights.sum()
        kept = [(float(w), model) for w, model in zip(weights, models, strict=True) if w > LEAST_WEIGHT * weights.max()]
        total = math.fsum(weight for weight, _model in kept)
        self._fits = [(weight / total, model) for weight, model in kept]

    def joint(self, configurations: Sequence[Configuration]) -> Iterator[Joint]:
        for weight, model in self._fits:
            yield Joint(weight, *model.joint(configurations))

    def likeliest(self) -> GreyBox:
        return max(self._fits, key=lambda fit: fit[0])[1]

    def _fitted(
        self, observations: Sequence[Observation], launch: float, window: float, strength: float, pairs: float
    ) -> GreyBox:
        usual = Scales()
        scales = replace(
            usual,
            trial_noise=launch**2,
            noise=_LEAST_WINDOW**2,
            factor=strength * usual.factor,
            pair=strength * pairs * usual.pair,
            single=strength * usual.single,
        )
        model = GreyBox(self._space, self._levels, decompose=self._decompose, scales=scales, learn_scales=False)
        model.fit([self._with_window(observation, window) for observation in observations])
        return model

    def _with_window(self, observation: Observation, times: float) -> Observation:
        own = observation.deviation
        return replace(observation, deviation={lv: times * own.get(lv, UNKNOWN_WINDOW) for lv in self._levels})
