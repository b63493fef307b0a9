"""How far a server's log had come at which time, so that what it wrote within a window can be read afterwards.

By places in the file and not by the stamps of its lines: those are whole seconds, in a form of each engine's own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

MOST_BYTES = 8_000_000
"""Of a longer stretch the last so many: hundreds of thousands of lines say no more than tens of thousands."""


class LogMarks:
    """`mark` is to be called now and then while the log grows: it notes one size, and reads nothing."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._marks: list[tuple[float, int]] = []

    def mark(self) -> None:
        self._marks.append((self._clock(), self._path.stat().st_size if self._path.exists() else 0))

    def text(self, start_s: float, end_s: float) -> str:
        """What was written between the first mark at or after `start_s` and the last one until `end_s`. Where no two
        marks lie in between, because the window was short, all between the first and the last mark of all."""
        if len(self._marks) < 2:
            return ""
        inside = [place for moment, place in self._marks if start_s <= moment <= end_s]
        begin, end = (inside[0], inside[-1]) if len(inside) > 1 else (self._marks[0][1], self._marks[-1][1])
        try:
            with self._path.open("rb") as file:
                file.seek(max(begin, end - MOST_BYTES))
                return file.read(max(0, end - file.tell())).decode(errors="replace")
        except OSError:
            return ""
