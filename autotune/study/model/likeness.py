"""How alike two configurations are, factor by factor: what the models of a study are made of. Pure numpy.

Two values of a factor are alike by 1 if equal, by their distance if both are numbers, else by 0. Distance is counted in
steps between the factor's values on a logarithmic scale: 0.85 and 0.92 of the memory are as far apart as 64 and 128
requests. An inactive factor is a value of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from autotune.domain.configuration import Configuration, Value
from autotune.domain.space import SearchSpace

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]

STEPS = 1.2
"""Numbers this many steps apart are alike by exp(-1/2)."""

_ABSENT = "absent"


class Likeness:
    """Codes of configurations, and the likeness of every pair of codes. `names` are the factors looked at."""

    def __init__(self, space: SearchSpace, names: Sequence[str] | None = None) -> None:
        wanted = None if names is None else set(names)
        self._parameters = [p for p in space.parameters if wanted is None or p.name in wanted]
        self._codes: list[dict[str, int]] = [{} for _ in self._parameters]
        self._values: list[list[Value | str]] = [[] for _ in self._parameters]
        self._tables: list[Floats] = [np.ones((0, 0)) for _ in self._parameters]
        self._known: dict[Configuration, tuple[int, ...]] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(parameter.name for parameter in self._parameters)

    def code(self, configurations: Sequence[Configuration]) -> Codes:
        """One row of codes for each configuration; values that were not seen before get new codes."""
        rows = [self._known.get(configuration) or self._row(configuration) for configuration in configurations]
        return np.array(rows, dtype=np.int64).reshape(len(configurations), len(self._parameters))

    def alike(self, left: Codes, right: Codes) -> Floats:
        """[factors, left, right], each in 0..1."""
        for index in range(len(self._parameters)):
            self._complete(index)
        found = [table[left[:, index][:, None], right[:, index][None, :]] for index, table in enumerate(self._tables)]
        return np.array(found).reshape(len(self._parameters), len(left), len(right))

    def is_number(self, factor: int, code: int) -> bool:
        """Whether the value that has this code is one, and so more or less than others."""
        return _positive(self._values[factor][code])

    def _row(self, configuration: Configuration) -> tuple[int, ...]:
        row = []
        for index, parameter in enumerate(self._parameters):
            present = parameter.name in configuration
            value = configuration[parameter.name] if present else _ABSENT
            key = f"{type(value).__name__}:{value}" if present else _ABSENT
            if key not in self._codes[index]:
                self._codes[index][key] = len(self._values[index])
                self._values[index].append(value if present else _ABSENT)
            row.append(self._codes[index][key])
        self._known[configuration] = tuple(row)
        return tuple(row)

    def _complete(self, index: int) -> None:
        values = self._values[index]
        if len(self._tables[index]) != len(values):
            step = _step(values)
            pairs = [[_alike(a, b, i == j, step) for j, b in enumerate(values)] for i, a in enumerate(values)]
            self._tables[index] = np.array(pairs, dtype=np.float64)


def _alike(left: Value | str, right: Value | str, same: bool, step: float) -> float:
    if same:
        return 1.0
    if _positive(left) and _positive(right):
        apart = (math.log(float(left or 1)) - math.log(float(right or 1))) / step
        return math.exp(-0.5 * (apart / STEPS) ** 2)
    return 0.0


def _step(values: Sequence[Value | str]) -> float:
    """Mean distance of neighbouring numbers, in natural logarithms."""
    logs = sorted(math.log(float(value or 1)) for value in values if _positive(value))
    return (logs[-1] - logs[0]) / (len(logs) - 1) if len(logs) > 1 else 1.0


def _positive(value: Value | str) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def main_and_pairs(alike: Floats) -> tuple[Floats, Floats]:
    """The mean likeness over the pairs of factors, and over all factors together (their product)."""
    count = len(alike)
    total, squares = alike.sum(axis=0), (alike**2).sum(axis=0)
    pairs = (total**2 - squares) / max(1, count * (count - 1))
    return pairs, alike.prod(axis=0)
