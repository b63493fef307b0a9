"""The tuner's end of the two pipes to a guard: JSON lines, no thread."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from autotune.launch import guard

_EXIT_PATIENCE_S = guard.ORPHAN_GRACE_S + guard.SETTLE_S + guard.KILL_PATIENCE_S + 5.0


class GuardLink:
    """One running guard. `lost` is True once it has closed its end: it has ended, in whatever way."""

    def __init__(self, log: IO[bytes]) -> None:
        # Its own session: a Ctrl-C typed at the terminal reaches the tuner only. The order goes over the pipe, as
        # a command line and an environment can be read by every user of the machine.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-X", "utf8", str(Path(guard.__file__).resolve())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env={name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ},
            start_new_session=True,
            bufsize=0,
        )
        self._received = b""
        self.lost = False

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, message: Mapping[str, Any]) -> None:
        """Nothing happens if the guard is gone; `receive` will tell."""
        if self._process.stdin is None or self._process.stdin.closed:
            return
        rest = memoryview(json.dumps(message).encode() + b"\n")
        with contextlib.suppress(BrokenPipeError):
            while rest:
                rest = rest[self._process.stdin.write(rest) :]

    def receive(self, timeout_s: float) -> list[dict[str, Any]]:
        """What the guard has said since the last call; waits up to `timeout_s` for a first word."""
        if self.lost or self._process.stdout is None:
            return []
        descriptor = self._process.stdout.fileno()
        while select.select([descriptor], [], [], timeout_s)[0]:
            timeout_s = 0.0
            chunk = os.read(descriptor, 1 << 16)
            if not chunk:
                self.lost = True
                break
            self._received += chunk
        *lines, self._received = self._received.split(b"\n")
        return [json.loads(line) for line in lines]

    def close(self) -> None:
        """Closes the pipes, which ends a guard that still runs, and takes its exit status."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self.lost = True
        try:
            self._process.wait(_EXIT_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
