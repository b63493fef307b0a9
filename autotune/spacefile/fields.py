"""Readers: each takes a node and gives a Python value, or refuses with the rule that the node breaks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from autotune.domain.configuration import Value
from autotune.spacefile.tree import Faults, Listing, Node, Place, Refusal, Scalar, Table, nearest, shown

UNSET = "unset"
REQUIRED = object()


@dataclass(frozen=True)
class Key:
    """One key of a section: how it is read, and what stands for it where the file leaves it out."""

    read: Callable[[Node], Any]
    default: Any = REQUIRED


def refuse(node: Node, must: str, hint: str = "") -> Refusal:
    return Refusal(node.place, f"{node.path} must be {must}", shown(node), hint)


def is_unset(node: Node) -> bool:
    return isinstance(node, Scalar) and node.text == UNSET


def text(node: Node) -> str:
    if not isinstance(node, Scalar) or node.value is None or node.value == "":
        raise refuse(node, "text")
    if not isinstance(node.value, str):
        raise refuse(node, "text", f'put it in quotes: "{node.text}"')
    return node.value


def value(node: Node) -> Value:
    """One value of a parameter or an argument; `unset` is None."""
    if not isinstance(node, Scalar):
        raise refuse(node, "one value: a number, a word, true, false or unset")
    if node.value is None:
        raise refuse(node, "a value", "write `unset` to leave the flag or variable out")
    return None if is_unset(node) else node.value


def data(node: Node) -> Any:
    """Whatever stands there, as plain data: for a section whose meaning is the engine's alone."""
    if isinstance(node, Table):
        return {entry.key.value: data(entry.node) for entry in node}
    if isinstance(node, Listing):
        return [data(item) for item in node.items]
    return value(node)


def boolean(node: Node) -> bool:
    if not isinstance(node, Scalar) or not isinstance(node.value, bool):
        raise refuse(node, "true or false")
    return node.value


def number(node: Node) -> float:
    if not isinstance(node, Scalar) or isinstance(node.value, bool) or not isinstance(node.value, int | float):
        raise refuse(node, "a number")
    return node.value


def whole_number(node: Node, least: int | None = None) -> int:
    if not isinstance(node, Scalar) or isinstance(node.value, bool) or not isinstance(node.value, int):
        raise refuse(node, "a whole number")
    if least is not None and node.value < least:
        raise refuse(node, f"a whole number of at least {least}")
    return node.value


def count(node: Node) -> int:
    return whole_number(node, least=1)


def natural(node: Node) -> int:
    return whole_number(node, least=0)


def positive(node: Node) -> float:
    found = number(node)
    if not (found > 0 and math.isfinite(found)):
        raise refuse(node, "a number above 0")
    return found


def not_negative(node: Node) -> float:
    found = number(node)
    if found < 0:
        raise refuse(node, "a number of at least 0")
    return found


def optional(reader: Callable[[Node], Any]) -> Callable[[Node], Any]:
    """`unset` or null gives None."""

    def read(node: Node) -> Any:
        return None if is_unset(node) or (isinstance(node, Scalar) and node.value is None) else reader(node)

    return read


def table_of(node: Node | None, path: str, faults: Faults) -> Table | None:
    """The node as a mapping; None where it is absent, or is something else, which is a fault."""
    if node is None or isinstance(node, Table):
        return node
    if isinstance(node, Scalar) and node.value is None:
        return None  # `args:` with nothing after it
    faults.add(node.place, f"{path} must be a mapping of keys to values", shown(node))
    return None


def items_of(node: Node | None, path: str, faults: Faults) -> list[Node]:
    if node is None or (isinstance(node, Scalar) and node.value is None):
        return []
    if isinstance(node, Listing):
        return node.items
    faults.add(node.place, f"{path} must be a list", shown(node), f"write `{path}: [...]`, or one `- ...` a line")
    return []


def unknown_keys(table: Table, known: frozenset[str], faults: Faults) -> None:
    for entry in table:
        if entry.key.text not in known:
            where = f" in {table.path}" if table.path else ""
            faults.add(entry.key.place, f"unknown key `{entry.key.text}`{where}", hint=nearest(entry.key.text, known))


def section(node: Node | None, path: str, keys: Mapping[str, Key], whole: Place, faults: Faults) -> dict[str, Any]:
    """Every key of `keys`, read or its default. `whole` is where a fault about an absent section stands."""
    table = table_of(node, path, faults)
    if table is not None:
        unknown_keys(table, frozenset(keys), faults)
    absent = node is None or (isinstance(node, Scalar) and node.value is None)
    read: dict[str, Any] = {}
    for name, key in keys.items():
        found = table.get(name) if table is not None else None
        read[name] = None if key.default is REQUIRED else key.default
        if found is not None:
            read[name] = faults.attempt(key.read, found, read[name])
        elif key.default is REQUIRED and (table is not None or absent):
            faults.add(node.place if node else whole, f"{path}.{name} is missing")
    return read


def secret(key: Scalar, faults: Faults) -> None:
    hint = "a space file is copied into every run folder and report; give the server its secrets in another way"
    faults.add(key.place, f"`{key.text}` looks like a secret, and secrets do not belong in a space file", hint=hint)


def plain(found: Any) -> Any:
    """As study.yaml writes it."""
    if isinstance(found, Mapping):
        return {key: plain(held) for key, held in found.items()}
    if isinstance(found, list):
        return [plain(held) for held in found]
    return UNSET if found is None else found
