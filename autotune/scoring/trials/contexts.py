"""Which trials differ in one factor only: the comparisons that a study happens to contain.

A trial's setting of a parameter is its value, or that the server's default was left, or that the parameter was not
active. Trials share a context of a factor if they have the same settings of everything but the factor and what its
value switches on or off (its dependents, by the conditions of the space): those come along with the value, and are
part of what it does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autotune.domain.configuration import Configuration, Value, show_value
from autotune.domain.space import SearchSpace

INACTIVE, DEFAULT = "(not active)", "(the server's default)"

Settings = Mapping[str, str]
Treatment = tuple[str, tuple[tuple[str, str], ...]]
"""A factor's setting, and those of its dependents that it brought."""


def settings(space: SearchSpace, configuration: Configuration) -> Settings:
    """By parameter, as words. Names that are no parameters (a baseline may pin some) count as they are."""
    found = {name: show_value(value) for name, value in configuration.items() if space.parameter(name) is None}
    held: dict[str, Value] = {name: value for name, value in configuration.items() if name in found}
    for parameter in space.parameters:
        if not space.is_active(parameter, held):
            found[parameter.name] = INACTIVE
        elif parameter.name in configuration:
            held[parameter.name] = configuration[parameter.name]
            found[parameter.name] = show_value(configuration[parameter.name])
        elif None in parameter.domain and parameter.name not in space.fixed:
            found[parameter.name] = show_value(None)
        else:
            found[parameter.name] = DEFAULT
    return found


def dependents(space: SearchSpace, name: str) -> frozenset[str]:
    """Parameters whose conditions speak of `name`, and of those that do."""
    found = {name}
    for parameter in space.parameters:  # a condition speaks of earlier ones only
        if parameter.when is not None and parameter.when.words & found:
            found.add(parameter.name)
    return frozenset(found - {name})


@dataclass(frozen=True)
class Placed:
    """Of one factor: place `index` (in the sequence of trials) got `treatment` in `context`."""

    index: int
    context: tuple[tuple[str, str], ...]
    treatment: Treatment


def place(space: SearchSpace, name: str, trials: Sequence[Settings]) -> list[Placed]:
    """Trials in contexts in which more than one treatment was seen; those where the factor was not active are out."""
    along = dependents(space, name)
    found, seen = [], dict[tuple[tuple[str, str], ...], set[Treatment]]()
    for index, held in enumerate(trials):
        if held[name] == INACTIVE:
            continue
        brought = tuple((other, held[other]) for other in sorted(along) if held[other] != INACTIVE)
        context = tuple(sorted(item for item in held.items() if item[0] != name and item[0] not in along))
        placed = Placed(index, context, (held[name], brought))
        seen.setdefault(context, set()).add(placed.treatment)
        found.append(placed)
    return [placed for placed in found if len(seen[placed.context]) > 1]
