"""How folders and files of a study are named."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from datetime import datetime
from pathlib import Path


def reserve(root: Path, study: str, moment: datetime, *, simulated: bool) -> Path:
    """Makes a folder that nobody else has: <study>[-simulated]-<YYYYmmdd-HHMMSS>[-n]. Raises OSError."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", study).strip(".-") or "study"
    stem = f"{plain}-{'simulated-' if simulated else ''}{moment:%Y%m%d-%H%M%S}"
    name, count = stem, 1
    while True:
        try:
            (root / name).mkdir()
        except FileExistsError:
            count += 1
            name = f"{stem}-{count}"
        else:
            return root / name


def point_latest(root: Path, path: Path) -> None:
    """`root`/latest, a convenience for the shell: where links cannot be made, there is none."""
    draft = root / f".latest.{os.getpid()}"
    with suppress(OSError):
        draft.unlink(missing_ok=True)
        draft.symlink_to(path.name)
        draft.replace(root / "latest")


def attempt_file(name: str, attempt: int) -> str:
    """`server.log` of the first attempt, `server-2.log` of the second."""
    stem, dot, ending = name.rpartition(".")
    return name if attempt <= 1 else f"{stem}-{attempt}{dot}{ending}"
