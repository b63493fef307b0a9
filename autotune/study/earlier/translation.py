"""A configuration of one study as a point of another's space. Pure.

What the earlier study fixed in its engine section counts as if the configuration had named it. A number that the new
space does not list becomes the nearest that it does; any other value that it does not list is a reason to leave the
configuration out. What only the new space asks for is as its baseline has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autotune.domain.configuration import Configuration, Value, show_value
from autotune.domain.space import Domain
from autotune.domain.study import StudySpec
from autotune.study.ledger import Ledger
from autotune.study.moves import levels, same


@dataclass(frozen=True)
class Translation:
    """`configuration` None: left out, and `why`. `changed`: what is not as it was, in words."""

    configuration: Configuration | None
    changed: tuple[str, ...] = ()
    why: str = ""

    @property
    def exact(self) -> bool:
        return self.configuration is not None and not self.changed


def translate(configuration: Configuration, earlier: StudySpec, spec: StudySpec, ledger: Ledger) -> Translation:
    """`ledger` is the new study's: its space, constraints and engine rules decide what may be launched."""
    held = {**_fixed(earlier), **configuration}
    baseline = ledger.point(spec.baseline)
    values: dict[str, Value] = {name: v for name, v in spec.baseline.items() if spec.space.parameter(name) is None}
    changed = [f"without {name}={show_value(value)}" for name, value in _lost(configuration, spec)]
    for parameter in spec.space.parameters:
        name = parameter.name
        if not spec.space.is_active(parameter, values):
            continue
        wanted = held.get(name, baseline.get(name, _first(parameter.domain)))
        listed = wanted in parameter.domain or (name in baseline and same(wanted, baseline[name]))
        value = wanted if listed else _nearest(parameter.domain, wanted)
        if value is None and wanted is not None:
            return Translation(None, why=f"{name}={show_value(wanted)} is not a value of this space")
        if wanted is None and None not in parameter.domain and not listed:
            return Translation(None, why=f"{name} must have a value in this space")
        if not same(value, wanted):
            changed.append(f"{name}={show_value(value)} for {show_value(wanted)}")
        values[name] = value
    made = Configuration(values)
    if faults := ledger.faults(made):
        return Translation(None, tuple(changed), "; ".join(faults))
    return Translation(made, tuple(changed))


def _fixed(spec: StudySpec) -> dict[str, Value]:
    """Of the engine section: arguments as parameters are named, and variables."""
    arguments = {name.replace("-", "_"): value for name, value in spec.engine.args.items()}
    return {**arguments, **spec.engine.env}


def _lost(configuration: Mapping[str, Value], spec: StudySpec) -> list[tuple[str, Value]]:
    """What the new study neither searches nor has fixed so."""
    fixed = {**_fixed(spec), **{n: v for n, v in spec.baseline.items() if spec.space.parameter(n) is None}}
    return [
        (name, value)
        for name, value in configuration.items()
        if spec.space.parameter(name) is None
        and value is not None
        and not (name in fixed and show_value(fixed[name]) == show_value(value))
    ]


def _first(domain: Domain) -> Value:
    return None if None in domain else levels(domain)[0]


def _nearest(domain: Domain, wanted: Value) -> Value:
    """By distance; None if either is no number."""
    if not _is_number(wanted):
        return None
    numbers = [value for value in domain.grid() if _is_number(value)]
    return min(numbers, key=lambda value: abs(_number(value) - _number(wanted)), default=None)


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(value: Value) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
