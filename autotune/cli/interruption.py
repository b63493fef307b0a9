"""Ctrl-C and a polite kill: both end a study in order, and neither is forgotten."""

from __future__ import annotations

import signal
from types import FrameType

_requests: list[int] = []


def install() -> None:
    """From here on SIGINT and SIGTERM raise KeyboardInterrupt in the main thread, and `requested` remembers them."""
    signal.signal(signal.SIGINT, _interrupt)
    signal.signal(signal.SIGTERM, _interrupt)


def requested() -> bool:
    return bool(_requests)


def _interrupt(number: int, _frame: FrameType | None) -> None:
    _requests.append(number)
    raise KeyboardInterrupt
