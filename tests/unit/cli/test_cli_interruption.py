import os
import signal

import pytest

from autotune.cli import interruption


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
            try:
                os.kill(os.getpid(), number)
            finally:
                raise OSError("the clean-up of a library, which hides the KeyboardInterrupt")
        assert interruption.requested()
    finally:
        for which, handler in before.items():
            signal.signal(which, handler)
