"""Whose processes and memory are on the GPUs of a launch: before it, while it serves, and after it."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import psutil

from autotune.launch.nvml import Device, Nvml, memory_info, memory_used

GIB = 2**30
FREE_BELOW_GIB = 1.0
"""An idle data-centre GPU has a few MiB in use, one with a desktop some hundred."""

BEARABLE_SHARE = 0.1
"""Memory that nobody can be named for: beyond this share a server that sizes its cache by the card runs out."""


@dataclass(frozen=True)
class GpuProcess:
    """A process with a compute context. `name` and `user` are empty where they cannot be looked up: it is gone, or
    it lives in another namespace than this one."""

    pid: int
    gpu: int
    memory_gib: float | None = None
    name: str = ""
    user: str = ""

    def __str__(self) -> str:
        who = " ".join(part for part in (self.name, f"of {self.user}" if self.user else "") if part)
        held = "" if self.memory_gib is None else f", {self.memory_gib:.1f} GiB"
        return f"GPU {self.gpu}: pid {self.pid}{f' ({who})' if who else ''}{held}"


@dataclass(frozen=True)
class Occupancy:
    """GPUs by number. `processes` None: the driver does not list them here. Of a GPU that does not tell its memory
    nothing is in the mappings."""

    processes: tuple[GpuProcess, ...] | None
    used_gib: Mapping[int, float]
    total_gib: Mapping[int, float]

    @property
    def filled(self) -> dict[int, float]:
        """GiB in use on the GPUs where that is too much to be called free."""
        return {gpu: used for gpu, used in self.used_gib.items() if used > FREE_BELOW_GIB}

    @property
    def free(self) -> bool:
        return not self.processes and not self.filled

    @property
    def reason(self) -> str:
        """Why a server must not be started here; empty if it may be."""
        if self.processes:
            return "; ".join(str(process) for process in self.processes)
        crowded = [gpu for gpu, used in self.filled.items() if used > BEARABLE_SHARE * self.total_gib[gpu]]
        return "; ".join(f"GPU {gpu}: {self.amount(gpu)}, and no process that could be named" for gpu in crowded)

    def amount(self, gpu: int) -> str:
        return f"{self.used_gib[gpu]:.1f} of {self.total_gib[gpu]:.0f} GiB in use"


def occupancy(nvml: Nvml, devices: Collection[Device]) -> Occupancy:
    """Compute processes of others than this program, and the memory in use."""
    listed = [strangers(nvml, device, lambda pid: pid == os.getpid()) for device in devices]
    known = [processes for processes in listed if processes is not None]
    used: dict[int, float] = {}
    total: dict[int, float] = {}
    for device in devices:
        info = memory_info(nvml, device.part)
        if info is not None:
            used[device.index], total[device.index] = info.used / GIB, info.total / GIB
    return Occupancy(tuple(p for processes in known for p in processes) if known else None, used, total)


def listed_pids(nvml: Nvml, devices: Collection[Device]) -> frozenset[int]:
    """All that have a compute context on one of these, in the numbers that the driver uses."""
    running = [nvml.ask("nvmlDeviceGetComputeRunningProcesses", device.part) for device in devices]
    return frozenset(process.pid for processes in running for process in processes or ())


def strangers(nvml: Nvml, device: Device, is_ours: Callable[[int], bool]) -> list[GpuProcess] | None:
    """Processes with a compute context that are not ours; None if the driver does not list any here.

    A desktop's programs have one beside their graphics: they are passed over.
    """
    running = nvml.ask("nvmlDeviceGetComputeRunningProcesses", device.part)
    if running is None:
        return None
    others = [process for process in running if not is_ours(process.pid)]
    if not others:
        return []
    graphics = nvml.ask("nvmlDeviceGetGraphicsRunningProcesses", device.part) or ()
    drawing = {process.pid for process in graphics}
    return [
        GpuProcess(
            process.pid,
            device.index,
            None if process.usedGpuMemory is None else process.usedGpuMemory / GIB,
            *who(process.pid),
        )
        for process in others
        if process.pid not in drawing
    ]


def who(pid: int) -> tuple[str, str]:
    """Name and user of a process, each empty if it cannot be told."""
    try:
        process = psutil.Process(pid)
        return process.name(), process.username()
    except (psutil.Error, KeyError):
        return "", ""


class Owners:
    """Tells the trial's processes on its GPUs from others. Made when the server is ready and its GPUs were idle
    before; asked from the sampler's thread.

    `listed` are the numbers that the driver gives then, `own` looks up the server's own processes. Where the two
    have something in common, a number means the same in both. Where they have not, the driver counts in another
    namespace (a container), and what it listed at that time is ours. Where it lists nothing, nobody can be told.
    """

    def __init__(self, listed: Collection[int], own: Callable[[], Collection[int]]) -> None:
        now = frozenset(own())
        self.hidden = not listed
        self.comparable = bool(now.intersection(listed))
        self._own = own
        self._ours = now if self.comparable else frozenset(listed)
        self._others: set[int] = set()

    def is_ours(self, pid: int) -> bool:
        if pid in self._ours:
            return True
        if pid in self._others:
            return False
        if self.comparable:
            self._ours |= frozenset(self._own())  # a process that the server started since
            if pid in self._ours or not psutil.pid_exists(pid):  # gone before it could be looked at: let it pass
                return True
        self._others.add(pid)
        return False

    def still_listed(self, nvml: Nvml, devices: Collection[Device]) -> list[int]:
        """Of the trial's own processes, those that the driver still lists."""
        return sorted(self._ours & listed_pids(nvml, devices))


def kept_gib(nvml: Nvml, devices: Collection[Device], before_gib: Mapping[int, float]) -> dict[int, float]:
    """How much more each GPU has in use than before; GPUs that do not tell are left out."""
    used = {device.index: memory_used(nvml, device) for device in devices}
    return {gpu: now / GIB - before_gib[gpu] for gpu, now in used.items() if now is not None and gpu in before_gib}
