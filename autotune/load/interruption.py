"""Ctrl-C and SIGTERM while a level runs."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from autotune.errors import Interrupted

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def orderly_signals(stop: Callable[[], object]) -> Iterator[None]:
    """Inside, a SIGINT or SIGTERM calls `stop` and nothing else. On leaving, the handlers of before are put back and
    the signal is raised again, so that the program's own handling (KeyboardInterrupt by default) happens outside the
    loop. An exception that a handler raised inside a callback would be swallowed by the loop.

    Raises Interrupted if a signal came and the handler of before did not raise. Off the main thread, where Python
    runs no handlers, it does nothing; ignored signals stay ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        came.append(number)
        stop()

    before = {number: signal.getsignal(number) for number in _SIGNALS}
    replaced = [number for number, handler in before.items() if handler not in (signal.SIG_IGN, None)]
    for number in replaced:
        signal.signal(number, note)
    try:
        yield
    finally:
        for number in replaced:
            signal.signal(number, before[number])
        if came:
            signal.raise_signal(came[0])
            raise Interrupted(f"{signal.Signals(came[0]).name} while a level was measured")
