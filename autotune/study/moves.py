"""How one configuration is made of another, at random, or in turn. Pure functions."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from autotune.domain.configuration import Configuration, Value
from autotune.domain.space import Domain, FloatRange, IntRange, Parameter, SearchSpace, Values

LEVELS_OF_A_RANGE = 5
_MAX_COMPLETIONS = 300  # completions tried for one change; each costs one look at the constraints


def same(left: Value, right: Value) -> bool:
    """Equal as values of a space file: `true` is not 1, and 1 is not 1.0."""
    return type(left) is type(right) and left == right


def levels(domain: Domain) -> tuple[Value, ...]:
    """All values of a list; at most five of a range, spread over it evenly on its scale, both ends among them."""
    if isinstance(domain, Values):
        return domain.choices
    if isinstance(domain, FloatRange) and domain.step is None:
        return domain.grid()
    grid: Sequence[Value]
    if isinstance(domain, IntRange) and domain.log:
        grid = domain.grid()
    else:
        grid = _Steps(domain)
    if len(grid) <= LEVELS_OF_A_RANGE:
        return tuple(grid[index] for index in range(len(grid)))
    last = len(grid) - 1
    chosen = sorted({round(index * last / (LEVELS_OF_A_RANGE - 1)) for index in range(LEVELS_OF_A_RANGE)})
    return tuple(grid[index] for index in chosen)


def every_value(domain: Domain) -> Sequence[Value] | None:
    """Every value of the domain, not only its grid; None for a continuous one."""
    if isinstance(domain, Values):
        return domain.choices
    if isinstance(domain, FloatRange) and domain.step is None:
        return None
    return _Steps(domain)


@dataclass(frozen=True)
class Rules:
    """A space and what may be launched in it. `donors`: configurations, the most trusted first, from which a parameter
    that becomes active takes its value."""

    space: SearchSpace
    allowed: Callable[[Configuration], bool]
    donors: tuple[Configuration, ...] = ()


def change(rules: Rules, base: Configuration, name: str, value: Value) -> Configuration | None:
    """`base` with one value changed: what that switches off is dropped, what it switches on is completed.

    A parameter that becomes active takes its value from the first donor that has it under the same parents, else the
    first level that makes the whole legal. What was active and not named in `base` stays so: the server's own default
    is a level too. Where the change alone is not legal, one other parameter gives way (constraints couple them: a
    drafter that works at topk 1 only would keep every other topk from being tried). None if that does not help.
    """
    completions = itertools.islice(_completions(rules, base, {name: value}), _MAX_COMPLETIONS)
    found = next(filter(rules.allowed, completions), None)
    if found is not None:
        return found
    givers = (
        completion
        for other in _most_coupled(rules.space, {**base, name: value})
        if other.name != name and rules.space.is_active(other, base)
        for level in levels(other.domain)
        if not (other.name in base and same(base[other.name], level))
        for completion in _completions(rules, base, {name: value, other.name: level})
        if name in completion
    )
    return next(filter(rules.allowed, itertools.islice(givers, _MAX_COMPLETIONS)), None)


def _most_coupled(space: SearchSpace, values: Mapping[str, Value]) -> list[Parameter]:
    """Parameters that a broken constraint names, then the rest; each in the order of the file."""
    named = {word for constraint in space.broken(values) for word in constraint.expression.words}
    return sorted(space.parameters, key=lambda parameter: parameter.name not in named)


def _completions(rules: Rules, base: Configuration, changes: Mapping[str, Value]) -> Iterator[Configuration]:
    """`base` with `changes`, legal or not, in each way to complete it."""
    space, started = rules.space, {**base, **changes}

    def extend(index: int, chosen: dict[str, Value]) -> Iterator[Configuration]:
        if index == len(space.parameters):
            yield Configuration(chosen)
            return
        parameter = space.parameters[index]
        options: Sequence[Value]
        if not space.is_active(parameter, chosen):
            options = ()
        elif parameter.name in started:
            options = (started[parameter.name],)
        elif space.is_active(parameter, base):
            options = ()
        else:
            options = _completing(rules, parameter, chosen)
        if not options:
            yield from extend(index + 1, chosen)
        for value in options:
            yield from extend(index + 1, {**chosen, parameter.name: value})

    yield from extend(0, {name: value for name, value in started.items() if space.parameter(name) is None})


def _completing(rules: Rules, parameter: Parameter, chosen: Mapping[str, Value]) -> list[Value]:
    words = parameter.when.words if parameter.when is not None else frozenset()
    parents = [word for word in words if rules.space.parameter(word) is not None]
    found: list[Value] = []
    for donor in rules.donors:
        alike = all(same(donor.get(parent), chosen.get(parent)) for parent in parents)
        if alike and parameter.name in donor and donor[parameter.name] in parameter.domain:
            found.append(donor[parameter.name])
    found.extend(levels(parameter.domain))
    return [value for index, value in enumerate(found) if not any(same(value, earlier) for earlier in found[:index])]


def neighbours(rules: Rules, base: Configuration) -> Iterator[Configuration]:
    """Configurations that differ from `base` by one parameter, and by what that takes with it."""
    for parameter in rules.space.parameters:
        if not rules.space.is_active(parameter, base):
            continue
        held = base.get(parameter.name)
        for value in (*_next_to(parameter.domain, held), *levels(parameter.domain)):
            if parameter.name in base and same(value, held):
                continue
            moved = change(rules, base, parameter.name, value)
            if moved is not None:
                yield moved


def random_configuration(space: SearchSpace, rng: random.Random) -> Configuration:
    """Each active parameter drawn by itself; constraints are not looked at."""
    values: dict[str, Value] = {}
    for parameter in space.parameters:
        if space.is_active(parameter, values):
            values[parameter.name] = _draw(parameter.domain, rng)
    return Configuration(values)


def every_configuration(space: SearchSpace) -> Iterator[Configuration] | None:
    """All assignments of the active parameters, legal or not; None if a domain is continuous."""
    domains = [every_value(parameter.domain) for parameter in space.parameters]
    if any(domain is None for domain in domains):
        return None

    def extend(index: int, values: dict[str, Value]) -> Iterator[Configuration]:
        if index == len(space.parameters):
            yield Configuration(values)
            return
        parameter = space.parameters[index]
        if not space.is_active(parameter, values):
            yield from extend(index + 1, values)
            return
        for value in domains[index] or ():
            yield from extend(index + 1, {**values, parameter.name: value})

    return extend(0, {})


def tidy(domain: FloatRange, value: float) -> float:
    """Free of binary dust: on a step as the grid has it, else six significant digits, and never out of range."""
    if domain.step is not None:
        return round(domain.low + round((value - domain.low) / domain.step) * domain.step, 10)
    return min(max(float(f"{value:.6g}"), domain.low), domain.high)


class _Steps(Sequence[Value]):
    """The values of a stepped range, counted without listing them."""

    def __init__(self, domain: IntRange | FloatRange) -> None:
        self._domain = domain
        step = domain.step
        if step is None:
            raise ValueError("a continuous range has no steps to count")
        self._step = step
        self._count = math.floor((domain.high - domain.low) / step + 1e-9) + 1

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> Value:  # type: ignore[override]
        if not 0 <= index < self._count:
            raise IndexError(index)
        value = self._domain.low + index * self._step
        return value if isinstance(self._domain, IntRange) else round(value, 10)


def _next_to(domain: Domain, held: Value) -> tuple[Value, ...]:
    """The steps below and above, for a stepped range."""
    if isinstance(domain, Values) or domain.step is None or held not in domain or not isinstance(held, int | float):
        return ()
    both = (held - domain.step, held + domain.step)
    inside = [value for value in both if domain.low <= value <= domain.high]
    return tuple(tidy(domain, value) if isinstance(domain, FloatRange) else int(value) for value in inside)


def _draw(domain: Domain, rng: random.Random) -> Value:
    if isinstance(domain, Values):
        return rng.choice(domain.choices)
    if domain.log:
        drawn = math.exp(rng.uniform(math.log(domain.low), math.log(domain.high)))
        return tidy(domain, drawn) if isinstance(domain, FloatRange) else round(drawn)
    if isinstance(domain, FloatRange) and domain.step is None:
        return tidy(domain, rng.uniform(domain.low, domain.high))
    return rng.choice(_Steps(domain))
