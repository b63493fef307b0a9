"""What the kernel says of its OOM killer. A SIGKILL does not tell who sent it; the kernel counts its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

_COUNTER = "oom_kill"


def oom_kills(root: Path = Path("/")) -> int | None:
    """How many processes of this process's control group the kernel's OOM killer has ended since the group exists;
    where there is no memory control group, how many of this machine. None where the kernel does not say.

    Children stay in the group they were started in: a server's are counted with the tuner's. `root`: where /proc and
    /sys are. Source: cgroup-v2.rst (memory.events), cgroup-v1/memory.rst (memory.oom_control), /proc/vmstat.
    """
    for path in _counters(root):
        try:
            count = counted(path.read_text())
        except OSError:  # not there, or not for us
            continue
        if count is not None:
            return count
    return None


def counted(text: str) -> int | None:
    """The counter in `name value` lines; None if there is none (kernels before 4.13)."""
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == _COUNTER and value.strip().isdecimal():
            return int(value)
    return None


def group_paths(text: str) -> tuple[str | None, str | None]:
    """From /proc/self/cgroup: the path of the version 1 memory group and of the version 2 group; None for neither."""
    memory, unified = None, None
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if "memory" in controllers.split(","):
            memory = path
        elif number == "0" and not controllers:
            unified = path
    return memory, unified


def _counters(root: Path) -> Iterator[Path]:
    """The most particular first. A container may show its own group as the root, under a path that is the host's."""
    try:
        memory, unified = group_paths((root / "proc/self/cgroup").read_text())
    except OSError:
        memory, unified = None, None
    mount = root / "sys/fs/cgroup"
    if memory is not None:
        yield mount / "memory" / memory.lstrip("/") / "memory.oom_control"
        yield mount / "memory" / "memory.oom_control"
    if unified is not None:
        yield mount / unified.lstrip("/") / "memory.events"
        yield mount / "memory.events"
    yield root / "proc/vmstat"
