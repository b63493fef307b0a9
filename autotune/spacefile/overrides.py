"""`--set path=value` and `--engine name`: changes to the tree, before it is read."""

from __future__ import annotations

import re

from autotune.domain.level import Level
from autotune.domain.secrets import names_secret
from autotune.spacefile.core_yaml import compose
from autotune.spacefile.fields import UNSET
from autotune.spacefile.levels import of_key
from autotune.spacefile.parameters import DOMAIN_KEYS
from autotune.spacefile.tree import Entry, Faults, Listing, Node, Place, Plain, Scalar, Table, joined

_EXAMPLE = "write --set path=value, such as --set engine.args.max-running-requests=64"
_SIMULATED = "simulated"

_RATES = "workload.rates"
_NUMBER = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_BOUND_AT_RATE = re.compile(r"slo\.([0-9]+\.[0-9]+ req/s)(?:\.(.*))?")


def apply(root: Table, overrides: tuple[str, ...], faults: Faults) -> None:
    """Later ones win. What an override adds or replaces is said to stand at `--set path=value`."""
    for rank, override in enumerate(overrides, start=1):
        path, equals, text = override.partition("=")
        path = path.strip()
        label = f"--set {path}=..." if any(names_secret(part) for part in path.split(".")) else f"--set {override}"
        place = Place(rank, 0, 0, label)
        parts = _parts(path)
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


def _parts(path: str) -> list[str]:
    """Split at the dots, except at that of a rate: `workload.rates.0.5`, `slo.0.5 req/s.ttft_ms`."""
    if path.startswith(f"{_RATES}."):
        return [*_RATES.split("."), path.removeprefix(f"{_RATES}.")]
    if found := _BOUND_AT_RATE.fullmatch(path):
        inside = [] if found[2] is None else found[2].split(".")
        return ["slo", found[1], *inside]
    return path.split(".")


def _entry(table: Table, key: str) -> Entry | None:
    """Rates are known by their number: `4` is `4.0`, and `4 req/s` is `4.0 req/s`."""
    found = table.entry(key)
    if found is not None or table.path not in (_RATES, "slo"):
        return found
    asked = _known_by(table, _key(table, key, table.place))
    return None if asked is None else next((one for one in table if _known_by(table, one.key) == asked), None)


def _known_by(table: Table, key: Scalar) -> Level | float | None:
    if table.path == "slo":
        return of_key(key)
    return key.value if isinstance(key.value, int | float) and not isinstance(key.value, bool) else None


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
            entry = _entry(holder, part)
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
    entry = _entry(table, key)
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
    """A level of `workload.concurrency` is a whole number, one of `workload.rates` a number; other keys are text."""
    value: Plain = text
    if text.isascii() and text.isdigit():
        value = int(text)
    elif table.path == _RATES and _NUMBER.fullmatch(text):
        value = float(text)
    return Scalar(place, joined(table.path, text), value, text)
