"""A space file as a tree whose every node knows where it was written, and the list of what is wrong with it."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from autotune.errors import Fault, SpaceFileError

T = TypeVar("T")
Plain = bool | int | float | str | None


@dataclass(frozen=True, order=True)
class Place:
    """Sorts in reading order: the file (rank 0) from top to bottom, then the overrides as they were given.

    line and column count from 1; 0 means the file, or the override, as a whole.
    """

    rank: int
    line: int
    column: int
    file: str = field(compare=False)


@dataclass
class Scalar:
    """`text` is what the file says, without quotes; `value` what YAML 1.2 takes it for; `raw` the very characters."""

    place: Place
    path: str
    value: Plain
    text: str
    raw: str = ""

    def place_at(self, offset: int) -> Place:
        """Where the character `offset` of `text` stands: quotes, escapes and folded lines are stepped over."""
        if not self.place.line:
            return self.place
        index = _index_in_raw(self.raw, self.text, offset)
        before = self.raw[:index]
        newlines = before.count("\n")
        column = index - before.rfind("\n") if newlines else self.place.column + index
        return Place(self.place.rank, self.place.line + newlines, column, self.place.file)


def _index_in_raw(raw: str, text: str, offset: int) -> int:
    index = 0
    if raw[:1] in ("|", ">"):
        index = raw.find("\n") + 1
    elif raw[:1] in ("'", '"'):
        index = 1
    for wanted in text[:offset]:
        index = _behind(raw, index, wanted)
    following = text[offset : offset + 1]
    while following.strip() and index < len(raw) and raw[index].isspace():
        index += 1
    return min(index, len(raw))


def _behind(raw: str, index: int, wanted: str) -> int:
    """The index behind the characters, from `index` on, that stand for `wanted`."""
    while index < len(raw):
        here = raw[index]
        if here == "\\" and raw[0] == '"' and raw[index + 1] not in "\r\n":
            return index + 2 + {"x": 2, "u": 4, "U": 8}.get(raw[index + 1], 0)
        index += 1
        if here == wanted or (here.isspace() and wanted.isspace()):
            break
    return index


@dataclass
class Listing:
    place: Place
    path: str
    items: list[Node]


@dataclass
class Entry:
    key: Scalar
    node: Node


@dataclass
class Table:
    """A mapping. No key stands twice."""

    place: Place
    path: str
    entries: list[Entry]

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def entry(self, key: str) -> Entry | None:
        return next((entry for entry in self.entries if entry.key.text == key), None)

    def get(self, key: str) -> Node | None:
        found = self.entry(key)
        return found.node if found else None


Node = Scalar | Listing | Table


def joined(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)


def shown(node: Node) -> str:
    """What a fault quotes."""
    if isinstance(node, Table):
        return "a mapping"
    if isinstance(node, Listing):
        return "a list"
    if node.value is None:
        return "nothing (null)"
    return f"`{node.text[:57]}...`" if len(node.text) > 60 else f"`{node.text}`"


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint with the known name that is most like `word`, or else with all of them if they are few."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    if close:
        return f"did you mean `{close[0]}`?"
    return f"known here: {', '.join(names)}" if 0 < len(names) <= 12 else ""


class Refusal(Exception):
    """A reader's way of saying that one node is wrong; `Faults.attempt` writes it down and goes on."""

    def __init__(self, place: Place, rule: str, value: str = "", hint: str = "") -> None:
        super().__init__(rule)
        self.place = place
        self.rule = rule
        self.value = value
        self.hint = hint


class Faults:
    """Everything that is wrong, collected, so that a file is mended in one round."""

    def __init__(self) -> None:
        self._found: list[tuple[Place, Fault]] = []

    def __len__(self) -> int:
        return len(self._found)

    def add(self, place: Place, rule: str, value: str = "", hint: str = "") -> None:
        self._found.append((place, Fault(place.file, place.line, place.column, rule, value, hint)))

    def attempt(self, reader: Callable[[Node], T], node: Node, otherwise: T) -> T:
        """What the reader makes of the node; `otherwise`, and one more fault, where it refuses."""
        try:
            return reader(node)
        except Refusal as refusal:
            self.add(refusal.place, refusal.rule, refusal.value, refusal.hint)
            return otherwise

    def error(self) -> SpaceFileError:
        in_order = sorted(self._found, key=lambda found: found[0])
        return SpaceFileError(tuple(dict.fromkeys(fault for _place, fault in in_order)))

    def raise_if_any(self) -> None:
        if self._found:
            raise self.error()
