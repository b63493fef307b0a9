"""How likely a configuration is to keep to the SLO, learnt from how far the measured ones were from each bound. Pure.

For each bound a Gaussian process over the likeness of configurations foretells the logarithm of the figure over its
bound; the chance is the share of that prediction on the right side. Which factors matter is learnt with it, by the
likelihood: mostly few do, and two values of the others then say the same. Bounds hang together (a long TTFT at one
level is one at the next), so that the least of their chances stands for all: a product would count one cause many
times.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from autotune.domain.configuration import Configuration
from autotune.domain.slo import FLOORS, UNSEEN, SloCheck
from autotune.domain.space import SearchSpace
from autotune.study.model.likeness import Floats, Likeness, main_and_pairs

_MAIN, _PAIRS, _SINGLE = 0.8, 0.15, 0.05
"""Shares of the prior variance: factor by factor, in pairs, all together."""
_NOISE = 0.03
_LEAST_VARIANCE = 0.04
"""Prior variance of a figure's logarithm, at least: 20 %. A few trials may look alike by chance."""
_LEAST, _SMALLEST = 0.001, 0.01
_IDLE = 0.05
"""Weight of a factor that does not seem to matter, beside 1 of one that does."""


class SloChance:
    """Learnt anew from all trials each time; the latest are looked at."""

    LOOKED_AT = 100

    def __init__(self, space: SearchSpace) -> None:
        self._likeness = Likeness(space)
        self._codes = self._likeness.code([])
        self._mean: Floats = np.zeros(0)
        self._scale: Floats = np.zeros(0)
        self._weights: Floats = np.zeros((0, 0))
        self._inverse: Floats = np.zeros((0, 0))
        self._matters: Floats = np.ones(len(self._likeness.names))

    def learn(self, trials: Sequence[tuple[Configuration, tuple[SloCheck, ...]]]) -> None:
        """Complete trials, each with all bounds of the study, in one order. None, or no bounds: every chance is 1."""
        seen = [(configuration, checks) for configuration, checks in trials if checks][-self.LOOKED_AT :]
        self._codes = self._likeness.code([configuration for configuration, _checks in seen])
        targets = np.array([[_log_excess(check) for check in checks] for _configuration, checks in seen])
        if not seen:
            self._mean = np.zeros(0)
            return
        self._mean = targets.mean(axis=0)
        self._scale = np.maximum(targets.var(axis=0), _LEAST_VARIANCE)
        alike = self._likeness.alike(self._codes, self._codes)
        self._matters = _relevance(alike, targets - self._mean)
        self._inverse = np.asarray(np.linalg.inv(_kernel(alike, self._matters) + _NOISE * np.eye(len(seen))))
        self._weights = self._inverse @ (targets - self._mean)

    def chances(self, configurations: Sequence[Configuration]) -> Floats:
        """0..1 for each."""
        if not self._mean.size:
            return np.ones(len(configurations))
        alike = self._likeness.alike(self._likeness.code(configurations), self._codes)
        cross = _kernel(alike, self._matters)
        mean = cross @ self._weights + self._mean
        left = np.maximum(1.0 + _NOISE - np.einsum("nr,nr->n", cross @ self._inverse, cross), _NOISE)
        deviation = np.sqrt(left[:, None] * self._scale[None, :])
        worst = (mean / deviation).max(axis=1)
        return np.array([max(_LEAST, 0.5 * math.erfc(value / math.sqrt(2.0))) for value in worst])


def _relevance(alike: Floats, targets: Floats) -> Floats:
    """One sweep over the factors: each is idle if that makes the targets likelier."""
    matters = np.ones(len(alike))
    best = _unlikelihood(alike, matters, targets)
    for factor in range(len(alike)):
        tried = matters.copy()
        tried[factor] = _IDLE
        found = _unlikelihood(alike, tried, targets)
        if found < best:
            best, matters = found, tried
    return matters


def _unlikelihood(alike: Floats, matters: Floats, targets: Floats) -> float:
    """Minus twice the logarithm of the likelihood, up to a constant; the scale of each target as suits it best."""
    count = len(targets)
    lower = np.linalg.cholesky(_kernel(alike, matters) + _NOISE * np.eye(count))
    whitened = np.linalg.solve(lower, targets)
    spread = np.maximum((whitened**2).mean(axis=0), _LEAST_VARIANCE**2)
    return float((count * np.log(spread)).sum() + 2.0 * targets.shape[1] * np.log(np.diag(lower)).sum())


def _kernel(alike: Floats, matters: Floats) -> Floats:
    """[left, right] out of [factors, left, right]; 1 for what is wholly alike."""
    if not len(alike):
        return np.ones(alike.shape[1:])
    softened = 1.0 - (1.0 - alike) * matters[:, None, None]
    pairs, single = main_and_pairs(softened) if len(alike) > 1 else (alike[0], alike[0])
    main = np.tensordot(matters / matters.sum(), alike, axes=1)
    return np.asarray(_MAIN * main + _PAIRS * pairs + _SINGLE * single)


def _log_excess(check: SloCheck) -> float:
    """Of a ceiling the logarithm of observed / bound, of a floor of bound / observed: above 0 is broken."""
    violation = UNSEEN if check.violation is None else check.violation
    if check.figure in FLOORS and check.violation is not None:
        return -math.log(max(_SMALLEST, 1.0 - violation))
    return math.log(max(_SMALLEST, 1.0 + violation))
