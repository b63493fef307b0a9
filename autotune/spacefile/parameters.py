"""The `parameters` section: domains, conditions, and an order in which conditions speak only of earlier parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from autotune.domain.configuration import Value
from autotune.domain.expression import Expression
from autotune.domain.secrets import names_secret
from autotune.domain.space import Domain, FloatRange, IntRange, Parameter, Values
from autotune.spacefile import fields
from autotune.spacefile.conditions import Names, check, expression
from autotune.spacefile.fields import Key
from autotune.spacefile.tree import Entry, Faults, Listing, Node, Refusal, Scalar, Table

KEYS: Mapping[str, Key] = {
    "values": Key(lambda node: node, None),
    "low": Key(fields.number, None),
    "high": Key(fields.number, None),
    "step": Key(fields.optional(fields.positive), None),
    "log": Key(fields.boolean, False),
    "when": Key(expression, None),
    "env": Key(fields.boolean, False),
}
RANGE_KEYS = ("low", "high", "step", "log")
DOMAIN_KEYS = ("values", *RANGE_KEYS)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED = ("and", "or", "not", "in", "true", "false", "unset")


@dataclass
class Draft:
    """A parameter as far as it could be read. `domain` None: its values could not."""

    key: Scalar
    domain: Domain | None = None
    when: Expression | None = None
    when_node: Scalar | None = None
    env: bool = False
    needs: frozenset[str] = field(default_factory=frozenset)

    @property
    def name(self) -> str:
        return self.key.text


def read(node: Node | None, faults: Faults) -> list[Draft]:
    table = fields.table_of(node, "parameters", faults)
    return [_draft(entry, faults) for entry in table or ()]


def _draft(entry: Entry, faults: Faults) -> Draft:
    key, node = entry.key, entry.node
    if not _NAME.fullmatch(key.text):
        hint = f"write `{key.text.lstrip('-').replace('-', '_')}`" if "-" in key.text else ""
        faults.add(key.place, "a parameter's name holds letters, digits and _ only", f"`{key.text}`", hint)
    elif key.text in _RESERVED:
        faults.add(key.place, "a parameter may not have the name of a word of the expressions", f"`{key.text}`")
    if names_secret(key.text):
        fields.secret(key, faults)
    draft = Draft(key)
    if isinstance(node, Listing):
        draft.domain = faults.attempt(_values, node, None)
    elif isinstance(node, Table):
        keys = fields.section(node, node.path, KEYS, node.place, faults)
        draft.domain = _domain(node, keys, faults)
        draft.env = keys["env"]
        when = node.get("when")
        if isinstance(when, Scalar):
            draft.when, draft.when_node = keys["when"], when
    else:
        faults.add(
            node.place,
            f"{node.path} must be a list of values, or a mapping with `values`, or with `low` and `high`",
            _shown_scalar(node),
            "a value that is not searched belongs in engine.args (or in engine.env)",
        )
    return draft


def _shown_scalar(node: Scalar) -> str:
    return f"`{node.text}`" if node.text else "nothing"


def _domain(node: Table, keys: Mapping[str, Any], faults: Faults) -> Domain | None:
    given = [name for name in RANGE_KEYS if node.get(name) is not None]
    if keys["values"] is not None:
        if given:
            faults.add(node.place, f"{node.path} has both `values` and `{given[0]}`", hint="keep one of the two forms")
        return faults.attempt(_values, keys["values"], None)
    for end in ("low", "high"):
        if node.get(end) is None:
            hint = "" if given else "a list of values may stand there, too: `values: [...]`"
            faults.add(node.place, f"{node.path}.{end} is missing", hint=hint)
    if keys["low"] is None or keys["high"] is None:
        return None
    return faults.attempt(lambda _node: _range(node, keys), node, None)


def _values(node: Node) -> Values:
    if not isinstance(node, Listing):
        raise fields.refuse(node, "a list of values")
    if not node.items:
        raise Refusal(node.place, f"{node.path} must list at least one value")
    seen: dict[tuple[bool, Value], Value] = {}
    for item in node.items:
        value = fields.value(item)
        kind = (isinstance(value, bool), value)  # 1 == 1.0 == true in Python; here 1 and true differ
        if kind in seen:
            raise Refusal(item.place, f"{node.path} holds a value twice", f"`{getattr(item, 'text', '')}`")
        seen[kind] = value
    return Values(tuple(seen.values()))


def _range(node: Table, keys: Mapping[str, Any]) -> IntRange | FloatRange:
    low, high, step, log = (keys[name] for name in RANGE_KEYS)
    place, where = node.place, node.path

    def at(key: str) -> Any:
        found = node.get(key)
        return found.place if found else place

    if low > high:
        raise Refusal(at("low"), f"{where}: low must not be above high", f"{low} and {high}")
    if log and low <= 0:
        raise Refusal(at("low"), f"{where}: a logarithmic range must begin above 0", f"{low}")
    if log and step is not None and step != 1:
        raise Refusal(at("step"), f"{where}: a logarithmic range has no step", f"{step}", "leave `step` out")
    if all(isinstance(found, int) for found in (low, high, 1 if step is None else step)):
        found = IntRange(low, high, 1 if step is None else step, log)
        if (high - low) % found.step:
            reach = high - (high - low) % found.step
            raise Refusal(at("high"), f"{where}: steps of {step} from {low} must reach high", f"{high}", f"{reach} is")
        return found
    span = FloatRange(float(low), float(high), None if step is None or log else float(step), log)
    if span.high not in span:
        raise Refusal(at("high"), f"{where}: steps of {step} from {low} must reach high", f"{high}")
    return span


def check_conditions(drafts: list[Draft], names: Names, faults: Faults) -> None:
    """Also notes in every draft which parameters its condition needs."""
    for draft in drafts:
        if draft.when is not None and draft.when_node is not None:
            check(draft.when, draft.when_node, names, faults, takes=True)
            draft.needs = draft.when.words & frozenset(names.parameters)


def ordered(drafts: list[Draft], faults: Faults) -> tuple[Parameter, ...]:
    """The order of the file, but for parameters that must wait for one that stands later. A circle is a fault."""
    waiting, placed, order = list(drafts), set[str](), list[Draft]()
    while waiting:
        ready = next((draft for draft in waiting if draft.needs <= placed), None)
        if ready is None:
            circle = _circle(waiting, placed)
            first = circle[0]
            path = " → ".join([draft.name for draft in circle] + [first.name])
            place = first.when_node.place if first.when_node else first.key.place
            faults.add(place, f"conditions go round in a circle: {path}", hint="one of them must not have a `when`")
            placed |= {draft.name for draft in circle}
            waiting = [draft for draft in waiting if draft not in circle]
            continue
        placed.add(ready.name)
        order.append(ready)
        waiting.remove(ready)
    return tuple(
        Parameter(draft.name, draft.domain, draft.when, draft.env) for draft in order if draft.domain is not None
    )


def _circle(waiting: list[Draft], placed: set[str]) -> list[Draft]:
    """In the order of their need, the one that stands first in the file first."""
    by_name = {draft.name: draft for draft in waiting}
    path: list[Draft] = []
    draft = waiting[0]
    while draft not in path:
        path.append(draft)
        draft = by_name[min(draft.needs - placed)]
    circle = path[path.index(draft) :]
    start = min(range(len(circle)), key=lambda index: waiting.index(circle[index]))
    return circle[start:] + circle[:start]


def plain(parameter: Parameter) -> dict[str, Any]:
    """As study.yaml writes it: the domain, and every default."""
    domain, written = parameter.domain, dict[str, Any]()
    if isinstance(domain, Values):
        written["values"] = [fields.plain(choice) for choice in domain.choices]
    else:
        written.update(low=domain.low, high=domain.high, log=domain.log)
        if domain.step is not None:
            written["step"] = domain.step
    if parameter.when is not None:
        written["when"] = parameter.when.text
    written["env"] = parameter.env
    return written
