"""What every test gets: `from builders import trial` works, and no setting of the shell leaks in."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

_LEAKY = ("NCCL_", "SGLANG_")


@pytest.fixture(autouse=True)
def hermetic_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(_LEAKY):
            monkeypatch.delenv(name)
