"""A probe whose answer is kept: for programs that take half a minute and always say the same."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from autotune.launch.probe import probe


def cached_probe(argv: Sequence[str], version: str, *, timeout_s: float = 180.0, folder: Path | None = None) -> str:
    """Its stdout, from `folder` where the same program was asked of the same interpreter and `version` before.

    An interpreter that was changed (its modification time) is asked again. A cache that cannot be written is done
    without. Raises ServingEnvironmentError as `probe` does; a failure is not kept.
    """
    place = (folder or cache_folder(os.environ)) / f"{_key(argv, version)}.txt"
    try:
        return place.read_text(encoding="utf-8")
    except (OSError, ValueError):
        pass
    answer = probe(argv, timeout_s=timeout_s)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        unfinished = place.with_suffix(f".{os.getpid()}")
        unfinished.write_text(answer, encoding="utf-8")
        unfinished.replace(place)
    except OSError:
        pass
    return answer


def cache_folder(environment: Mapping[str, str]) -> Path:
    base = environment.get("XDG_CACHE_HOME") or str(Path(environment.get("HOME") or "~").expanduser() / ".cache")
    return Path(base) / "autotune"


def _key(argv: Sequence[str], version: str) -> str:
    try:
        changed = str(Path(argv[0]).stat().st_mtime_ns)
    except OSError:
        changed = ""
    return hashlib.sha256("\0".join((*argv, version, changed)).encode()).hexdigest()[:24]
