import os
import signal

import pytest

from autotune.cli import interruption


def interrupted_inside_a_library(number: signal.Signals) -> None:
    try:
        os.kill(os.getpid(), number)
    finally:
        raise OSError("a library's clean-up, which hides the KeyboardInterrupt")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_a_library_swallows_is_still_remembered(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interruption, "_requests", [])
    before = {which: signal.getsignal(which) for which in (signal.SIGINT, signal.SIGTERM)}
    try:
        interruption.install()
        assert not interruption.requested()
        with pytest.raises(OSError):
            interrupted_inside_a_library(number)
        assert interruption.requested()
    finally:
        for which, handler in before.items():
            signal.signal(which, handler)
