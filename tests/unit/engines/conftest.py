"""Excerpts of what real servers wrote and answered (see samples/README.md)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

SAMPLES = Path(__file__).parent / "samples"


@pytest.fixture
def sample() -> Callable[[str], str]:
    return lambda name: (SAMPLES / name).read_text(encoding="utf-8")
