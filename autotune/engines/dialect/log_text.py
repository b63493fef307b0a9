"""The text of a log made ready for reading: no colours, one kind of line end, and what matters of a very long one."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from autotune.engines.dialect.phases import ANY_MARK, MARKS, Phase
from autotune.engines.dialect.tracebacks import START

_HEAD, _TAIL = 500_000, 2_000_000  # characters; what lies between in a longer log is the traffic of a healthy server
_AROUND, _MOST_WINDOWS = 30_000, 20  # ... except where an exception was raised
_ESCAPE = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
_MAX_LINE = 20_000

TOLD_TO_STOP = re.compile(r"^(?:\[[^\]]*\] )?SIGTERM received|Gracefully exiting")


@dataclass(frozen=True)
class LogText:
    """`marks`: numbers of the lines at which a phase began, ascending, and the phases. `before`: what was logged up
    to the ready line, of a server that had been ready."""

    lines: Sequence[str]
    marks: tuple[tuple[int, ...], tuple[Phase, ...]]
    ready: bool
    before: Sequence[str] = ()

    def phase_at(self, index: int) -> Phase:
        """A log that is cut, or whose ready line is missing, does not make a serving server a starting one."""
        if self.ready:
            return Phase.SERVING
        at = bisect_right(self.marks[0], index)
        return self.marks[1][at - 1] if at else Phase.ARGUMENTS

    @property
    def last_mark(self) -> int:
        """The number of the line at which the last phase began; -1 before the first."""
        return self.marks[0][-1] if self.marks[0] else -1


def read(log: str, *, ready: bool) -> LogText:
    """`ready`: only what came after the ready line. What follows an order to stop is the noise of stopping."""
    text = _shortened(log)
    if "\x1b" in text:
        text = _ESCAPE.sub("", text)
    lines = [line[:_MAX_LINE] for line in text.splitlines()]
    before: list[str] = []
    if ready:
        start = next((i for i, line in enumerate(lines) if MARKS[-1][0].search(line)), -1)
        before, lines = lines[: start + 1], lines[start + 1 :]
    stop = next((i for i, line in enumerate(lines) if TOLD_TO_STOP.search(line)), None)
    if stop is not None:
        lines = lines[: stop + 1]
    places: list[tuple[int, Phase]] = [
        (index, phase)
        for index, line in enumerate(lines)
        if ANY_MARK.search(line)
        for pattern, phase in MARKS
        if pattern.search(line)
    ]
    return LogText(lines, (tuple(i for i, _ in places), tuple(p for _, p in places)), ready, before)


def _shortened(log: str) -> str:
    """Both ends, and what surrounds the first tracebacks between them."""
    if len(log) <= _HEAD + _TAIL:
        return log
    tail = len(log) - _TAIL
    position = log.rfind("\n", 0, _HEAD) + 1 or _HEAD
    parts = [log[:position]]
    for _ in range(_MOST_WINDOWS):
        found = log.find(START, position, tail)
        if found < 0:
            break
        begin = max(position, log.rfind("\n", position, found) + 1)
        position = min(tail, found + _AROUND)
        parts.append(log[begin:position])
    return "\n".join((*parts, log[tail:]))
