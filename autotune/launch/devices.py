"""The node's GPUs, as the driver tells them. Without the driver or its Python binding there are none: no error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autotune.launch.nvml import GpuChoice, Nvml, memory_info, memory_used, opened, text


def gpu_count(binding: Any = None) -> int:
    """GPUs of the node, whatever CUDA_VISIBLE_DEVICES says."""
    with opened(binding) as nvml:
        return int(nvml.ask("nvmlDeviceGetCount") or 0)


def gpu_facts(binding: Any = None) -> dict[str, str]:
    """Names, driver, memory and links; empty without a GPU. A fact that the driver does not tell is left out."""
    with opened(binding) as nvml:
        handles = [handle for handle in nvml.handles() if handle is not None]
        if not handles:
            return {}
        memory = [memory_info(nvml, handle) for handle in handles]
        cuda = nvml.ask("nvmlSystemGetCudaDriverVersion_v2")
        facts = {
            "gpu_count": str(len(handles)),
            "gpu_names": _tally([text(nvml.ask("nvmlDeviceGetName", handle)) for handle in handles]),
            "gpu_memory_gib": _tally([f"{info.total / 2**30:.0f}" for info in memory if info is not None]),
            "driver": text(nvml.ask("nvmlSystemGetDriverVersion")),
            "cuda_driver": "" if cuda is None else f"{cuda // 1000}.{cuda % 1000 // 10}",
            "gpu_links": _tally([_link(nvml, handle) for handle in handles]),
        }
        return {name: fact for name, fact in facts.items() if fact}


def _link(nvml: Nvml, handle: Any) -> str:
    """`PCIe 5.0 x16`, with `+ 18 NVLinks` where some are up."""
    generation = nvml.ask("nvmlDeviceGetMaxPcieLinkGeneration", handle)
    width = nvml.ask("nvmlDeviceGetMaxPcieLinkWidth", handle)
    links = range(nvml.constant("NVML_NVLINK_MAX_LINKS"))
    states = [nvml.ask("nvmlDeviceGetNvLinkState", handle, link) for link in links]
    lanes = states.count(nvml.constant("NVML_FEATURE_ENABLED"))
    pcie = "" if generation is None or width is None else f"PCIe {generation}.0 x{width}"
    return " + ".join(part for part in (pcie, f"{lanes} NVLinks" if lanes else "") if part)


def _tally(items: Sequence[str]) -> str:
    """`8 x NVIDIA H200`; unequal ones joined by commas."""
    return ", ".join(f"{items.count(item)} x {item}" for item in dict.fromkeys(items) if item)


def gpu_memory_used(environment: Mapping[str, str], binding: Any = None) -> int | None:
    """Bytes in use on the GPUs that `environment` makes visible, by anyone. None without a GPU."""
    with opened(binding) as nvml:
        devices = GpuChoice(environment.get("CUDA_VISIBLE_DEVICES")).devices(nvml)
        used = [memory_used(nvml, device) for device in devices]
        known = [bytes_used for bytes_used in used if bytes_used is not None]
        return sum(known) if known else None


def gpu_holders(binding: Any = None) -> frozenset[int]:
    """Processes with GPU memory. In a container the driver may tell the host's numbers, or none."""
    with opened(binding) as nvml:
        handles = [handle for handle in nvml.handles() if handle is not None]
        running = [nvml.ask("nvmlDeviceGetComputeRunningProcesses", handle) for handle in handles]
        return frozenset(process.pid for processes in running for process in processes or ())
