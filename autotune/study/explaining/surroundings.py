"""What the model is asked about: the configurations around the best one that differ from it in one factor, or in two.

A factor's reference is the baseline's value where it can stand in these surroundings, else the best one's own: the
question is what each setting brought, and what giving it up would cost. Only values that served in some trial are
asked about, since a model knows nothing of the others but its prior. Where the change of one factor takes that of
another with it, beyond what its value switches on or off, there is no such effect. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from autotune.domain.configuration import Configuration, Value
from autotune.domain.space import Parameter, SearchSpace
from autotune.scoring import settings
from autotune.scoring.trials.contexts import INACTIVE, dependents
from autotune.study.moves import Rules, change, levels, same

MOST_VALUES = 6
"""Of a factor, the reference among them."""


class Left(Enum):
    """Stands for a value: the parameter is not named, and the server's default holds."""

    TO_THE_SERVER = 0


Setting = Value | Left


@dataclass(frozen=True)
class Step:
    """One factor changed. Values as a space file writes them; `brought`: what `after` switched on."""

    parameter: str
    before: str
    after: str
    setting_before: Setting
    setting_after: Setting
    low: Configuration
    high: Configuration
    brought: tuple[str, ...]


class Surroundings:
    """`served`: configurations that did, the best first; `died`: those that never did. All are points of the space."""

    def __init__(
        self, space: SearchSpace, best: Configuration, served: Sequence[Configuration], died: Sequence[Configuration]
    ) -> None:
        self._space, self.best, self._served = space, best, served
        self._died = frozenset(died) - frozenset(served)
        self._along = {p.name: dependents(space, p.name) | {p.name} for p in space.parameters}
        self._made: dict[tuple[Configuration, str, Setting, type], Configuration | None] = {}

    def steps(self, baseline: Configuration) -> list[Step]:
        """In the order of the space; of a factor in the order of its values."""
        found = []
        for parameter in self._space.parameters:
            if not self._space.is_active(parameter, self.best):
                continue
            own = self.best.get(parameter.name, Left.TO_THE_SERVER)
            wanted = own
            if self._space.is_active(parameter, baseline):
                wanted = baseline.get(parameter.name, Left.TO_THE_SERVER)
            low = self._at(self.best, parameter.name, wanted)
            reference = own if low is None else wanted
            for value in self._values(parameter, reference, own):
                step = self._step(parameter.name, reference, value)
                if step is not None:
                    found.append(step)
        return found

    def square(self, first: Step, second: Step) -> tuple[Configuration, ...] | None:
        """With neither change, with the first, with the second, with both; None where one of them cannot be."""
        if self._along[first.parameter] & self._along[second.parameter]:
            return None
        corners = []
        for one in (second.setting_before, second.setting_after):
            base = self._at(self.best, second.parameter, one)
            if base is None:
                return None
            corners += [self._at(base, first.parameter, value) for value in (first.setting_before, first.setting_after)]
        made = tuple(corner for corner in corners if corner is not None)
        return made if len(made) == 4 else None

    def _step(self, name: str, before: Setting, after: Setting) -> Step | None:
        low, high = self._at(self.best, name, before), self._at(self.best, name, after)
        if low is None or high is None:
            return None
        first, second = settings(self._space, low), settings(self._space, high)
        brought = tuple(
            f"{other}={second[other]}" for other in sorted(self._along[name] - {name}) if second[other] != INACTIVE
        )
        return Step(name, first[name], second[name], before, after, low, high, brought)

    def _at(self, base: Configuration, name: str, wanted: Setting) -> Configuration | None:
        """`base` with this setting and no other change; None where that is not legal, or is known to die."""
        key = base, name, wanted, type(wanted)
        if key not in self._made:
            self._made[key] = self._find(base, name, wanted)
        return self._made[key]

    def _find(self, base: Configuration, name: str, wanted: Setting) -> Configuration | None:
        if isinstance(wanted, Left):
            found: Configuration | None = self._space.normalise(base.without(name))
        elif name in base and same(base[name], wanted):
            found = base
        else:
            rules = Rules(self._space, self._is_legal, (self.best, *self._served))
            found = change(rules, base, name, wanted)
        if found is None or not self._is_legal(found) or found in self._died:
            return None
        changed = {other for other in {*found, *base} if not _alike(found, base, other)}
        return found if changed <= self._along[name] else None

    def _is_legal(self, configuration: Configuration) -> bool:
        return not self._space.broken(configuration)

    def _values(self, parameter: Parameter, reference: Setting, own: Setting) -> list[Setting]:
        """Those that served, without the reference; of many, the best one's and others spread evenly."""
        seen: list[Setting] = []
        for point in self._served:
            if self._space.is_active(parameter, point):
                value = point.get(parameter.name, Left.TO_THE_SERVER)
                if not any(_equal(value, other) for other in (*seen, reference)):
                    seen.append(value)
        order = [*levels(parameter.domain)]
        if all(isinstance(value, int | float) and not isinstance(value, bool) for value in seen):
            seen.sort(key=lambda value: float(str(value)))
        else:
            seen.sort(key=lambda value: next((i for i, v in enumerate(order) if _equal(v, value)), len(order)))
        most = MOST_VALUES - 1
        if len(seen) <= most:
            return seen
        spread = [seen[round(place * (len(seen) - 1) / (most - 1))] for place in range(most)]
        return spread if _equal(own, reference) or any(_equal(own, v) for v in spread) else [*spread[:-1], own]


def _equal(left: Setting, right: Setting) -> bool:
    if isinstance(left, Left) or isinstance(right, Left):
        return left is right
    return same(left, right)


def _alike(left: Mapping[str, Value], right: Mapping[str, Value], name: str) -> bool:
    return (name in left) == (name in right) and same(left.get(name), right.get(name))
