"""SGLang's command line by version: which flags there are, what they take, which words they accept.

One file for each version in `flags/`: {"version", "flags": {flag: {"kind", "choices"?, "aliases"?}}, "variables"?}.
kind is switch (present or absent), toggle (present, or its `--no-` form), int, float, text, or ints, floats, texts
(several words behind one flag). `variables` are the names of the environment that this version reads, where they are
known. Read off the source of the published wheels by `scripts/flag_tables`; a new version is one more file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

Release = tuple[int, ...]

_RELEASE = re.compile(r"v?(\d+(?:\.\d+)*)")


def release_of(version: str) -> Release:
    """(0, 5, 15) from 0.5.15.post1, 0.5.15rc1 or 0.5.15.dev3+g1a2b; empty if it does not begin with numbers."""
    found = _RELEASE.match(version.strip())
    return tuple(int(part) for part in found.group(1).split(".")) if found else ()


@dataclass(frozen=True)
class Flag:
    """`name` with its dashes, as the table has it first; `aliases` are other spellings of it."""

    name: str
    kind: str
    choices: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True)
class FlagTable:
    """`flags` by every spelling. `variables` is empty where this version's are not known."""

    version: str
    flags: Mapping[str, Flag] = field(default_factory=dict)
    variables: frozenset[str] = frozenset()

    def flag(self, spelling: str) -> Flag | None:
        return self.flags.get(spelling)

    def main(self, spelling: str) -> str:
        """The same name for all spellings of one flag; an unknown one is its own."""
        flag = self.flags.get(spelling)
        return flag.name if flag is not None else spelling


@cache
def known_releases() -> tuple[Release, ...]:
    """Ascending. Never empty: the tables are part of the package."""
    return tuple(sorted(_files()))


@cache
def table_for(release: Release) -> FlagTable:
    """The newest table that is not newer than `release`; the oldest one for anything older than all."""
    older = [known for known in known_releases() if known <= release]
    return read_table(json.loads(_files()[older[-1] if older else known_releases()[0]]))


def read_table(raw: Mapping[str, Any]) -> FlagTable:
    """A table in the shape of the files. Raises KeyError, TypeError or AttributeError for any other shape."""
    flags: dict[str, Flag] = {}
    for name, entry in raw["flags"].items():
        flag = Flag(name, entry["kind"], tuple(entry.get("choices", ())), tuple(entry.get("aliases", ())))
        for spelling in (name, *flag.aliases):
            flags[spelling] = flag
    return FlagTable(raw["version"], flags, frozenset(raw.get("variables", ())))


@cache
def lifetime(spelling: str) -> tuple[str, str] | None:
    """The first and the last known version that have this flag; None if none has."""
    having = [table_for(release).version for release in known_releases() if table_for(release).flag(spelling)]
    return (having[0], having[-1]) if having else None


@cache
def all_variables() -> frozenset[str]:
    """Names of the environment that any known version reads."""
    return frozenset[str]().union(*(table_for(release).variables for release in known_releases()))


@cache
def _files() -> Mapping[Release, str]:
    folder = resources.files("autotune.engines.dialect").joinpath("flags")
    return {
        release_of(entry.name): entry.read_text(encoding="utf-8")
        for entry in folder.iterdir()
        if entry.name.endswith(".json")
    }
