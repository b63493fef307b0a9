"""Writing that survives a kill: a file is there whole or not at all. Errors of the disk stop the study, safely."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from autotune.errors import StudyStopped


def write_whole(path: Path, data: bytes) -> None:
    """Under a temporary name beside it, flushed to the disk, then renamed. Raises OSError."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise


@contextmanager
def stopping_the_study(path: Path, what_is_safe: Callable[[], str]) -> Iterator[None]:
    """Turns an OSError into StudyStopped that names the path, what is safe so far, and what to do."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            hint = "free some space on that disk, then go on with --resume"
        else:
            hint = "make that folder writable for this user, then go on with --resume"
        reason = error.strerror or str(error)
        raise StudyStopped(f"{path} must be writable, but got: {reason}; {what_is_safe()}", hint=hint) from error
