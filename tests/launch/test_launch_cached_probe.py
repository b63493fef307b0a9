from __future__ import annotations

import sys
from pathlib import Path

import pytest

from autotune.errors import ServingEnvironmentError
from autotune.launch.cached_probe import cache_folder, cached_probe

COUNTED = (
    "import pathlib, sys; p = pathlib.Path(sys.argv[1]); p.write_text(p.read_text() + 'x'); print(len(p.read_text()))"
)


@pytest.fixture
def counter(tmp_path: Path) -> Path:
    path = tmp_path / "runs"
    path.write_text("")
    return path


def test_an_answer_is_asked_for_once_for_each_version(tmp_path: Path, counter: Path) -> None:
    argv, folder = (sys.executable, "-c", COUNTED, str(counter)), tmp_path / "cache"
    assert [cached_probe(argv, version, folder=folder) for version in ("1", "1", "2")] == ["1\n", "1\n", "2\n"]


def test_a_failure_is_not_kept(tmp_path: Path) -> None:
    for _attempt in range(2):
        with pytest.raises(ServingEnvironmentError):
            cached_probe((sys.executable, "-c", "raise SystemExit(1)"), "1", folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert cached_probe((sys.executable, "-c", "print(1)"), "1", folder=blocked / "cache") == "1\n"


def test_the_cache_lies_where_the_desktop_standard_says() -> None:
    assert cache_folder({"XDG_CACHE_HOME": "/cache", "HOME": "/home"}) == Path("/cache/autotune")
    assert cache_folder({"HOME": "/home"}) == Path("/home/.cache/autotune")
