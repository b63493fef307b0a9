"""`engine.python: [a, b]`: the serving interpreter as a parameter, `engine_python`, and what that means elsewhere.

Where there is one interpreter, or none, `engine_python` is a fixed name: a constraint that speaks of it may stay,
and `baseline` and `known_good` may name the only one there is.
"""

from __future__ import annotations

from autotune.domain.configuration import Value
from autotune.domain.space import Values
from autotune.domain.study import ENGINE_PYTHON, EngineSpec
from autotune.spacefile import fields
from autotune.spacefile.parameters import Draft
from autotune.spacefile.tree import Entry, Faults, Listing, Node, Place, Refusal, Scalar, Table, joined, shown

_LIST = "list the interpreters under engine.python: `python: [/opt/a/bin/python, /opt/b/bin/python]`"


def read(node: Node) -> str | tuple[str, ...] | None:
    """One interpreter, several of them, or none (`unset`)."""
    if not isinstance(node, Listing):
        return fields.optional(fields.text)(node)  # type: ignore[no-any-return]
    if not node.items:
        raise fields.refuse(node, "an interpreter, or a list of them")
    found = []
    for item in node.items:
        text = fields.text(item)
        if text == fields.UNSET:
            raise Refusal(item.place, f"{node.path} must list interpreters", shown(item))
        if text in found:
            raise Refusal(item.place, f"{node.path} holds an interpreter twice", shown(item))
        found.append(text)
    return tuple(found) if len(found) > 1 else found[0]


def draft(engine: EngineSpec, root: Table, faults: Faults) -> Draft | None:
    """The parameter, first in order; None where there is no choice. It may not stand under `parameters`."""
    section = root.get("parameters")
    entry = section.entry(ENGINE_PYTHON) if isinstance(section, Table) else None
    if entry is not None and isinstance(section, Table):
        faults.add(entry.key.place, f"`{ENGINE_PYTHON}` may not stand under parameters", hint=_LIST)
        section.entries.remove(entry)
    if not engine.pythons:
        return None
    held = root.get("engine")
    node = held.get("python") if isinstance(held, Table) else None
    place = (node or root).place
    return Draft(_scalar(place, f"parameters.{ENGINE_PYTHON}", ENGINE_PYTHON), Values(engine.pythons))


def fixed(engine: EngineSpec) -> dict[str, Value]:
    return {} if engine.pythons else {ENGINE_PYTHON: engine.python}


def complete(root: Table, engine: EngineSpec, faults: Faults) -> None:
    """`baseline` and each item of `known_good` take the first interpreter unless they name another one."""
    if root.get("baseline") is None and engine.pythons:
        made = Table(root.place, "baseline", [])
        root.entries.append(Entry(_scalar(root.place, "baseline", "baseline"), made))
    good = root.get("known_good")
    for node in (root.get("baseline"), *(good.items if isinstance(good, Listing) else ())):
        if isinstance(node, Table):
            _complete(node, engine, faults)


def _complete(table: Table, engine: EngineSpec, faults: Faults) -> None:
    entry = table.entry(ENGINE_PYTHON)
    if entry is None:
        if engine.pythons:
            path = joined(table.path, ENGINE_PYTHON)
            key = _scalar(table.place, path, ENGINE_PYTHON)
            table.entries.insert(0, Entry(key, _scalar(table.place, path, engine.pythons[0])))
        return
    text = entry.node.text if isinstance(entry.node, Scalar) else ""
    if text not in engine.interpreters and engine.python is not None:
        listed = ", ".join(python for python in engine.interpreters if python)
        faults.add(
            entry.node.place, f"{entry.node.path} must be an interpreter of engine.python ({listed})", f"`{text}`"
        )
    if not engine.pythons:
        table.entries.remove(entry)
    elif text not in engine.pythons:  # told once: nobody need miss it, or find it wrong, again
        entry.node = _scalar(entry.node.place, entry.node.path, engine.pythons[0])


def _scalar(place: Place, path: str, text: str) -> Scalar:
    return Scalar(place, path, text, text)
