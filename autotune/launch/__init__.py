"""Processes, ports, GPUs and readiness of one server at a time. Knows no engine."""

from autotune.launch.cached_probe import cached_probe
from autotune.launch.control import Control, Reply
from autotune.launch.devices import gpu_count
from autotune.launch.environment import complete_environment
from autotune.launch.gpu_watch import GpuWatch
from autotune.launch.node import disk_free, node_facts, node_hardware
from autotune.launch.nvml import GpuChoice
from autotune.launch.oom import oom_kills
from autotune.launch.ports import free_port
from autotune.launch.probe import probe
from autotune.launch.readiness import Readiness, await_ready
from autotune.launch.server import DEFAULT_GRACE_S, Server, StopReport, short_tmpdir, start
from autotune.launch.telemetry import Sampler

__all__ = [
    "DEFAULT_GRACE_S",
    "Control",
    "GpuChoice",
    "GpuWatch",
    "Readiness",
    "Reply",
    "Sampler",
    "Server",
    "StopReport",
    "await_ready",
    "cached_probe",
    "complete_environment",
    "disk_free",
    "free_port",
    "gpu_count",
    "node_facts",
    "node_hardware",
    "oom_kills",
    "probe",
    "short_tmpdir",
    "start",
]
