"""Ending a server whose guard was killed: the tuner has to find its processes without a tree to walk."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Collection, Iterable
from pathlib import Path

from autotune.launch.guard import ProcessEntry, descendants, process_table, send_signal

_POLL_S = 0.02


def find(session: int, tmpdir: Path, known: Collection[tuple[int, int]]) -> list[ProcessEntry]:
    """Living processes of the server's session, those seen before (pid, started), those that have its TMPDIR in
    their environment, and everything below any of them."""
    table = process_table()
    marker = f"TMPDIR={tmpdir}".encode()
    roots = [
        entry
        for entry in table
        if entry.session == session or (entry.pid, entry.started) in known or marker in _environment(entry.pid)
    ]
    found = {entry.pid: entry for root in roots for entry in (root, *descendants(root.pid, table))}
    found.pop(os.getpid(), None)
    return [entry for entry in found.values() if entry.alive]


def end(
    session: int, tmpdir: Path, known: Collection[tuple[int, int]], patience_s: float
) -> tuple[dict[int, str], list[ProcessEntry]]:
    """KILL until nothing is found. Returns what was found (pid: name) and what remains after `patience_s`."""
    deadline = time.monotonic() + patience_s
    ended: dict[int, str] = {}
    while (left := find(session, tmpdir, known)) and time.monotonic() < deadline:
        for entry in left:
            ended[entry.pid] = entry.name
            send_signal(entry.pid, signal.SIGKILL)
        time.sleep(_POLL_S)
    return ended, left


def is_alive(pid: int) -> bool:
    return any(entry.alive for entry in process_table() if entry.pid == pid)


def _environment(pid: int) -> Iterable[bytes]:
    with contextlib.suppress(OSError):
        return Path("/proc", str(pid), "environ").read_bytes().split(b"\0")
    return ()
