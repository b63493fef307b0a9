"""What a model is asked about: legal configurations that have not been settled, and likely to be good."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from autotune.domain.configuration import Configuration
from autotune.study.ledger import Ledger
from autotune.study.model.likeness import Floats
from autotune.study.moves import Rules, neighbours, random_configuration

POOL, FRESH, LEADERS = 400, 20, 3
"""Random valid configurations that are kept, and drawn anew each time; and the best whose neighbours are candidates."""
CLIMBS = 3
"""Steps uphill on the model, from the best candidate to the best of its neighbours: what pays only together (a larger
graph and more running requests) is no neighbour of anything measured."""
DRAWS_FOR_ONE = 30

Worth = Callable[[Sequence[Configuration]], Floats]


class Candidates:
    def __init__(self, ledger: Ledger, rng: random.Random) -> None:
        self._ledger = ledger
        self._rng = rng
        self._pool: dict[Configuration, None] | None = None
        self._beside: dict[Configuration, tuple[Configuration, ...]] = {}

    def find(self, measured: Sequence[Configuration], worth: Worth) -> tuple[list[Configuration], Floats]:
        """A kept random pool, some new draws, neighbours of the best measured and of what `worth` ranks highest; and
        what each is worth."""
        self._pool = self._draw(self._pool or {}, POOL if self._pool is None else FRESH)
        found = self._open(self._pool)
        scored = sorted(measured, key=lambda configuration: -(self._ledger.score(configuration) or 0.0))
        for leader in itertools.islice(dict.fromkeys(scored), LEADERS):
            found.update(self._open(self._neighbours(leader)))
        values: list[Floats] = []
        new, height = list(found), -math.inf
        for _ in range(CLIMBS + 1):
            if not new:
                break
            values.append(worth(new))
            highest = int(np.argmax(values[-1]))
            if values[-1][highest] <= height:
                break
            height, top = values[-1][highest], new[highest]
            new = [configuration for configuration in self._open(self._neighbours(top)) if configuration not in found]
            found.update(dict.fromkeys(new))
        ranked = list(found)[: sum(len(part) for part in values)]
        return ranked, np.concatenate(values) if values else np.zeros(0)

    def _open(self, configurations: Iterable[Configuration]) -> dict[Configuration, None]:
        return dict.fromkeys(c for c in configurations if self._ledger.is_open(c))

    def _neighbours(self, base: Configuration) -> tuple[Configuration, ...]:
        if base not in self._beside:
            self._beside[base] = tuple(neighbours(Rules(self._ledger.space, self._ledger.is_legal), base))
        return self._beside[base]

    def _draw(self, pool: dict[Configuration, None], count: int) -> dict[Configuration, None]:
        """The pool is kept to its size: the oldest leave."""
        wanted = len(pool) + count
        for _ in range(DRAWS_FOR_ONE * count):
            if len(pool) >= wanted:
                break
            drawn = random_configuration(self._ledger.space, self._rng)
            if drawn not in pool and self._ledger.is_legal(drawn):
                pool[drawn] = None
        for old in list(itertools.islice(pool, max(0, len(pool) - POOL))):
            del pool[old]
        return pool
