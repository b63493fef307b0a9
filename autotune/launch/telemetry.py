"""Power, clocks, temperature, throttling and strangers on the GPUs, read twice a second while a level runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from autotune.domain.measurement import DeviceWindow
from autotune.launch.nvml import Device, GpuChoice, Nvml, memory_used, opened
from autotune.launch.occupancy import GIB, GpuProcess, strangers

PERIOD_S = 0.5
_JOIN_PATIENCE_S = 5.0

REASONS = {
    0x0002: "application clocks setting",
    0x0004: "software power cap",
    0x0008: "hardware slowdown",
    0x0010: "sync boost",
    0x0020: "software thermal slowdown",
    0x0040: "hardware thermal slowdown",
    0x0080: "hardware power brake",
    0x0100: "display clock setting",
}
"""Bits of nvmlDeviceGetCurrentClocksEventReasons, in the words of nvidia-smi. Bit 0, idle, is none."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One GPU at one time, seconds on the monotonic clock; what the driver does not tell is None. `utilisation`:
    share of the driver's last sampling period with a kernel on the GPU."""

    at_s: float
    power_w: float | None = None
    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    temperature_c: int | None = None
    reasons: int | None = None
    utilisation: float | None = None
    memory_gib: float | None = None


def read(nvml: Nvml, device: Device, at_s: float) -> Reading:
    board = device.board
    power = nvml.ask("nvmlDeviceGetPowerUsage", board)
    reasons = nvml.ask("nvmlDeviceGetCurrentClocksEventReasons", board)
    if reasons is None:  # drivers before 535 know the call by its older name
        reasons = nvml.ask("nvmlDeviceGetCurrentClocksThrottleReasons", board)
    rates = nvml.ask("nvmlDeviceGetUtilizationRates", board)
    used = memory_used(nvml, device)
    return Reading(
        at_s,
        power_w=None if power is None else power / 1000,
        sm_clock_mhz=nvml.ask("nvmlDeviceGetClockInfo", board, nvml.constant("NVML_CLOCK_SM")),
        memory_clock_mhz=nvml.ask("nvmlDeviceGetClockInfo", board, nvml.constant("NVML_CLOCK_MEM")),
        temperature_c=nvml.ask("nvmlDeviceGetTemperature", board, nvml.constant("NVML_TEMPERATURE_GPU")),
        reasons=reasons,
        utilisation=None if rates is None else rates.gpu / 100,
        memory_gib=None if used is None else used / GIB,
    )


def throttle_words(reasons: int) -> tuple[str, ...]:
    """Bits in words; one that is not known is told by its number."""
    words = [word for bit, word in REASONS.items() if reasons & bit]
    unknown = reasons & ~1 & ~sum(REASONS)
    return (*words, *([f"reason {unknown:#x}"] if unknown else ()))


def device_window(device: Device, readings: Sequence[Reading]) -> DeviceWindow:
    """`readings` are those of the window, at least one."""
    told = [reading.reasons for reading in readings if reading.reasons is not None]
    words = dict.fromkeys(word for reasons in told for word in throttle_words(reasons))
    return DeviceWindow(
        index=device.index,
        name=device.name,
        samples=len(readings),
        power_w=_mean([r.power_w for r in readings]),
        sm_clock_mhz=_mean([r.sm_clock_mhz for r in readings]),
        sm_clock_min_mhz=_extreme(min, [r.sm_clock_mhz for r in readings]),
        memory_clock_mhz=_mean([r.memory_clock_mhz for r in readings]),
        temperature_c=_extreme(max, [r.temperature_c for r in readings]),
        utilisation=_mean([r.utilisation for r in readings]),
        memory_used_gib=_extreme(max, [r.memory_gib for r in readings]),
        throttled={word: sum(word in throttle_words(reasons) for reasons in told) / len(told) for word in words},
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _extreme(of: Callable[[list[float]], float], values: Sequence[float | None]) -> float | None:
    known = [float(value) for value in values if value is not None]
    return of(known) if known else None


class Sampler:
    """Reads the GPUs from a thread of its own, with its own use of the driver, from entering to leaving.

    It waits on the driver (which lets other threads run) nearly all of its time; `cost_s` says how long a round took
    on average. A driver that hangs is left behind after 5 s. Read it after leaving, or for what there is so far.
    """

    def __init__(
        self,
        choice: GpuChoice,
        *,
        is_ours: Callable[[int], bool] | None = None,
        period_s: float = PERIOD_S,
        binding: Any = None,
    ) -> None:
        """`is_ours` None: whose processes are on the GPUs cannot be told, and nobody is called a stranger."""
        self._choice = choice
        self._is_ours = is_ours
        self._period_s = period_s
        self._binding = binding
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gpu-sampler", daemon=True)
        self._devices: tuple[Device, ...] = ()
        self._rounds: list[tuple[Reading, ...]] = []  # as many readings as devices, in their order
        self._strangers: list[tuple[float, GpuProcess]] = []
        self._spent_s = 0.0
        self._bug: Exception | None = None
        self.problem = ""  # why there is nothing, or less than there should be

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(_JOIN_PATIENCE_S)
        if self._thread.is_alive():
            self.problem = f"the driver did not answer for {_JOIN_PATIENCE_S:g} s"
        if self._bug is not None and error is None:
            raise self._bug

    @property
    def cost_s(self) -> float | None:
        return self._spent_s / len(self._rounds) if self._rounds else None

    def windows(self, start_s: float, end_s: float) -> tuple[DeviceWindow, ...]:
        """Each GPU between two times of the monotonic clock; empty if no round fell between them."""
        inside = [seen for seen in list(self._rounds) if seen and start_s <= seen[0].at_s <= end_s]
        return tuple(
            device_window(device, [seen[place] for seen in inside])
            for place, device in enumerate(self._devices)
            if inside
        )

    def strangers(self, start_s: float, end_s: float) -> tuple[GpuProcess, ...]:
        """Processes of others that a round saw between two times, each once, with the most memory it had."""
        found: dict[tuple[int, int], GpuProcess] = {}
        for at_s, process in list(self._strangers):
            if start_s <= at_s <= end_s:
                key = (process.gpu, process.pid)
                known = found.get(key, process)
                found[key] = max(known, process, key=lambda p: p.memory_gib or 0.0)
        return tuple(found.values())

    def _run(self) -> None:
        try:
            with opened(self._binding) as nvml:
                self._devices = self._choice.devices(nvml)
                self.problem = nvml.missing or ("" if self._devices else "the driver opens none of the trial's GPUs")
                while not self.problem:
                    self._round(nvml)
                    if self._stop.wait(self._period_s):
                        break
                if nvml.lost:
                    self.problem = "the driver says that a GPU is lost or wants a reset"
        except Exception as error:  # noqa: BLE001 - carried over to the thread that leaves, which raises it
            self._bug = error

    def _round(self, nvml: Nvml) -> None:
        began = time.monotonic()
        self._rounds.append(tuple(read(nvml, device, began) for device in self._devices))
        if self._is_ours is not None:
            for device in self._devices:
                self._strangers += [(began, process) for process in strangers(nvml, device, self._is_ours) or ()]
        self._spent_s += time.monotonic() - began
