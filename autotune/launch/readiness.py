"""Ready means: the log says so, the health check says so, and it is this trial's server that says so."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from autotune.errors import ServerDied, ServerStuck, WrongServer
from autotune.launch.control import Control
from autotune.launch.progress import Activity, Progress, activity_of
from autotune.launch.server import Server

LEAST_PATIENCE_S = 20.0
"""Wall seconds. A simulated node's clock may run a hundred times faster; its interpreter's imports do not."""
_POLL_S = 0.05
_LOOK_S = 0.5
_HEALTH_TIMEOUT_S = 30.0  # a health check may put a request through the model and wait 20 s for it
_MESSAGE_WIDTH = 300


@dataclass(frozen=True)
class Readiness:
    """How a server shows that it is ready: a substring of its log, two paths, and the name it must answer to.

    `served_names` reads the names from the answer of `identity`; empty if it cannot be read.
    """

    ready_line: str
    health: str
    identity: str
    served_name: str
    served_names: Callable[[str], tuple[str, ...]]


class LineWatch:
    """Follows a growing log for a substring."""

    def __init__(self, path: Path, wanted: str) -> None:
        self._path = path
        self._wanted = wanted.encode()
        self._tail = b""
        self.bytes_read = 0
        self.found = False

    def look(self) -> None:
        with self._path.open("rb") as file:
            file.seek(self.bytes_read)
            self.feed(file.read())

    def feed(self, chunk: bytes) -> None:
        self.bytes_read += len(chunk)
        text = self._tail + chunk
        self.found = self.found or self._wanted in text
        self._tail = text[-len(self._wanted) :]


def wall_limit(node_seconds: float, clock_rate: float) -> float:
    """Node seconds as seconds of the wall clock; where the two differ, never less than LEAST_PATIENCE_S."""
    return node_seconds if clock_rate == 1.0 else max(LEAST_PATIENCE_S, node_seconds / clock_rate)


def await_ready(
    server: Server,
    control: Control,
    readiness: Readiness,
    *,
    silence_s: float,
    start_s: float,
    clock_rate: float = 1.0,
    on_phase: Callable[[str], None] | None = None,
) -> float:
    """Seconds on the node's clock from the start of `server` until it was ready.

    `silence_s`, `start_s`: node seconds without any progress (log, CPU time, disk, files, processes), and in all.
    `on_phase` hears "loading", "answering" (the log says ready, the checks follow) and "ready".
    Raises ServerDied, ServerStuck, or WrongServer if another name answers once the log has said ready.
    """
    wait = _Wait(server, wall_limit(silence_s, clock_rate), wall_limit(start_s, clock_rate))
    say = on_phase or (lambda _: None)
    say("loading")
    watch = LineWatch(server.log_path, readiness.ready_line)
    while not watch.found:
        watch.look()
        if not watch.found:
            wait.pause(watch.bytes_read)
    # No request before that line: its answer could only be another server's, and the access log would look like
    # progress. For the same reason the log no longer counts from here on.
    say("answering")
    wait.stop_counting(f"the log said {readiness.ready_line!r}, but {readiness.health} never answered 200")
    while control.get(readiness.health, timeout_s=wait.at_most(_HEALTH_TIMEOUT_S)).status != 200:
        wait.pause()
    wait.stop_counting(f"{readiness.identity} never named a model")
    while not (names := _names(control, readiness)):
        wait.pause()
    if readiness.served_name not in names:
        raise WrongServer(
            f"the port answers as {', '.join(names)} and not as {readiness.served_name}",
            hint="another server is on that port; it is not one of this trial",
        )
    wait.check_alive()
    say("ready")
    return (time.monotonic() - server.started_at) * clock_rate


def _names(control: Control, readiness: Readiness) -> tuple[str, ...]:
    reply = control.get(readiness.identity)
    return readiness.served_names(reply.text) if reply.status == 200 else ()


class _Wait:
    """The patience of one start, in wall seconds."""

    def __init__(self, server: Server, silence_s: float, start_s: float) -> None:
        self._server = server
        self._silence_s = silence_s
        self._start_s = start_s
        self._counting = True
        self._what = "no new log line, CPU time, disk traffic, file or process"
        self._progress = Progress(time.monotonic(), self._activity(0))
        self._looked_at = time.monotonic()

    def pause(self, log_bytes: int = 0) -> None:
        """A short wait; raises if the server has ended or patience has."""
        self.check_alive()
        now = time.monotonic()
        if self._counting and now - self._looked_at >= min(_LOOK_S, self._silence_s / 4):
            self._looked_at = now
            self._progress.observe(now, self._activity(log_bytes))
        if self._progress.silent_s(now) > self._silence_s:
            raise self._stuck(f"{self._what} for {self._silence_s:g} s")
        if now - self._server.started_at > self._start_s:
            raise self._stuck(f"not ready {self._start_s:g} s after its start")
        time.sleep(_POLL_S)

    def stop_counting(self, what: str) -> None:
        """From now on the server has `silence_s` for what comes next, whatever it does meanwhile."""
        self._counting = False
        self._what = what
        self._progress = Progress(time.monotonic(), self._activity(0))

    def at_most(self, timeout_s: float) -> float:
        return max(0.1, min(timeout_s, self._silence_s))

    def check_alive(self) -> None:
        status = self._server.exit_status()
        if status is None:
            return
        after = time.monotonic() - self._server.started_at
        raise ServerDied(
            f"the server ended before it was ready, {after:.1f} s after its start: {show_status(status)}; "
            f"its last line: {self._last_line()}",
            exit_status=status,
            hint=f"see {self._server.log_path}",
        )

    def _activity(self, log_bytes: int) -> Activity:
        pids = [pid for pid, _ in self._server.descendants()]
        return activity_of(self._server.guard_pid, pids, log_bytes=log_bytes, tmpdir=self._server.tmpdir)

    def _stuck(self, why: str) -> ServerStuck:
        return ServerStuck(
            f"the server is stuck while starting: {why}; its last line: {self._last_line()}",
            hint=f"see {self._server.log_path}; a slow but healthy start wants larger limits",
        )

    def _last_line(self) -> str:
        lines = self._server.log(limit=20_000).split("\n")
        return next((line.strip()[:_MESSAGE_WIDTH] for line in reversed(lines) if line.strip()), "(nothing)")


def show_status(status: int) -> str:
    """`exit status 2`, `killed by SIGKILL`."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"
