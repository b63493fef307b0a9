"""What the figures of a study were measured on."""

from __future__ import annotations

import os
import platform
import shutil
from pathlib import Path

import psutil

from autotune.launch.devices import gpu_facts


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
