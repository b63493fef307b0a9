"""The guard: a small program between the tuner and one server. Standard library only; it runs with -I -S.

A tuner can be killed at any moment, and a killed process cleans nothing up. So a guard starts the server, and ends it
and everything that it started as soon as the tuner is gone, however it went.

    tuner --stdin (JSON lines)--> guard --fork--> server (own session, own process group) --> its children
          <-stdout (JSON lines)--

- The guard is a child subreaper: a descendant that leaves the group or loses its parent becomes the guard's child and
  stays in its tree.
- The server's leader has SIGKILL as its parent-death signal, for the case that the guard itself is killed.
- End of file on stdin, the end of the tuner's process, or SIGTERM to the guard: the tuner is gone.
- The server's output goes to the guard's own stderr, which is the trial's log.

To the guard:   {"argv", "environment", "tmpdir", "tuner"} once, then {"stop": grace in seconds}, again to hurry.
From the guard: {"started": pid} or {"failed": reason}; {"exited": status}; {"stopped": {killed, leftovers, remaining}}.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

ORPHAN_GRACE_S = 2.0
"""What a server gets between TERM and KILL when nobody is left who could wait for it."""
SETTLE_S = 2.0
"""After the leader has ended, its children may still be on their way out (parent-death signals, closed pipes)."""
KILL_PATIENCE_S = 60.0
"""A killed process that held many gigabytes of GPU memory is in the driver for seconds before it is gone."""

FIRST_LOOK_S = 2.0
"""After this, twice this, ... it is noted which shared memory the server has."""

_PF_EXITING = 0x4
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


class ProcessEntry(NamedTuple):
    """One line of the process table. `started` (clock ticks since boot) with `pid` names a process for good.

    `alive` holds until the last thread has gone; `exiting` ones have no way back, and may take a while.
    """

    pid: int
    name: str
    alive: bool
    exiting: bool
    parent: int
    session: int
    started: int


def parse_stat(text: str) -> ProcessEntry:
    """Reads /proc/PID/stat. A zombie that still has threads is alive: they are giving memory back to a driver."""
    pid, name, fields = stat_fields(text)
    state, threads = fields[0], int(fields[17])
    alive = state not in "ZX" or threads > 1
    exiting = state in "ZX" or bool(int(fields[6]) & _PF_EXITING)
    return ProcessEntry(pid, name, alive, exiting, int(fields[1]), int(fields[3]), int(fields[19]))


def process_table() -> list[ProcessEntry]:
    """All processes of this machine that can be seen; those that end meanwhile are left out."""
    return [parse_stat(text) for text in stat_texts()]


def stat_texts() -> Iterator[str]:
    """/proc/PID/stat of every process."""
    for name in os.listdir("/proc"):  # noqa: PTH208 - a Path for each of thousands of entries costs more than the read
        if name.isdigit():
            with contextlib.suppress(OSError):
                yield Path("/proc", name, "stat").read_text(errors="replace")


def stat_fields(text: str) -> tuple[int, str, list[str]]:
    """Of /proc/PID/stat: the pid, the name, which may hold anything, and the fields from `state` on."""
    before, _, after = text.rpartition(")")
    pid, _, name = before.partition(" (")
    return int(pid), name, after.split()


def descendants(root: int, table: list[ProcessEntry]) -> list[ProcessEntry]:
    """Living processes below `root`, parents first; `root` itself is not among them."""
    children: dict[int, list[ProcessEntry]] = {}
    for entry in table:
        children.setdefault(entry.parent, []).append(entry)
    found: list[ProcessEntry] = []
    below = list(children.get(root, ()))
    while below:
        entry = below.pop(0)
        found.append(entry)
        below += children.get(entry.pid, ())
    return [entry for entry in found if entry.alive]


def send_signal(pid: int, number: int) -> None:
    """A process that is gone already, or has become another user's, is no error."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


class SharedMemory:
    """Files in /dev/shm that killed processes leave behind; when it is full, the next server dies of SIGBUS.

    A file is this server's if one of its processes had it mapped, it was not there before, and no one else maps it.
    """

    def __init__(self) -> None:
        self._before = self._files()
        self._ours: dict[str, int] = {}

    def note(self, pids: Iterable[int]) -> None:
        for pid in pids:
            mapped = self._mapped(pid)
            self._ours |= {path: inode for path, inode in mapped.items() if path not in self._before}

    def remove(self) -> None:
        if not self._ours:
            return
        held = {path for entry in process_table() for path in self._mapped(entry.pid)}
        for path, inode in self._ours.items():
            with contextlib.suppress(OSError):
                if path not in held and Path(path).stat().st_ino == inode:
                    Path(path).unlink()

    @staticmethod
    def _files() -> frozenset[str]:
        with contextlib.suppress(OSError):
            return frozenset(str(path) for path in Path("/dev/shm").iterdir())
        return frozenset()

    @staticmethod
    def _mapped(pid: int) -> dict[str, int]:
        """Path: inode, from /proc/PID/maps; what is unlinked already says `(deleted)` there, and never matches."""
        with contextlib.suppress(OSError):
            lines = Path("/proc", str(pid), "maps").read_text(errors="replace").splitlines()
            fields = (line.split(maxsplit=5) for line in lines if "/dev/shm/" in line)
            return {field[5]: int(field[4]) for field in fields if len(field) == 6 and field[5].startswith("/dev/shm/")}
        return {}


class Guard:
    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._input = b""
        self._input_open = True
        self._abandoned = False
        self._stop_at: float | None = None
        self._server: subprocess.Popen[bytes] | None = None
        self._status: int | None = None
        self._tuner_fd: int | None = None
        self._shared = SharedMemory()
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def run(self) -> None:
        self._prctl(_PR_SET_CHILD_SUBREAPER, 1)
        # Handlers and not SIG_IGN: what is ignored would stay ignored in the server.
        for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: None)
        signal.signal(signal.SIGTERM, self._on_terminate)
        signal.set_wakeup_fd(self._wake_write)
        order = self._first_order()
        if order is None:
            return
        self._watch_tuner(order["tuner"])
        try:
            if self._start(order):
                self._watch()
                self._end()
        finally:
            self._shared.remove()
            if self._abandoned:
                shutil.rmtree(order["tmpdir"], ignore_errors=True)

    def _start(self, order: Mapping[str, Any]) -> bool:
        guard = os.getpid()

        def in_child() -> None:
            self._prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != guard:  # it was killed before the line above
                os._exit(1)

        try:
            self._server = subprocess.Popen(
                order["argv"],
                env=order["environment"],
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr.fileno(),
                stderr=sys.stderr.fileno(),
                start_new_session=True,
                preexec_fn=in_child,  # safe: the guard has one thread
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            self._tell({"failed": str(error)})
            return False
        self._tell({"started": self._server.pid})
        return True

    def _watch(self) -> None:
        """Until it is time to stop. Looks at the shared memory now and then, more and more rarely: what a server maps
        it maps while it starts, and a measurement wants no company."""
        pause = FIRST_LOOK_S
        look_at = time.monotonic() + pause
        while self._stop_at is None:
            running = self._status is None
            self._wait(max(0.0, look_at - time.monotonic()) if running else None)
            if time.monotonic() >= look_at or (running and self._status is not None):
                self._note_shared()
                pause *= 2
                look_at = time.monotonic() + pause

    def _note_shared(self) -> None:
        self._shared.note(entry.pid for entry in descendants(os.getpid(), process_table()))

    def _end(self) -> None:
        """TERM, wait, KILL, and wait again until the tree below the guard is empty."""
        server = self._leader()
        self._note_shared()
        if self._status is None:
            if self._abandoned:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(server, signal.SIGTERM)
            else:
                # Only the leader: a server whose workers are ended before it takes that for a crash.
                send_signal(server, signal.SIGTERM)
        while self._status is None and (left := self._stop_due()) > 0:
            self._wait(left)
        killed = self._status is None
        if killed:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server, signal.SIGKILL)
        else:
            self._until_empty(SETTLE_S)
        leftovers: dict[int, str] = {}

        def kill() -> None:
            for entry in descendants(os.getpid(), process_table()):
                if not entry.exiting and not (killed and entry.session == server):
                    leftovers[entry.pid] = entry.name
                send_signal(entry.pid, signal.SIGKILL)

        remaining = self._until_empty(KILL_PATIENCE_S, kill)
        self._reap()
        self._tell(
            {
                "stopped": {
                    "killed": killed,
                    "leftovers": sorted(leftovers.items()),
                    "remaining": [(entry.pid, entry.name) for entry in remaining],
                }
            }
        )

    def _until_empty(self, patience_s: float, act: Callable[[], None] | None = None) -> list[ProcessEntry]:
        """What is still below the guard after at most `patience_s`; `act` is repeated, as new ones may be forked."""
        deadline = time.monotonic() + patience_s
        pause = 0.005
        while True:
            left = descendants(os.getpid(), process_table())
            if not left or time.monotonic() > deadline:
                return left
            if act is not None:
                act()
            self._wait(pause)
            pause = min(2 * pause, 0.1)

    def _wait(self, timeout_s: float | None) -> None:
        """Sleeps until a child ends, the tuner speaks or goes, or the time is over; takes note of what happened."""
        watched = [self._wake_read]
        if self._input_open:
            watched.append(sys.stdin.fileno())
        if self._tuner_fd is not None and not self._abandoned:
            watched.append(self._tuner_fd)
        readable, _, _ = select.select(watched, [], [], timeout_s)
        if self._wake_read in readable:
            with contextlib.suppress(BlockingIOError):
                os.read(self._wake_read, 4096)
        if self._tuner_fd in readable:
            self._abandon()
        if sys.stdin.fileno() in readable:
            for message in self._read():
                self._stop_within(float(message["stop"]))
        self._reap()

    def _reap(self) -> None:
        """Takes the exit status of every child that has ended: the server, and orphans that came to the guard."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if self._server is not None and pid == self._server.pid:
                self._status = self._server.returncode = os.waitstatus_to_exitcode(status)
                self._tell({"exited": self._status})

    def _first_order(self) -> dict[str, Any] | None:
        """None if the tuner was gone before it had said what to start."""
        while self._input_open:
            messages = self._read()
            if messages:
                return messages[0]
        return None

    def _read(self) -> list[dict[str, Any]]:
        chunk = os.read(sys.stdin.fileno(), 1 << 16)
        if not chunk:
            self._input_open = False
            self._abandon()
        *lines, self._input = (self._input + chunk).split(b"\n")
        return [json.loads(line) for line in lines]

    def _watch_tuner(self, tuner: int) -> None:
        """The end of the process counts too: a forked child of the tuner would hold the pipe open."""
        if os.getppid() != tuner:
            self._abandon()
            return
        with contextlib.suppress(OSError):  # a kernel or a sandbox without pidfd: the pipe has to do
            self._tuner_fd = os.pidfd_open(tuner)

    def _on_terminate(self, *_: object) -> None:
        self._abandon()

    def _abandon(self) -> None:
        self._abandoned = True
        self._stop_within(ORPHAN_GRACE_S)

    def _stop_within(self, grace_s: float) -> None:
        due = time.monotonic() + grace_s
        self._stop_at = due if self._stop_at is None else min(self._stop_at, due)

    def _stop_due(self) -> float:
        return (self._stop_at or 0.0) - time.monotonic()

    def _leader(self) -> int:
        if self._server is None:
            raise RuntimeError("there is no server to end")
        return self._server.pid

    def _prctl(self, option: int, value: int) -> None:
        if self._libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), f"prctl({option}) was refused")

    def _tell(self, message: Mapping[str, Any]) -> None:
        with contextlib.suppress(BrokenPipeError):
            os.write(sys.stdout.fileno(), json.dumps(message).encode() + b"\n")


if __name__ == "__main__":
    Guard().run()
