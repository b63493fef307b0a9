"""`baseline` and `known_good`: configurations that the file writes out itself."""

from __future__ import annotations

import difflib

from autotune.domain.configuration import Configuration, Value, show_value
from autotune.domain.secrets import names_secret
from autotune.domain.space import Domain, FloatRange, SearchSpace, Values
from autotune.spacefile import fields
from autotune.spacefile.conditions import Names
from autotune.spacefile.tree import Entry, Faults, Node, Table, nearest, shown


def read_baseline(node: Node | None, names: Names, faults: Faults) -> dict[str, Value]:
    """May leave the searched values, and may pin what is no parameter; not by a slip of the pen, though."""
    read: dict[str, Value] = {}
    for entry in fields.table_of(node, "baseline", faults) or ():
        name = entry.key.text
        if name not in names.parameters:
            _slip(entry, names, faults)
        if names_secret(name):
            fields.secret(entry.key, faults)
        read[name] = _fitting(faults.attempt(fields.value, entry.node, None), names.parameters.get(name))
    return read


def _slip(entry: Entry, names: Names, faults: Faults) -> None:
    name = entry.key.text
    meant = name.lstrip("-").replace("-", "_")
    if meant != name:
        faults.add(entry.key.place, f"unknown name `{name}`", hint=f"names are written with _: `{meant}`")
        return
    close = difflib.get_close_matches(name, sorted(names.parameters), n=1, cutoff=0.92)
    if close and len(name) >= 8:
        faults.add(entry.key.place, f"`{name}` is no parameter, but almost one", hint=f"did you mean `{close[0]}`?")


def read_known_good(nodes: list[Node], names: Names, faults: Faults) -> list[dict[str, Value] | None]:
    """One mapping an item; None for an item that is none, or names what the space does not have."""
    return [_known_good(node, names, faults) for node in nodes]


def _known_good(node: Node, names: Names, faults: Faults) -> dict[str, Value] | None:
    before = len(faults)
    if not isinstance(node, Table):
        faults.add(node.place, f"{node.path} must be a mapping of parameters to values", shown(node))
        return None
    read: dict[str, Value] = {}
    for entry in node:
        name = entry.key.text
        if name not in names.parameters:
            hint = nearest(name, names.parameters) if names.parameters else "there are no parameters"
            faults.add(entry.key.place, f"{node.path} names `{name}`, which is no parameter", hint=hint)
            continue
        domain = names.parameters[name]
        told = len(faults)
        read[name] = _fitting(faults.attempt(fields.value, entry.node, None), domain)
        if told == len(faults) and domain is not None and read[name] not in domain:
            rule = f"{entry.node.path} must be one of the parameter's values"
            faults.add(entry.node.place, rule, f"`{show_value(read[name])}`", _listed(domain))
    return read if len(faults) == before else None


def _fitting(value: Value, domain: Domain | None) -> Value:
    """1 is 1.0 where the parameter is a range of floats: one server must not become two configurations."""
    if isinstance(domain, FloatRange) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value


def _listed(domain: Domain) -> str:
    if isinstance(domain, Values):
        return "its values: " + ", ".join(show_value(choice) for choice in domain.choices)
    steps = f" in steps of {domain.step}" if domain.step is not None and not domain.log else ""
    return f"it goes from {domain.low} to {domain.high}{steps}"


def completed(space: SearchSpace, values: dict[str, Value]) -> tuple[Configuration, tuple[str, ...]]:
    """With every active parameter, unset where it is not named, and none that is inactive; and which were not named."""
    whole = {name: value for name, value in values.items() if space.parameter(name) is None}
    missing: list[str] = []
    for parameter in space.parameters:
        if space.is_active(parameter, whole):
            whole[parameter.name] = values.get(parameter.name)
            if parameter.name not in values:
                missing.append(parameter.name)
    return space.normalise(whole), tuple(missing)


def check_known_good(
    nodes: list[Node], read: list[dict[str, Value] | None], space: SearchSpace, faults: Faults
) -> tuple[Configuration, ...]:
    found: list[Configuration] = []
    for node, values in zip(nodes, read, strict=True):
        if values is None:
            continue
        configuration, missing = completed(space, values)
        if missing:
            rule = f"{node.path} must name every parameter that is active in it"
            faults.add(node.place, f"{rule}; missing: {', '.join(missing)}", hint="write `unset` where that is meant")
            continue
        for constraint in space.broken(configuration):
            faults.add(node.place, f"{node.path} breaks the constraint `{constraint}`", str(configuration))
        found.append(configuration)
    return tuple(found)
