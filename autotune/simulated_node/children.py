"""The node's own processes: a scheduler that dies with its parent, and, as a fault, one that does not."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from typing import NoReturn

from autotune.simulated_node.logs import log, scheduler_traceback

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
ORPHAN_LIFE_S = 600.0
"""Wall seconds: even a fault leaves a machine alone in the end."""


def start_scheduler() -> int:
    """Forks an idle child, as SGLang has one scheduler for each GPU; returns its pid. Call before the event loop."""
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    libc.prctl(PR_SET_NAME, b"simulated::sche", 0, 0, 0)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if os.getppid() != parent:  # the parent was gone before its death could be signalled
        os._exit(1)
    while True:
        signal.pause()


def start_orphan() -> None:
    """Forks a child that ignores SIGTERM and outlives its parent, with nothing of the parent's open."""
    if os.fork():
        return
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    time.sleep(ORPHAN_LIFE_S)
    os._exit(0)


def stop_child(pid: int) -> None:
    """Kills and reaps; a child that is gone already is fine."""
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    except (ProcessLookupError, ChildProcessError):
        return


def die_of(error: str, child: int, *, serving: bool) -> NoReturn:
    """A scheduler's exception: its traceback, SIGQUIT to the parent, and the parent kills the tree and itself."""
    log(scheduler_traceback(error), "TP0")
    if serving:
        log("SIGQUIT received. signum=None, frame=None. It usually means one child failed.")
    else:
        log("Received sigquit from a child process. It usually means the child failed.")
    stop_child(child)
    os.kill(os.getpid(), signal.SIGKILL)
    raise SystemExit(137)  # not reached: the signal above cannot be caught
