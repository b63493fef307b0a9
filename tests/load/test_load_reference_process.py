"""The reference server as a process of its own: it runs the tuner's modules, wherever the tuner found them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from autotune.client_test import reference_process


def test_the_reference_server_finds_what_the_tuner_found_through_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a node where the tuner is not installed but lies in a folder of PYTHONPATH."""
    (tmp_path / "sitecustomize.py").write_text(
        "import pathlib\npathlib.Path(__file__).with_name('seen').write_text('imported from here')\n"
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with reference_process(sys.executable):
        assert (tmp_path / "seen").read_text() == "imported from here"
