"""Parameters, conditions, constraints, and the search space that they make."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from autotune.domain.configuration import Configuration, Value
from autotune.domain.expression import Expression

GRID_LIMIT = 256
"""A range gives at most this many grid points, both ends among them; a wider one is thinned evenly."""


@dataclass(frozen=True)
class Values:
    """A list of values, in the order of the file; each of them distinct."""

    choices: tuple[Value, ...]

    def grid(self) -> tuple[Value, ...]:
        return self.choices

    def __contains__(self, value: object) -> bool:
        return any(value == choice and type(value) is type(choice) for choice in self.choices)


@dataclass(frozen=True)
class IntRange:
    """low..high, both included, in steps of `step`; `log` searches on a logarithmic scale (then step is 1)."""

    low: int
    high: int
    step: int = 1
    log: bool = False

    def grid(self) -> tuple[Value, ...]:
        """All values of a linear range (see GRID_LIMIT); of a logarithmic one the powers of two, and both ends."""
        if not self.log:
            return tuple(self.low + index * self.step for index in _thinned((self.high - self.low) // self.step))
        inside = {2**power for power in range(63) if self.low <= 2**power <= self.high}
        return tuple(sorted(inside | {self.low, self.high}))

    def __contains__(self, value: object) -> bool:
        if not isinstance(value, int) or isinstance(value, bool):
            return False
        return self.low <= value <= self.high and (value - self.low) % self.step == 0


@dataclass(frozen=True)
class FloatRange:
    """low..high, both included; `step` None means continuous."""

    low: float
    high: float
    step: float | None = None
    log: bool = False

    def grid(self) -> tuple[Value, ...]:
        """Every step, or five points of a continuous range, evenly spaced on its scale."""
        if self.step is not None:
            steps = math.floor((self.high - self.low) / self.step + 1e-9)
            return self._distinct([self.low + index * self.step for index in _thinned(steps)])
        if self.log:
            ratio = self.high / self.low
            inner = [float(f"{self.low * ratio ** (index / 4):.4g}") for index in (1, 2, 3)]
            return self._distinct([self.low, *inner, self.high])
        return self._distinct([self.low + (self.high - self.low) * index / 4 for index in range(4)] + [self.high])

    def _distinct(self, points: list[float]) -> tuple[Value, ...]:
        """Rounded for the eye, where the rounded point is still inside; the ends of the range stay exact."""
        rounded = [point if point in (self.low, self.high) else float(f"{point:.10g}") for point in points]
        return tuple(dict.fromkeys(min(max(point, self.low), self.high) for point in rounded))

    def __contains__(self, value: object) -> bool:
        if not isinstance(value, int | float) or isinstance(value, bool) or not self.low <= value <= self.high:
            return False
        if self.step is None:
            return True
        steps = (value - self.low) / self.step
        return abs(steps - round(steps)) <= 1e-6


def _thinned(last: int) -> list[int]:
    """0..last, or GRID_LIMIT of these, evenly spread, both ends included."""
    if last < GRID_LIMIT:
        return list(range(last + 1))
    return [index * last // (GRID_LIMIT - 1) for index in range(GRID_LIMIT)]


Domain = Values | IntRange | FloatRange


@dataclass(frozen=True)
class Parameter:
    """A dimension. `when` None means always active; `env` says that it is an environment variable."""

    name: str
    domain: Domain
    when: Expression | None = None
    env: bool = False


@dataclass(frozen=True)
class Constraint:
    """Legal before running: a configuration is refused if the expression is False (not if unknowable)."""

    expression: Expression

    def __str__(self) -> str:
        return self.expression.text


@dataclass(frozen=True)
class SpaceSize:
    """`valid` of `combinations` active assignments meet the constraints; both are lower bounds unless exact."""

    valid: int
    combinations: int
    exact: bool


@dataclass(frozen=True)
class SpaceCount:
    """Grid points of a space by what becomes of them; lower bounds unless `exact`.

    `servers`: valid configurations that differ in the server they start. `refused`: by the rule that refused them.
    `remarked`: valid configurations by what is worth knowing of them.
    """

    combinations: int
    valid: int
    servers: int
    refused: Mapping[str, int]
    exact: bool
    remarked: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class SearchSpace:
    """Parameters in an order in which every condition speaks of earlier ones only.

    `fixed` are the engine's fixed arguments (dashes written as underscores): names that expressions may use.
    """

    parameters: tuple[Parameter, ...]
    constraints: tuple[Constraint, ...] = ()
    fixed: Mapping[str, Value] = field(default_factory=dict)

    @functools.cached_property
    def known(self) -> frozenset[str]:
        return frozenset(self.fixed) | {parameter.name for parameter in self.parameters}

    @functools.cached_property
    def _by_name(self) -> Mapping[str, Parameter]:
        return {parameter.name: parameter for parameter in self.parameters}

    def parameter(self, name: str) -> Parameter | None:
        return self._by_name.get(name)

    def is_active(self, parameter: Parameter, values: Mapping[str, Value]) -> bool:
        """`values` need hold only the parameters before this one."""
        if parameter.when is None:
            return True
        return parameter.when.evaluate({**self.fixed, **values}, self.known) is True

    def normalise(self, values: Mapping[str, Value]) -> Configuration:
        """Drops what is inactive. Keeps names that are no parameters (a baseline may pin more than is searched)."""
        kept: dict[str, Value] = {name: value for name, value in values.items() if self.parameter(name) is None}
        for parameter in self.parameters:
            if parameter.name in values and self.is_active(parameter, kept):
                kept[parameter.name] = values[parameter.name]
        return Configuration(kept)

    def broken(self, values: Mapping[str, Value]) -> tuple[Constraint, ...]:
        """The constraints that these values break."""
        known, scope = self.known | frozenset(values), {**self.fixed, **values}
        return tuple(c for c in self.constraints if c.expression.evaluate(scope, known) is False)

    def configurations(self) -> Iterator[Configuration]:
        """Every assignment of the grid of active parameters, legal or not, in the order of the file."""

        def extend(index: int, values: dict[str, Value]) -> Iterator[Configuration]:
            if index == len(self.parameters):
                yield Configuration(values)
                return
            parameter = self.parameters[index]
            if not self.is_active(parameter, values):
                yield from extend(index + 1, values)
                return
            for value in parameter.domain.grid():
                yield from extend(index + 1, {**values, parameter.name: value})

        yield from extend(0, {})

    def size(self, limit: int = 200_000) -> SpaceSize:
        """Counts grid points; stops at `limit` combinations of the parameters that expressions tie together, and then
        says that it is not exact. Parameters that no expression speaks of only multiply."""
        expressions = [c.expression for c in self.constraints] + [p.when for p in self.parameters if p.when is not None]
        tied = frozenset[str]().union(*(expression.words for expression in expressions))
        free = [p for p in self.parameters if p.when is None and p.name not in tied]
        times = math.prod(len(p.domain.grid()) for p in free)
        bound = replace(self, parameters=tuple(p for p in self.parameters if p not in free))
        valid = seen = 0
        for configuration in itertools.islice(bound.configurations(), limit + 1):
            if seen == limit:
                return SpaceSize(valid * times, seen * times, exact=False)
            seen += 1
            valid += not bound.broken(configuration)
        return SpaceSize(valid * times, seen * times, exact=True)
