"""Processes, ports, GPUs and readiness of one server at a time. Knows no engine."""

from autotune.launch.control import Control, Reply
from autotune.launch.devices import gpu_count
from autotune.launch.environment import complete_environment
from autotune.launch.node import disk_free, node_facts
from autotune.launch.ports import free_port
from autotune.launch.probe import probe
from autotune.launch.readiness import Readiness, await_ready
from autotune.launch.server import DEFAULT_GRACE_S, Server, StopReport, short_tmpdir, start

__all__ = [
    "DEFAULT_GRACE_S",
    "Control",
    "Readiness",
    "Reply",
    "Server",
    "StopReport",
    "await_ready",
    "complete_environment",
    "disk_free",
    "free_port",
    "gpu_count",
    "node_facts",
    "probe",
    "short_tmpdir",
    "start",
]
