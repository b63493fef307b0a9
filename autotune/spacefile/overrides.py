"""`--set path=value` and `--engine name`: changes to the tree, before it is read."""

from __future__ import annotations

from autotune.domain.secrets import names_secret
from autotune.spacefile.core_yaml import compose
from autotune.spacefile.fields import UNSET
from autotune.spacefile.parameters import DOMAIN_KEYS
from autotune.spacefile.tree import Entry, Faults, Listing, Node, Place, Scalar, Table, joined

_EXAMPLE = "write --set path=value, such as --set engine.args.max-running-requests=64"
_SIMULATED = "simulated"


def apply(root: Table, overrides: tuple[str, ...], faults: Faults) -> None:
    """Later ones win. What an override adds or replaces is said to stand at `--set path=value`."""
    for rank, override in enumerate(overrides, start=1):
        path, equals, text = override.partition("=")
        path = path.strip()
        label = f"--set {path}=..." if any(names_secret(part) for part in path.split(".")) else f"--set {override}"
        place = Place(rank, 0, 0, label)
        parts = path.split(".")
        if not equals or not all(parts):
            faults.add(place, "an override is a dotted path, `=`, and a value", hint=_EXAMPLE)
            continue
        value = _value(text, place, path, faults)
        if value is not None:
            _put(root, parts, value, faults)


def switch_engine(root: Table, name: str, rank: int, faults: Faults) -> None:
    """The simulated engine has a server of its own: it takes no serving interpreter."""
    place = Place(rank, 0, 0, f"--engine {name}")
    _put(root, ["engine", "name"], Scalar(place, "engine.name", name, name), faults)
    if name == _SIMULATED:
        _put(root, ["engine", "python"], Scalar(place, "engine.python", UNSET, UNSET), faults)


def _value(text: str, place: Place, path: str, faults: Faults) -> Node | None:
    if not text.strip():
        return Scalar(place, path, None, "")
    return compose(text.strip(), place, path, faults)


def _put(root: Table, parts: list[str], value: Node, faults: Faults) -> None:
    """Mappings on the way are made where they are missing; a key that nobody knows is told when it is read."""
    holder: Node = root
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        if isinstance(holder, Listing):
            if not (part.isascii() and part.isdigit() and int(part) < len(holder.items)):
                faults.add(value.place, f"{holder.path} has {len(holder.items)} items, numbered from 0", f"`{part}`")
                return
            if last:
                holder.items[int(part)] = value
            else:
                holder = holder.items[int(part)]
        elif isinstance(holder, Table):
            entry = holder.entry(part)
            if last:
                _set(holder, part, value)
            elif entry is None or (isinstance(entry.node, Scalar) and entry.node.value is None):
                made = Table(value.place, joined(holder.path, part), [])
                _set(holder, part, made)
                holder = made
            else:
                holder = entry.node
        else:
            faults.add(value.place, f"{holder.path} is one value, and has no `{part}` inside")
            return


def _set(table: Table, key: str, value: Node) -> None:
    entry = table.entry(key)
    if entry is None:
        table.entries.append(Entry(_key(table, key, value.place), value))
    elif table.path == "parameters" and isinstance(entry.node, Table) and isinstance(value, Listing):
        # A list is the parameter's new values: its `when` and `env` say what it is, and stay.
        kept = [item for item in entry.node if item.key.text not in DOMAIN_KEYS]
        values = Entry(_key(entry.node, "values", value.place), value)
        entry.node = Table(entry.node.place, entry.node.path, [values, *kept])
    else:
        entry.key.place, entry.node = value.place, value


def _key(table: Table, text: str, place: Place) -> Scalar:
    """A level of `workload.concurrency` is a number; every other key is text."""
    whole = text.isascii() and text.isdigit()
    return Scalar(place, joined(table.path, text), int(text) if whole else text, text)
