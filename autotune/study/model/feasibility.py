"""How likely a configuration is to start at all, learnt from the trials that did not. Pure.

Three views, multiplied. By value: a crash is put down to one of the values that no surviving trial had, the likelier
the more crashes it is suspected of; a value that survived is cleared for good. A number that ran out of memory did so
together with the other numbers: its blame falls in full only on what asks for as much, and less on what resembles the
dead less. A value that was never tried has the chance that such values turned out to have. By likeness: crashes that no
value explains are learnt by a regression on the likeness to the trials that lived and died, whose pairs and products
know the corners (a large graph with a wide tree).
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autotune.domain.configuration import Configuration
from autotune.domain.space import SearchSpace
from autotune.study.model.likeness import Codes, Floats, Likeness, main_and_pairs

PRIOR = 0.85
"""Chance of a configuration that is like nothing tried so far, its values apart."""
_LEAST = 0.001
_SURE = 0.95
"""How sure it is that the only suspect is to blame."""
_ELSEWHERE = 0.35
"""Share of the blame for a lack of memory that falls on configurations unlike the one that died."""
_NEW_LIVED, _NEW_DIED = 9.0, 1.0
"""Values first tried, before any was: as if so many had lived, and died."""
_FACTOR, _PAIR, _SINGLE, _NOISE = 0.01, 0.1, 0.3, 0.01


@dataclass(frozen=True)
class Death:
    """`memory`: it asked for more than there is, so that one that asks for less may live."""

    configuration: Configuration
    memory: bool = False


@dataclass(frozen=True)
class _Blame:
    """`value`: factor and code."""

    value: tuple[int, int]
    share: float
    death: Death


class Feasibility:
    """Learnt anew from all trials each time; a few hundred at most are looked at."""

    LOOKED_AT = 300
    MEMORY_LOOKED_AT = 60

    def __init__(self, space: SearchSpace) -> None:
        self._likeness = Likeness(space)
        self._plain: dict[tuple[int, int], float] = {}
        self._memory: list[_Blame] = []
        self._known: set[tuple[int, int]] = set()
        self._new = 1.0
        self._codes = self._likeness.code([])
        self._weights: Floats = np.zeros(0)

    def learn(self, alive: Sequence[Configuration], dead: Sequence[Death]) -> None:
        survived = {value for row in self._likeness.code(alive).tolist() for value in enumerate(row)}
        rows = self._likeness.code([death.configuration for death in dead]).tolist()
        suspected = [[value for value in enumerate(row) if value not in survived] for row in rows]
        count = Counter(value for suspects in suspected for value in suspects)
        blames: list[_Blame] = []
        for death, suspects in zip(dead, suspected, strict=True):
            whole = sum(count[value] ** 2 for value in suspects)
            blames += [_Blame(value, _SURE * count[value] ** 2 / whole, death) for value in suspects]
        self._plain = {}
        for blame in blames:
            if not self._shared(blame):
                self._plain[blame.value] = self._plain.get(blame.value, 1.0) * (1.0 - blame.share)
        self._memory = [blame for blame in blames if self._shared(blame)][-self.MEMORY_LOOKED_AT :]
        self._known = survived | count.keys()
        condemned: dict[tuple[int, int], float] = {}
        for blame in blames:
            condemned[blame.value] = condemned.get(blame.value, 0.0) + blame.share
        died, lived = _NEW_DIED + sum(min(1.0, share) for share in condemned.values()), _NEW_LIVED + len(survived)
        self._new = lived / (lived + died)
        unexplained = [death.configuration for death, found in zip(dead, suspected, strict=True) if not found]
        alive, corners = alive[-self.LOOKED_AT // 2 :], unexplained[-self.LOOKED_AT // 2 :]
        self._codes = self._likeness.code([*alive, *corners])
        outcome = np.array([1.0 - PRIOR] * len(alive) + [-PRIOR] * len(corners))
        self._weights = np.linalg.solve(self._kernel(self._codes) + _NOISE * np.eye(len(outcome)), outcome)

    def _shared(self, blame: _Blame) -> bool:
        """A number that ran out of memory did so together with the other numbers."""
        return blame.death.memory and self._likeness.is_number(*blame.value)

    def chances(self, configurations: Sequence[Configuration]) -> Floats:
        """0..1 for each, that it starts and serves."""
        codes = self._likeness.code(configurations)
        by_likeness = np.clip(PRIOR + self._kernel(codes, self._codes) @ self._weights, _LEAST, 1.0)
        return np.asarray(np.maximum(by_likeness * self._by_value(configurations, codes), _LEAST))

    def _by_value(self, configurations: Sequence[Configuration], codes: Codes) -> Floats:
        """Every death counts, not the worst alone: a value that died often is worse than one that died once."""
        chance = np.ones(len(configurations))
        for factor, column in enumerate(codes.T):
            known = range(int(column.max(initial=-1)) + 1)
            by_code = [self._plain.get((factor, c), 1.0 if (factor, c) in self._known else self._new) for c in known]
            chance *= np.array(by_code, dtype=np.float64)[column]
        for blame in self._memory:
            factor, code = blame.value
            rows = np.flatnonzero(codes[:, factor] == code).tolist()
            if rows:
                reach = self._reach([configurations[row] for row in rows], codes[rows], blame.death.configuration)
                chance[rows] *= 1.0 - blame.share * reach
        return chance

    def _reach(self, configurations: Sequence[Configuration], codes: Codes, dead: Configuration) -> Floats:
        """1 where every number is at least that of the one that died, else by likeness."""
        near = self._likeness.alike(codes, self._likeness.code([dead]))[:, :, 0].prod(axis=0)
        no_less = np.array([_asks_no_less(configuration, dead) for configuration in configurations])
        return np.where(no_less, 1.0, _ELSEWHERE + (1.0 - _ELSEWHERE) * near)

    def _kernel(self, left: Codes, right: Codes | None = None) -> Floats:
        alike = self._likeness.alike(left, left if right is None else right)
        pairs, single = main_and_pairs(alike)
        return np.asarray(_FACTOR * alike.sum(axis=0) + _PAIR * pairs + _SINGLE * single)


def _asks_no_less(configuration: Configuration, dead: Configuration) -> bool:
    """By every number that both have; one that lacks a number of the dead asks for less."""
    for name, value in _numbers(dead):
        own = configuration.get(name)
        if not isinstance(own, int | float) or isinstance(own, bool) or own < value:
            return False
    return True


@functools.lru_cache(maxsize=1_000)
def _numbers(configuration: Configuration) -> tuple[tuple[str, float], ...]:
    return tuple(
        (name, float(value))
        for name, value in configuration.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    )
