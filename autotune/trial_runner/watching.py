"""What is watched beside the client while a level runs: the server's life and log, and the node's other processes."""

from __future__ import annotations

from autotune.domain.engine import Engine
from autotune.domain.finding import ServerWindow
from autotune.domain.measurement import LevelRun
from autotune.launch import Server
from autotune.launch.cpu_watch import CpuWatch
from autotune.launch.log_marks import LogMarks


class PassageWatch:
    """One passage of a level, from its making to `seen`. `alive` is the load client's question, twice a second."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._marks = LogMarks(server.log_path)
        self._cpu = CpuWatch()
        self._others: tuple[tuple[str, float], ...] = ()
        self._marks.mark()

    def alive(self) -> str | None:
        self._marks.mark()
        status = self._server.exit_status()
        return None if status is None else f"the server ended with status {status} under load"

    def finish(self) -> None:
        self._marks.mark()
        own = (self._server.guard_pid, *(pid for pid, _name in self._server.descendants()))
        self._others = self._cpu.others(own)

    @property
    def others(self) -> tuple[tuple[str, float], ...]:
        """Processes that are not the trial's, and the cores that each used over the passage."""
        return self._others

    def server_window(self, engine: Engine, run: LevelRun, *, began_s: float, rate: float) -> ServerWindow | None:
        """`began_s`: when the level began, on the monotonic clock, which `rate` node seconds go to the second of."""
        if run.window is None:
            return None
        start_s, end_s = (began_s + node_s / rate for node_s in run.window)
        return engine.server_window(self._marks.text(start_s, end_s))
