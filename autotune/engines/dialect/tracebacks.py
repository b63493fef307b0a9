"""Python tracebacks in a log of several processes: found, put in chains, and told from the lines around them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_START = "Traceback (most recent call last):"
_FATAL = re.compile(r"hit an exception|Initialization failed|died during initialization")
_CHAINED = re.compile(r"^(During handling of the above exception|The above exception was the direct cause)")
_RAISED = re.compile(r"^[A-Za-z_][\w.]*(?:: .*|:)?$")
_STAMP = re.compile(r"^\[\d{4}-\d\d-\d\d ")
_RANK = re.compile(r"^\[rank\d+\]: ?")
_MAX_FRAMES = 400
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


def chains(lines: Sequence[str]) -> list[Chain]:
    """In the order of the log. A traceback whose exception is cut off is left out."""
    clean = [_RANK.sub("", line) for line in lines]
    found: list[Chain] = []
    index = 0
    while index < len(clean):
        if _START not in clean[index]:
            index += 1
            continue
        fatal = _FATAL.search(clean[index]) is not None
        exceptions: list[Raised] = []
        linked: int | None = index
        while linked is not None:
            raised, index = _one(clean, linked)
            if raised is None:
                break
            exceptions.append(raised)
            linked = _linked(clean, index)
        if exceptions:
            found.append(Chain(tuple(exceptions), fatal))
    return found


def _one(lines: Sequence[str], start: int) -> tuple[Raised | None, int]:
    """The exception of the traceback at `start`, and the line behind it. Other processes' lines are stepped over."""
    frames: list[str] = []
    end = min(len(lines), start + 1 + _MAX_FRAMES)
    for index in range(start + 1, end):
        line = lines[index]
        if _START in line and not line.startswith(" "):
            return None, index
        if not line or line[0].isspace() or _STAMP.match(line):
            if not _STAMP.match(line):
                frames.append(line)
            continue
        if not _RAISED.match(line):
            continue
        message = [line]
        for following in lines[index + 1 : index + _MAX_MESSAGE]:
            if not following.strip() or _STAMP.match(following) or _START in following:
                break
            message.append(following)
        return Raised(line, "\n".join(message), "\n".join(frames), index), index + len(message)
    return None, end


def _linked(lines: Sequence[str], index: int) -> int | None:
    """Where the traceback begins that was raised from the one that ends before `index`; None if there is none."""
    ahead = _past_blank(lines, index)
    if ahead == len(lines) or not _CHAINED.match(lines[ahead]):
        return None
    ahead = _past_blank(lines, ahead + 1)
    return ahead if ahead < len(lines) and _START in lines[ahead] else None


def _past_blank(lines: Sequence[str], index: int) -> int:
    while index < len(lines) and not lines[index].strip():
        index += 1
    return index
