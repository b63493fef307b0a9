"""How likely a configuration is to start at all, learnt from the trials that did not. Pure.

Two views, multiplied. By value: a crash is put down to one of the values that no surviving trial had, the likelier the
more crashes it is suspected of; a value that survived is cleared for good. By likeness: crashes that no value explains
are learnt by a regression on the likeness to the trials that lived and died, whose pairs and products know the corners
(a large graph with a wide tree).
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence

import numpy as np

from autotune.domain.configuration import Configuration
from autotune.domain.space import SearchSpace
from autotune.study.likeness import Codes, Floats, Likeness, main_and_pairs

PRIOR = 0.85
"""Chance of a configuration that is like nothing tried so far."""
_LEAST = 0.001
_SURE = 0.95
"""How sure it is that the only suspect is to blame."""
_FACTOR, _PAIR, _SINGLE, _NOISE = 0.01, 0.1, 0.3, 0.01


class Feasibility:
    """Learnt anew from all trials each time; a few hundred at most are looked at."""

    LOOKED_AT = 300

    def __init__(self, space: SearchSpace) -> None:
        self._likeness = Likeness(space)
        self._cleared: dict[str, float] = {}
        self._codes = self._likeness.code([])
        self._weights: Floats = np.zeros(0)

    def learn(self, alive: Sequence[Configuration], dead: Sequence[Configuration]) -> None:
        survived = {value for configuration in alive for value in _values(configuration)}
        suspected = [[v for v in _values(configuration) if v not in survived] for configuration in dead]
        count = Counter(value for suspects in suspected for value in suspects)
        self._cleared = {}
        for suspects in suspected:
            whole = sum(count[value] ** 2 for value in suspects)
            for value in suspects:
                self._cleared[value] = self._cleared.get(value, 1.0) * (1.0 - _SURE * count[value] ** 2 / whole)
        unexplained = [configuration for configuration, suspects in zip(dead, suspected, strict=True) if not suspects]
        alive, dead = alive[-self.LOOKED_AT // 2 :], unexplained[-self.LOOKED_AT // 2 :]
        self._codes = self._likeness.code([*alive, *dead])
        outcome = np.array([1.0 - PRIOR] * len(alive) + [-PRIOR] * len(dead))
        self._weights = np.linalg.solve(self._kernel(self._codes) + _NOISE * np.eye(len(outcome)), outcome)

    def chances(self, configurations: Sequence[Configuration]) -> Floats:
        """0..1 for each, that it starts and serves."""
        cross = self._kernel(self._likeness.code(configurations), self._codes)
        by_likeness = np.clip(PRIOR + cross @ self._weights, _LEAST, 1.0)
        return np.asarray(by_likeness * [self._by_value(configuration) for configuration in configurations])

    def _by_value(self, configuration: Configuration) -> float:
        chance = 1.0
        if self._cleared:
            for value in _values(configuration):
                chance *= self._cleared.get(value, 1.0)
        return max(chance, _LEAST)

    def _kernel(self, left: Codes, right: Codes | None = None) -> Floats:
        alike = self._likeness.alike(left, left if right is None else right)
        pairs, single = main_and_pairs(alike)
        return np.asarray(_FACTOR * alike.sum(axis=0) + _PAIR * pairs + _SINGLE * single)


@functools.lru_cache(maxsize=20_000)
def _values(configuration: Configuration) -> tuple[str, ...]:
    return tuple(f"{name}={value}" for name, value in configuration.items())
