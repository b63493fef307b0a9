"""What the figures of a study were measured on."""

from __future__ import annotations

import os
import platform
import shutil
from pathlib import Path
from typing import Any

import psutil

from autotune.domain.trial import Hardware
from autotune.launch.devices import gpu_facts
from autotune.launch.nvml import Nvml, memory_info, opened, text

_TO_A_SWITCH = 2  # NVML_NVLINK_DEVICE_TYPE_SWITCH: the binding does not name it in every version


def node_facts() -> dict[str, str]:
    """CPU, memory, kernel and GPUs as words for a record. What is not known is left out."""
    cores = psutil.cpu_count(logical=False)
    threads = os.cpu_count()
    facts = {
        "cpu": _cpu_model(),
        "cpu_cores": str(cores) if cores else "",
        "cpu_threads": str(threads) if threads else "",
        "memory_gib": f"{psutil.virtual_memory().total / 2**30:.0f}",
        "kernel": f"{platform.system()} {platform.release()}",
        **gpu_facts(),
    }
    return {name: fact for name, fact in facts.items() if fact}


def disk_free(path: Path) -> int:
    """Bytes that may still be written where `path` is or will be."""
    existing = next(place for place in (path.absolute(), *path.absolute().parents) if place.exists())
    return shutil.disk_usage(existing).free


def _cpu_model() -> str:
    try:
        return cpu_model(Path("/proc/cpuinfo").read_text(errors="replace"))
    except OSError:
        return platform.processor()


def cpu_model(cpuinfo: str) -> str:
    """From the text of /proc/cpuinfo; empty if it names none (some ARM kernels)."""
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if name.strip().lower() in {"model name", "cpu model"}:
            return " ".join(value.split())
    return ""


def node_hardware(binding: Any = None) -> Hardware | None:
    """Of the first GPU, and how it is linked to the others; None without a GPU. `binding` stands in for pynvml."""
    with opened(binding) as nvml:
        handles = [handle for handle in nvml.handles() if handle is not None]
        if not handles:
            return None
        capability = nvml.ask("nvmlDeviceGetCudaComputeCapability", handles[0])
        memory = memory_info(nvml, handles[0])
        return Hardware(
            architecture=None if capability is None else f"sm{capability[0]}{capability[1]}",
            gpu_count=len(handles),
            gpu_name=text(nvml.ask("nvmlDeviceGetName", handles[0])) or None,
            gpu_memory_gib=None if memory is None else memory.total / 2**30,
            link=_links(nvml, handles[0]) if len(handles) > 1 else None,
        )


def _links(nvml: Nvml, handle: Any) -> str:
    links = range(nvml.constant("NVML_NVLINK_MAX_LINKS"))
    up = nvml.constant("NVML_FEATURE_ENABLED")
    active = [link for link in links if nvml.ask("nvmlDeviceGetNvLinkState", handle, link) == up]
    if not active:
        return "pcie"
    ends = {nvml.ask("nvmlDeviceGetNvLinkRemoteDeviceType", handle, link) for link in active}
    return "nvswitch" if _TO_A_SWITCH in ends else "nvlink"
