"""Python tracebacks in a log of several processes: found, put in chains, and told from the lines around them."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

START = "Traceback (most recent call last):"
_FATAL = re.compile(r"hit an exception|Initialization failed|died during initialization")
_CHAINED = re.compile(r"^(During handling of the above exception|The above exception was the direct cause)")
_RAISED = re.compile(r"^(?!(?:INFO|WARNING|ERROR|DEBUG|CRITICAL|TRACE)\b)[A-Za-z_][\w.]*(?:: .*|:)?$")
_NAMED = re.compile(r"^(?:\w+\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Failure|Resources|Timeout)(?:: |$)")
_STAMP = re.compile(r"^\[\d{4}-\d\d-\d\d ")
_RANK = re.compile(r"^\[rank(\d+)\]: ?")
_MAX_OPEN_LINES = 2000  # eight processes that print line by line into each other
_MAX_FRAMES = 1000
_MAX_MESSAGE = 20


@dataclass(frozen=True)
class Raised:
    """An exception: its own line, its whole message, its frames, the number of its line in the log (from 0)."""

    line: str
    message: str
    frames: str
    index: int

    @property
    def kind(self) -> str:
        """ValueError, OutOfMemoryError: without the module."""
        return self.line.split(":", 1)[0].rsplit(".", 1)[-1]


@dataclass(frozen=True)
class Chain:
    """Exceptions raised from each other, the root first. `fatal`: the log says that a process ended by it."""

    exceptions: tuple[Raised, ...]
    fatal: bool


@dataclass
class _Building:
    began: int
    fatal: bool
    exceptions: list[Raised] = field(default_factory=list)


def chains(lines: Sequence[str]) -> list[Chain]:
    """In the order in which they begin. A traceback whose exception is cut off is left out.

    Lines that torch marks with a rank are read rank by rank. Unmarked tracebacks that several processes printed into
    each other cannot be taken apart: each exception closes the oldest open one, and all of them share their frames.
    """
    found = [chain for stream in _streams(lines) for chain in _Reader(stream).read()]
    return [
        Chain(tuple(chain.exceptions), chain.fatal)
        for chain in sorted(found, key=lambda c: c.began)
        if chain.exceptions
    ]


def _streams(lines: Sequence[str]) -> Iterator[list[tuple[int, str]]]:
    """(number, line) of each rank, and of all that is not marked; cheap where there is no traceback at all."""
    streams: dict[str, list[tuple[int, str]]] = {}
    for index, line in enumerate(lines):
        rank = _RANK.match(line) if line.startswith("[rank") else None
        streams.setdefault(rank[1] if rank else "", []).append((index, line[rank.end() :] if rank else line))
    return (stream for stream in streams.values() if any(START in line for _, line in stream))


class _Reader:
    """Reads one stream line by line."""

    def __init__(self, stream: list[tuple[int, str]]) -> None:
        self._stream = stream
        self._found: list[_Building] = []
        self._open: deque[_Building] = deque()
        self._links: deque[_Building] = deque()  # chains whose next traceback is announced
        self._closed: deque[_Building] = deque()  # chains whose last exception was read, and not yet linked
        self._frames: list[str] = []
        self._opened_at = 0

    def read(self) -> list[_Building]:
        position = 0
        while position < len(self._stream):
            position = self._line(position)
        return self._found

    def _line(self, position: int) -> int:
        """Reads the line at `position`; returns where to go on."""
        index, line = self._stream[position]
        if self._open and position - self._opened_at > _MAX_OPEN_LINES:
            self._open.clear()
        if START in line and not (self._open and _NAMED.match(line)):
            self._begin(position, index, line)
        elif not self._open:
            if self._closed and _CHAINED.match(line):
                self._links.append(self._closed.popleft())
        elif not line or line[0].isspace():
            if len(self._frames) < _MAX_FRAMES:
                self._frames.append(line)
        elif _CHAINED.match(line):
            if self._closed:
                self._links.append(self._closed.popleft())
        elif _RAISED.match(line) and not _STAMP.match(line):
            return self._raise(position)
        return position + 1

    def _begin(self, position: int, index: int, line: str) -> None:
        if not self._open:
            self._opened_at = position
            self._frames = []
        if self._links and line.startswith(START):
            self._open.append(self._links.popleft())
            return
        if not self._open:
            self._closed.clear()  # what was not taken up by now was not raised from
        building = _Building(index, _FATAL.search(line) is not None)
        self._found.append(building)
        self._open.append(building)

    def _raise(self, position: int) -> int:
        index, line = self._stream[position]
        building = self._open.popleft()
        message = [line]
        for _, following in self._stream[position + 1 : position + _MAX_MESSAGE]:
            if not following.strip() or _STAMP.match(following) or START in following or _CHAINED.match(following):
                break
            if _NAMED.match(following) and self._open:  # another process's exception
                break
            message.append(following)
        building.exceptions.append(Raised(line, "\n".join(message), "\n".join(self._frames), index))
        self._closed.append(building)
        return position + len(message)
