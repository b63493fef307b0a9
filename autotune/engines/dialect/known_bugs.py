"""Public bugs of SGLang and NCCL by version and combination: a data file, applied as rules.

`known_bugs.json`: a list of {"id", "since", "until", "when", "action": warn|refuse, "text", "thread"}. `when` is an
expression of the space file's language over knobs and variables, and `architecture`, `gpu_count`, `link` of the node;
what cannot be known (no hardware, an argument that is not given) does not hold.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from typing import Any

from autotune.domain.configuration import Value
from autotune.domain.expression import Expression, parse
from autotune.engines.dialect.flag_table import known_releases, release_of, table_for
from autotune.engines.dialect.knobs import KNOB_NAMES, is_variable, stable_name, underscored
from autotune.engines.dialect.rules import ALWAYS, Check, Rule, Site

_NODE = frozenset({"architecture", "gpu_count", "link"})
_LAST = "9999"


@cache
def known_bugs() -> tuple[Rule, ...]:
    """In the order of the file. A bug that only warns has `refuses` False."""
    text = resources.files("autotune.engines.dialect").joinpath("known_bugs.json").read_text(encoding="utf-8")
    return rules_of(json.loads(text))


def rules_of(entries: Iterable[Mapping[str, Any]]) -> tuple[Rule, ...]:
    """Raises KeyError or ExpressionError for an entry that is not whole, ValueError for an unknown action."""
    return tuple(_rule(entry) for entry in entries)


def _rule(entry: Mapping[str, Any]) -> Rule:
    if entry["action"] not in ("warn", "refuse"):
        raise ValueError(f"{entry['id']}: action must be warn or refuse, but got {entry['action']}")
    when = parse(entry["when"])
    names = frozenset(word for word in when.words if word in _known_names() or (is_variable(word) and "_" in word))
    reads = tuple(sorted(names - _NODE)) or ("speculative_algorithm",)
    return Rule(
        id=f"bug-{entry['id']}",
        text=entry["text"],
        source=entry["thread"],
        reads=reads,
        check=_check(when, names, f"known bug: {entry['text']} ({entry['thread']})"),
        since=release_of(entry["since"]),
        until=release_of(entry.get("until") or _LAST),
        hardware=(lambda _hardware: True) if names & _NODE else None,
        about=ALWAYS,  # an expression may ask whether something is unset
        refuses=entry["action"] == "refuse",
    )


def _check(when: Expression, names: frozenset[str], text: str) -> Check:
    def check(asked: Mapping[str, object], site: Site) -> str | None:
        values: dict[str, Value] = {name: _value(asked.get(name)) for name in names}
        if site.hardware is not None:
            values["architecture"] = site.hardware.architecture
            values["gpu_count"] = site.hardware.gpu_count or None
            values["link"] = site.hardware.link
        return text if when.evaluate(values, names) is True else None

    return check


def _value(value: object) -> Value:
    return value if isinstance(value, bool | int | float | str) else None


@cache
def _known_names() -> frozenset[str]:
    """Every concept of every version, and the words for the node."""
    flags = {
        stable_name(underscored(spelling))[0] for release in known_releases() for spelling in table_for(release).flags
    }
    return frozenset(flags | set(KNOB_NAMES)) | _NODE
