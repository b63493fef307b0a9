"""The driver's own library: opened when it is needed, and asked so that an answer that does not come is None."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


class Nvml:
    """One use of the library; `opened` makes it. `missing` says why there is none, and is empty where there is one."""

    def __init__(self, binding: Any, missing: str = "") -> None:
        self._binding = binding
        self.missing = missing
        self.lost = False  # a GPU has fallen off the bus, or wants a reset

    def ask(self, function: str, *arguments: Any) -> Any:
        """None where this GPU, driver or permission does not tell (unified memory, MIG, virtual GPUs, lost ones)."""
        if self._binding is None:
            return None
        try:
            return getattr(self._binding, function)(*arguments)
        except self._binding.NVMLError as error:
            code = getattr(error, "value", None)
            self.lost |= code in (self._binding.NVML_ERROR_GPU_IS_LOST, self._binding.NVML_ERROR_RESET_REQUIRED)
            return None

    def constant(self, name: str) -> Any:
        return getattr(self._binding, name)

    def handles(self) -> list[Any]:
        """In the driver's order; None stands for a GPU that the driver counts and will not open."""
        count = self.ask("nvmlDeviceGetCount") or 0
        return [self.ask("nvmlDeviceGetHandleByIndex", index) for index in range(count)]


@contextmanager
def opened(binding: Any = None) -> Iterator[Nvml]:
    """`binding` stands in for the module pynvml. Each use is its own: the library counts them, and takes threads."""
    if binding is None:
        try:
            import pynvml  # most commands need no GPU
        except ImportError:
            yield Nvml(None, "its Python binding (nvidia-ml-py) is not installed")
            return
        binding = pynvml
    try:
        binding.nvmlInit()
    except binding.NVMLError as error:
        yield Nvml(None, str(error))
        return
    nvml = Nvml(binding)
    try:
        yield nvml
    finally:
        nvml.ask("nvmlShutdown")


@dataclass(frozen=True)
class Device:
    """`index` is the driver's number of the GPU. `part` is what memory and processes are asked of: the MIG slice
    where one is named. `board` is the whole GPU, which alone has power, clocks and a temperature."""

    index: int
    name: str
    part: Any
    board: Any


@dataclass(frozen=True)
class GpuChoice:
    """Which GPUs a launch takes: `setting` is CUDA_VISIBLE_DEVICES (None: not set), `positions` count within what
    that leaves visible (None: all of it). Numbers are taken in the driver's order, which is CUDA's own only among
    equal GPUs or under CUDA_DEVICE_ORDER=PCI_BUS_ID."""

    setting: str | None = None
    positions: tuple[int, ...] | None = None

    def devices(self, nvml: Nvml) -> tuple[Device, ...]:
        """Those that can be opened; positions that lead nowhere are the server's to complain about."""
        found = _visible_devices(nvml, self.setting)
        if self.positions is not None:
            found = [found[position] for position in self.positions if position < len(found)]
        return tuple(device for device in found if device is not None)


def _visible_devices(nvml: Nvml, setting: str | None) -> list[Device | None]:
    if setting is not None and setting.strip().startswith("MIG-"):
        return [_slice(nvml, word.strip()) for word in setting.split(",")]
    handles = nvml.handles()
    uuids = [text(nvml.ask("nvmlDeviceGetUUID", handle)) if handle is not None else "" for handle in handles]
    chosen = [(index, handles[index]) for index in visible(setting, uuids)]
    return [None if handle is None else _whole(nvml, index, handle) for index, handle in chosen]


def _whole(nvml: Nvml, index: int, board: Any) -> Device:
    """A GPU by its number or UUID. Of one that is cut in slices CUDA takes the first."""
    mode = nvml.ask("nvmlDeviceGetMigMode", board)
    part = nvml.ask("nvmlDeviceGetMigDeviceHandleByIndex", board, 0) if mode and mode[0] else None
    return Device(index, _name(nvml, board), board if part is None else part, board)


def _slice(nvml: Nvml, word: str) -> Device | None:
    part = nvml.ask("nvmlDeviceGetHandleByUUID", word)
    board = None if part is None else nvml.ask("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", part)
    index = None if board is None else nvml.ask("nvmlDeviceGetIndex", board)
    return None if index is None else Device(index, _name(nvml, part), part, board)


def _name(nvml: Nvml, handle: Any) -> str:
    return text(nvml.ask("nvmlDeviceGetName", handle))


def text(value: str | bytes | None) -> str:
    return value.decode() if isinstance(value, bytes) else value or ""


def visible(setting: str | None, uuids: Sequence[str]) -> tuple[int, ...]:
    """Positions of the GPUs that CUDA_VISIBLE_DEVICES names by number or UUID (a prefix is enough).

    As CUDA reads it, the list ends at the first entry that names no GPU.
    """
    if setting is None:
        return tuple(range(len(uuids)))
    chosen: list[int] = []
    for word in (part.strip() for part in setting.split(",")):
        if word.isdigit() and int(word) < len(uuids):
            chosen.append(int(word))
            continue
        matches = [index for index, uuid in enumerate(uuids) if word.startswith("GPU-") and uuid.startswith(word)]
        if len(matches) != 1:
            break
        chosen += matches
    return tuple(chosen)


def memory_used(nvml: Nvml, device: Device) -> int | None:
    """Bytes in use by anyone, without what the driver keeps for itself where it tells the two apart."""
    info = memory_info(nvml, device.part)
    return None if info is None else int(info.used)


def memory_info(nvml: Nvml, handle: Any) -> Any:
    """With `used` and `total`. The first form of the call counts the driver's own reserve as used."""
    if nvml.missing:
        return None
    second = nvml.ask("nvmlDeviceGetMemoryInfo", handle, nvml.constant("nvmlMemory_v2"))
    return second if second is not None else nvml.ask("nvmlDeviceGetMemoryInfo", handle)
