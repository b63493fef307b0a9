"""The node's GPUs, as NVML sees them. Without the driver or its Python binding there are none, which is no error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any


@contextmanager
def _nvml() -> Iterator[Any]:
    """The binding, initialised; None where there is no driver. Imported here: most commands need no GPU."""
    try:
        import pynvml
    except ImportError:
        yield None
        return
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        yield None
        return
    try:
        yield pynvml
    finally:
        pynvml.nvmlShutdown()


def _handles(nvml: Any) -> list[Any]:
    return [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]


def gpu_count() -> int:
    """GPUs of the node, whatever CUDA_VISIBLE_DEVICES says."""
    with _nvml() as nvml:
        return 0 if nvml is None else int(nvml.nvmlDeviceGetCount())


def gpu_facts() -> dict[str, str]:
    """Names, driver, memory and links; empty without a GPU. A fact that the driver does not tell is left out."""
    with _nvml() as nvml:
        handles = [] if nvml is None else _handles(nvml)
        if not handles:
            return {}
        memory = [_ask(nvml, "nvmlDeviceGetMemoryInfo", handle) for handle in handles]
        cuda = _ask(nvml, "nvmlSystemGetCudaDriverVersion_v2")
        facts = {
            "gpu_count": str(len(handles)),
            "gpu_names": _tally([_text(_ask(nvml, "nvmlDeviceGetName", handle)) for handle in handles]),
            "gpu_memory_gib": _tally([f"{info.total / 2**30:.0f}" for info in memory if info is not None]),
            "driver": _text(_ask(nvml, "nvmlSystemGetDriverVersion")),
            "cuda_driver": "" if cuda is None else f"{cuda // 1000}.{cuda % 1000 // 10}",
            "gpu_links": _tally([_link(nvml, handle) for handle in handles]),
        }
        return {name: fact for name, fact in facts.items() if fact}


def _ask(nvml: Any, function: str, *arguments: Any) -> Any:
    """None where this GPU or driver does not tell (unified memory, MIG, virtual GPUs)."""
    try:
        return getattr(nvml, function)(*arguments)
    except nvml.NVMLError:
        return None


def _link(nvml: Any, handle: Any) -> str:
    """`PCIe 5.0 x16`, with `+ 18 NVLinks` where some are up."""
    generation = _ask(nvml, "nvmlDeviceGetMaxPcieLinkGeneration", handle)
    width = _ask(nvml, "nvmlDeviceGetMaxPcieLinkWidth", handle)
    links = range(nvml.NVML_NVLINK_MAX_LINKS)
    states = [_ask(nvml, "nvmlDeviceGetNvLinkState", handle, link) for link in links]
    lanes = states.count(nvml.NVML_FEATURE_ENABLED)
    pcie = "" if generation is None or width is None else f"PCIe {generation}.0 x{width}"
    return " + ".join(part for part in (pcie, f"{lanes} NVLinks" if lanes else "") if part)


def _tally(items: Sequence[str]) -> str:
    """`8 x NVIDIA H200`; unequal ones joined by commas."""
    return ", ".join(f"{items.count(item)} x {item}" for item in dict.fromkeys(items) if item)


def _text(value: str | bytes | None) -> str:
    return value.decode() if isinstance(value, bytes) else value or ""


def gpu_memory_used(environment: Mapping[str, str]) -> int | None:
    """Bytes in use on the GPUs that `environment` makes visible, by anyone. None without a GPU."""
    with _nvml() as nvml:
        if nvml is None:
            return None
        handles = _handles(nvml)
        uuids = [_text(_ask(nvml, "nvmlDeviceGetUUID", handle)) for handle in handles]
        chosen = visible(environment.get("CUDA_VISIBLE_DEVICES"), uuids)
        memory = [_ask(nvml, "nvmlDeviceGetMemoryInfo", handles[index]) for index in chosen]
        used = [int(info.used) for info in memory if info is not None]
        return sum(used) if used else None


def gpu_holders() -> frozenset[int]:
    """Processes with GPU memory. In a container the driver may tell the host's numbers, or none."""
    with _nvml() as nvml:
        if nvml is None:
            return frozenset()
        running = [_ask(nvml, "nvmlDeviceGetComputeRunningProcesses", handle) for handle in _handles(nvml)]
        return frozenset(process.pid for processes in running for process in processes or ())


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
