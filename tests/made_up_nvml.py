"""A driver made up for tests: stands in for the module pynvml, with GPUs that a test describes and changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

GIB = 2**30


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(f"error {value}")
        self.value = value


NOT_SUPPORTED, NO_PERMISSION, LIBRARY_NOT_FOUND, GPU_IS_LOST, RESET_REQUIRED = 3, 4, 12, 15, 16


@dataclass(eq=False)
class MadeUpGpu:
    """`compute` and `graphics`: GiB (None: not told) by pid. `refuses`: an error's number by function."""

    uuid: str = "GPU-1aa"
    name: str = "NVIDIA H200"
    power_mw: int = 400_000
    sm_mhz: int = 1980
    memory_mhz: int = 3201
    temperature: int = 55
    reasons: int = 0
    busy: int = 97
    used_gib: float = 0.004
    total_gib: float = 140.0
    compute: dict[int, float | None] = field(default_factory=dict)
    graphics: dict[int, float | None] = field(default_factory=dict)
    refuses: dict[str, int] = field(default_factory=dict)
    slices: dict[str, MadeUpGpu] = field(default_factory=dict)  # by UUID: the GPU is in MIG mode


class MadeUpNvml:
    """`before_call` is told each function's name. `uses` counts how often it is open just now."""

    NVMLError = NVMLError
    NVML_ERROR_GPU_IS_LOST = GPU_IS_LOST
    NVML_ERROR_RESET_REQUIRED = RESET_REQUIRED
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0
    NVML_NVLINK_MAX_LINKS, NVML_FEATURE_ENABLED = 18, 1
    nvmlMemory_v2 = 33554472

    def __init__(self, *gpus: MadeUpGpu, init_error: int | None = None) -> None:
        self.gpus = list(gpus)
        self.init_error = init_error
        self.uses = 0
        self.before_call: Callable[[str], None] = lambda _function: None

    def nvmlInit(self) -> None:
        if self.init_error is not None:
            raise NVMLError(self.init_error)
        self.uses += 1

    def nvmlShutdown(self) -> None:
        self.uses -= 1

    def nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> MadeUpGpu:
        return self._of(self.gpus[index], "nvmlDeviceGetHandleByIndex")

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> MadeUpGpu:
        known = {gpu.uuid: gpu for gpu in self.gpus} | {u: part for gpu in self.gpus for u, part in gpu.slices.items()}
        if uuid not in known:
            raise NVMLError(NOT_SUPPORTED)
        return self._of(known[uuid], "nvmlDeviceGetHandleByUUID")

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, part: MadeUpGpu) -> MadeUpGpu:
        return next(gpu for gpu in self.gpus if part in gpu.slices.values())

    def nvmlDeviceGetMigMode(self, gpu: MadeUpGpu) -> list[int]:
        return [int(bool(gpu.slices))] * 2

    def nvmlDeviceGetMigDeviceHandleByIndex(self, gpu: MadeUpGpu, index: int) -> MadeUpGpu:
        return self._of(list(gpu.slices.values())[index], "nvmlDeviceGetMigDeviceHandleByIndex")

    def nvmlDeviceGetIndex(self, gpu: MadeUpGpu) -> int:
        return self.gpus.index(gpu)

    def nvmlDeviceGetUUID(self, gpu: MadeUpGpu) -> str:
        return self._of(gpu, "nvmlDeviceGetUUID").uuid

    def nvmlDeviceGetName(self, gpu: MadeUpGpu) -> str:
        return self._of(gpu, "nvmlDeviceGetName").name

    def nvmlDeviceGetPowerUsage(self, gpu: MadeUpGpu) -> int:
        return self._of(gpu, "nvmlDeviceGetPowerUsage").power_mw

    def nvmlDeviceGetClockInfo(self, gpu: MadeUpGpu, clock: int) -> int:
        self._of(gpu, "nvmlDeviceGetClockInfo")
        return gpu.sm_mhz if clock == self.NVML_CLOCK_SM else gpu.memory_mhz

    def nvmlDeviceGetTemperature(self, gpu: MadeUpGpu, _sensor: int) -> int:
        return self._of(gpu, "nvmlDeviceGetTemperature").temperature

    def nvmlDeviceGetCurrentClocksEventReasons(self, gpu: MadeUpGpu) -> int:
        return self._of(gpu, "nvmlDeviceGetCurrentClocksEventReasons").reasons

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, gpu: MadeUpGpu) -> int:
        return self._of(gpu, "nvmlDeviceGetCurrentClocksThrottleReasons").reasons

    def nvmlDeviceGetUtilizationRates(self, gpu: MadeUpGpu) -> Any:
        return SimpleNamespace(gpu=self._of(gpu, "nvmlDeviceGetUtilizationRates").busy, memory=50)

    def nvmlDeviceGetMemoryInfo(self, gpu: MadeUpGpu, version: int | None = None) -> Any:
        """The first form of the call counts half a GiB that the driver keeps for itself."""
        self._of(gpu, "nvmlDeviceGetMemoryInfo" + ("_v2" if version else ""))
        used = gpu.used_gib if version else gpu.used_gib + 0.5
        return SimpleNamespace(used=int(used * GIB), total=int(gpu.total_gib * GIB))

    def nvmlDeviceGetComputeRunningProcesses(self, gpu: MadeUpGpu) -> list[Any]:
        return self._processes(gpu, "nvmlDeviceGetComputeRunningProcesses", gpu.compute)

    def nvmlDeviceGetGraphicsRunningProcesses(self, gpu: MadeUpGpu) -> list[Any]:
        return self._processes(gpu, "nvmlDeviceGetGraphicsRunningProcesses", gpu.graphics)

    def _processes(self, gpu: MadeUpGpu, function: str, held: dict[int, float | None]) -> list[Any]:
        self._of(gpu, function)
        return [
            SimpleNamespace(pid=pid, usedGpuMemory=None if gib is None else int(gib * GIB)) for pid, gib in held.items()
        ]

    def _of(self, gpu: MadeUpGpu, function: str) -> MadeUpGpu:
        self.before_call(function)
        refused = gpu.refuses.get(function, gpu.refuses.get("all"))
        if refused is not None:
            raise NVMLError(refused)
        return gpu
