"""Runs a short program to its end, in a session of its own; nothing of it is left, whatever it started."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass


@dataclass(frozen=True)
class Said:
    """`status` as of subprocess.Popen.returncode."""

    stdout: str
    stderr: str
    status: int


def run_to_end(argv: Sequence[str], environment: Mapping[str, str], *, timeout_s: float) -> Said:
    """It gets no stdin. Raises OSError if it cannot be started, subprocess.TimeoutExpired if it is not done in time."""
    child = subprocess.Popen(
        list(argv),
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    with child:
        try:
            stdout, stderr = child.communicate(timeout=timeout_s)
        finally:
            with suppress(ProcessLookupError):  # the whole group: what a program started could hold the pipes open
                os.killpg(child.pid, signal.SIGKILL)
    return Said(stdout.decode(errors="replace"), stderr.decode(errors="replace"), child.returncode)
