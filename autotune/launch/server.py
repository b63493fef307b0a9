"""One server process with everything it starts: started under a guard, watched, ended, and proved to be gone."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from autotune.domain.trial import LaunchCommand
from autotune.errors import ServerDied, ServerLeftovers, ServingEnvironmentError, StudyStopped
from autotune.launch import orphans
from autotune.launch.devices import gpu_holders, gpu_memory_used
from autotune.launch.guard import KILL_PATIENCE_S, SETTLE_S, ProcessEntry, descendants, process_table
from autotune.launch.link import GuardLink
from autotune.launch.oom import oom_kills

DEFAULT_GRACE_S = 15.0
_START_PATIENCE_S = 30.0
_GPU_PATIENCE_S = 15.0
_GPU_SLACK_BYTES = 256 * 2**20
_GPU_POLL_S = 0.1
_MARGIN_S = 10.0
_PARENT_LENGTH = 40


@dataclass(frozen=True)
class StopReport:
    """How a server ended. `leftovers` are names of processes that had outlived their server, or left its session,
    and were ended. `gpu_bytes_kept`: how much more GPU memory is in use than before the start, by anyone; None
    without a GPU."""

    seconds: float
    killed: bool
    exit_status: int | None
    leftovers: tuple[str, ...] = ()
    gpu_bytes_kept: int | None = None


class Server:
    """A started server; `start` makes it. Use it as a context manager, so that no way out leaves it running."""

    def __init__(
        self, command: LaunchCommand, link: GuardLink, *, log_path: Path, tmpdir: Path, gpu_bytes_before: int | None
    ) -> None:
        self.command = command
        self.log_path = log_path
        self.tmpdir = tmpdir
        self.started_at = time.monotonic()
        self.pid = 0
        self._link = link
        self._gpu_bytes_before = gpu_bytes_before
        self._oom_kills_before = oom_kills()
        self._failure: str | None = None
        self._exit_status: int | None = None
        self._ended: dict[str, Any] | None = None
        self._known: set[tuple[int, int]] = set()
        self._report: StopReport | None = None
        self._remains: ServerLeftovers | None = None

    @property
    def guard_pid(self) -> int:
        return self._link.pid

    def exit_status(self) -> int | None:
        """None while it runs; negative for a signal."""
        self._listen(0.0)
        if self._exit_status is None and self._link.lost and not orphans.is_alive(self.pid):
            # Nobody is left who could tell. A guard takes its server along by SIGKILL, the parent-death signal.
            self._exit_status = -signal.SIGKILL
        return self._exit_status

    def killed_by_kernel(self) -> bool | None:
        """Whether the kernel's OOM killer has ended a process of this control group since the server was made (see
        `oom_kills`); None where the kernel does not say."""
        now = oom_kills()
        return None if now is None or self._oom_kills_before is None else now > self._oom_kills_before

    def log(self, limit: int = 4_000_000) -> str:
        """What it wrote so far. Of more than `limit` bytes the first quarter and the last three are kept."""
        with self.log_path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            if size <= limit:
                return file.read(size).decode(errors="replace")
            head = file.read(limit // 4)
            file.seek(size - (limit - len(head)))
            tail = file.read(limit - len(head))
        left_out = f"\n[... {size - limit} bytes left out ...]\n"
        return head.decode(errors="replace") + left_out + tail.decode(errors="replace")

    def descendants(self) -> list[tuple[int, str]]:
        """Living processes of this server, itself first, wherever they hung themselves: (pid, name)."""
        return [(entry.pid, entry.name) for entry in self._tree()]

    def stop(self, *, grace_s: float) -> StopReport:
        """TERM to the server, up to `grace_s` seconds of patience, then KILL to it and to all it started.

        Returns when all of them are gone and their GPU memory is free; `tmpdir` is removed. A second call returns
        the same report; one made after the first was interrupted goes on where that stood, with the shorter grace.
        Raises ServerLeftovers if something cannot be ended.
        """
        if self._report is None:
            self._report = self._stop(grace_s)
        if self._remains is not None:
            raise self._remains
        return self._report

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop(grace_s=DEFAULT_GRACE_S)

    def _begin(self) -> None:
        self._link.send(
            {
                "argv": list(self.command.argv),
                "environment": dict(self.command.environment),
                "tmpdir": str(self.tmpdir),
                "tuner": os.getpid(),
            }
        )
        self._listen(_START_PATIENCE_S)
        if self._failure is not None:
            raise ServerDied(
                f"the server could not be started: {self._failure}",
                exit_status=None,
                hint=f"check that {self.command.argv[0]} exists and is executable",
            )
        if not self.pid:
            raise ServerDied(
                f"the guard of the server said nothing for {_START_PATIENCE_S:g} s, or ended at once",
                exit_status=None,
                hint=f"see {self.log_path}",
            )

    def _abort(self) -> None:
        self._link.close()
        shutil.rmtree(self.tmpdir, ignore_errors=True)

    def _listen(self, timeout_s: float) -> None:
        for message in self._link.receive(timeout_s):
            if "started" in message:
                self.pid = int(message["started"])
            self._failure = message.get("failed", self._failure)
            self._exit_status = message.get("exited", self._exit_status)
            self._ended = message.get("stopped", self._ended)

    def _tree(self) -> list[ProcessEntry]:
        if self._report is not None:
            return []
        if self._link.lost:
            found = orphans.find(self.pid, self.tmpdir, self._known)
        else:
            found = descendants(self._link.pid, process_table())
        self._known |= {(entry.pid, entry.started) for entry in found}
        return found

    def _stop(self, grace_s: float) -> StopReport:
        began = time.monotonic()
        self._tree()
        self._link.send({"stop": grace_s})
        deadline = began + grace_s + SETTLE_S + KILL_PATIENCE_S + _MARGIN_S
        while self._ended is None and not self._link.lost and time.monotonic() < deadline:
            self._listen(1.0)
        self._link.close()
        if self._ended is None:
            ended, remaining = orphans.end(self.pid, self.tmpdir, self._known, KILL_PATIENCE_S)
            self.exit_status()
            killed, leftovers = True, sorted(ended.items())
            left = [(entry.pid, entry.name) for entry in remaining]
        else:
            killed = bool(self._ended["killed"])
            leftovers, left = self._ended["leftovers"], self._ended["remaining"]
        kept, holders = self._wait_for_gpu()
        shutil.rmtree(self.tmpdir, ignore_errors=True)
        self._remains = _remains([*left, *((pid, "holds GPU memory") for pid in holders)])
        seconds = time.monotonic() - began
        return StopReport(seconds, killed, self._exit_status, tuple(_show(leftovers)), kept)

    def _wait_for_gpu(self) -> tuple[int | None, list[int]]:
        """Bytes kept and which of the server's processes hold them, after the driver had time to take them back."""
        if self._gpu_bytes_before is None:
            return None, []
        deadline = time.monotonic() + _GPU_PATIENCE_S
        while True:
            used = gpu_memory_used(self.command.environment)
            kept = None if used is None else max(0, used - self._gpu_bytes_before)
            if kept is None or kept <= _GPU_SLACK_BYTES:
                return kept, []
            if time.monotonic() > deadline:
                # Others may have taken what is missing: only a process of this server makes it a leftover.
                return kept, sorted(gpu_holders() & {pid for pid, _ in self._known})
            time.sleep(_GPU_POLL_S)


def start(command: LaunchCommand, *, log_path: Path, tmpdir: Path) -> Server:
    """Starts `command` with exactly its environment; stdout and stderr go to a new file at `log_path`.

    `tmpdir` (see `short_tmpdir`) belongs to this server and is removed with it: it must be new or empty.
    Raises ServerDied if the program cannot be started, StudyStopped if the log or `tmpdir` cannot be written.
    """
    if sys.platform != "linux":
        raise ServingEnvironmentError(
            f"servers can be started on Linux only, and this is {sys.platform}", hint="run autotune on the node itself"
        )
    if tmpdir.exists() and any(tmpdir.iterdir()):
        raise ValueError(f"the TMPDIR of a server must be new or empty: {tmpdir}")
    gpu_bytes_before = gpu_memory_used(command.environment)
    try:
        tmpdir.mkdir(parents=True, exist_ok=True)
        log_path.parent.mkdir(parents=True, exist_ok=True)
        with log_path.open("wb") as log:
            link = GuardLink(log)
    except OSError as error:
        raise StudyStopped(
            f"cannot write what a server needs: {error}", hint="free some space, or choose another run folder"
        ) from error
    server = Server(command, link, log_path=log_path, tmpdir=tmpdir, gpu_bytes_before=gpu_bytes_before)
    try:
        server._begin()
    except BaseException:
        server._abort()
        raise
    return server


def short_tmpdir() -> Path:
    """A new private folder. Servers put Unix sockets below TMPDIR, whose whole paths are bounded to 107 bytes."""
    parent = Path(tempfile.gettempdir())
    return Path(tempfile.mkdtemp(prefix="at-", dir=parent if len(str(parent)) <= _PARENT_LENGTH else "/tmp"))


def _remains(left: Sequence[tuple[int, str]]) -> ServerLeftovers | None:
    if not left:
        return None
    return ServerLeftovers(
        f"still there after stopping the server: {', '.join(_show(left))}",
        hint="look at them with ps, and end them before the next run; nvidia-smi shows who holds GPU memory",
    )


def _show(processes: Sequence[tuple[int, str]]) -> list[str]:
    return [f"{name} ({pid})" for pid, name in processes]
