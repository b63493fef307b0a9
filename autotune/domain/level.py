"""What a level is known by everywhere: its requests in flight, or its rate of arrivals.

A closed loop's level is the plain number of requests kept in flight. An open loop's is a `Rate`: what is in flight
there is an outcome, which differs from trial to trial.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import total_ordering

_UNIT = " req/s"

STEPS_PER_REQUEST = 1000
"""A rate of a study is a multiple of 0.001 requests a second, so that it is a whole number where one is needed."""


@total_ordering
@dataclass(frozen=True)
class Rate:
    """Requests a second on the node's clock, of a Poisson process. Every rate comes after every number in flight."""

    per_second: float

    def __lt__(self, other: object) -> bool:
        if isinstance(other, Rate):
            return self.per_second < other.per_second
        return False if isinstance(other, int) else NotImplemented

    def __str__(self) -> str:
        """`4 req/s`; `level_of` reads it back exactly."""
        return f"{_digits(self.per_second)}{_UNIT}"

    @property
    def step(self) -> int:
        """The rate in requests per 1,000 seconds, rounded."""
        return round(self.per_second * STEPS_PER_REQUEST)


Level = int | Rate


def level_of(text: str) -> Level:
    """Inverse of `str`, as records and the command line write levels. Raises ValueError for any other text."""
    if not text.endswith(_UNIT):
        return int(text)
    rate = float(text.removesuffix(_UNIT))
    if not 0 < rate < math.inf:
        raise ValueError(f"a rate must be above 0 requests a second, but got {text!r}")
    return Rate(rate)


def label(level: Level, width: int = 0) -> str:
    """Before a level's figures, or above them: `C=16`, `4 req/s`. `width`: of the number in flight."""
    return str(level) if isinstance(level, Rate) else f"C={level:{width}d}"


def named(level: Level) -> str:
    """Within a sentence, after `at`: `level 16`, `4 req/s`."""
    return str(level) if isinstance(level, Rate) else f"level {level}"


def named_all(levels: Sequence[Level]) -> str:
    """`level 16`; `levels 64 and 16`; `4 req/s and 8 req/s`; `level 16 and 4 req/s`, in the order given."""
    numbers = [level for level in levels if not isinstance(level, Rate)]
    word = "" if not numbers else "level " if len(numbers) == 1 else "levels "
    names = [str(level) for level in levels]
    return word + (names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}")


def in_file_name(level: Level) -> str:
    """`C16`, `R0.5`: exact, and without a blank or a slash."""
    return f"R{_digits(level.per_second)}" if isinstance(level, Rate) else f"C{level}"


def as_data(level: Level) -> dict[str, float]:
    """One entry for programs to read: `{"concurrency": 16}` or `{"rate": 4.0}`."""
    return {"rate": level.per_second} if isinstance(level, Rate) else {"concurrency": level}


def _digits(value: float) -> str:
    return repr(float(value)).removesuffix(".0")
