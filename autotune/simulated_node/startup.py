"""From process start to a loaded model: the log lines, the time they take, and the ways to die on the way."""

from __future__ import annotations

import signal
import time

from autotune.simulated_node.children import die_of
from autotune.simulated_node.logs import log, raw, server_args_line
from autotune.simulated_node.nodes import NodeDescription
from autotune.simulated_node.resolution import Resolved, StartFailure
from autotune.simulated_node.setting import NodeSetting

SHARDS = 8
SHARES = {"distributed": 0.08, "weights": 0.55, "pool": 0.02, "capture": 0.3}
"""Of the start-up time; the rest is the server's warm-up request and what the process itself needs."""


class Startup:
    """Loads the model that does not exist."""

    def __init__(self, setting: NodeSetting, resolved: Resolved, child: int) -> None:
        self._setting = setting
        self._resolved = resolved
        self._child = child
        self._failure = _failure_of(setting, resolved)

    def load(self) -> None:
        """Returns when SGLang would bind its port. Does not return where such a server would die or hang."""
        values, memory = self._resolved.values, self._resolved.memory
        node = self._setting.node
        log(server_args_line(values))
        for warning in self._resolved.warnings:
            log(warning)
        if not node.nvlink and not values["disable_custom_all_reduce"] and values["tp_size"] > 2:
            log("Custom allreduce is disabled because it's not supported on more than two PCIe-only GPUs.", "TP0")
        log("Init torch distributed begin.", "TP0")
        self._pass("distributed")
        log("Init torch distributed ends. mem usage=0.81 GB", "TP0")
        self._weights(node)
        self._die_if("backend")
        self._pass("pool")
        gib = memory.kv_gib
        log(f"KV Cache is allocated. #tokens: {memory.capacity_tokens}, KV size: {gib:.2f} GB", "TP0")
        available = node.memory.gpu_gib - memory.weights_gib - gib - 1.0
        log(f"Memory pool end. avail mem={available:.2f} GB", "TP0")
        self._capture(available)
        plan = self._resolved.plan
        log(
            f"max_total_num_tokens={memory.capacity_tokens}, chunked_prefill_size={plan.chunk_tokens}, "
            f"max_prefill_tokens={values['max_prefill_tokens']}, max_running_requests={plan.max_running}, "
            f"context_len={values['context_length'] or node.context_length}, "
            f"available_gpu_mem={available - memory.graph_gib:.2f} GB",
            "TP0",
        )

    def _weights(self, node: NodeDescription) -> None:
        free = node.memory.gpu_gib - 1.0
        log(f"Load weight begin. avail mem={free:.2f} GB", "TP0")
        while self._setting.faults.hang_at_start:
            signal.pause()
        for shard in range(1, SHARDS + 1):
            self._sleep(SHARES["weights"] / SHARDS)
            raw(f"Loading safetensors checkpoint shards: {100 * shard // SHARDS:3d}% Completed | {shard}/{SHARDS}")
        self._die_if("weights")
        used = self._resolved.memory.weights_gib
        log(
            f"Load weight end. elapsed={self._setting.startup_s * SHARES['weights']:.2f} s, "
            f"type=KimiK25ForConditionalGeneration, avail mem={free - used:.2f} GB, mem usage={used:.2f} GB.",
            "TP0",
        )

    def _capture(self, available: float) -> None:
        sizes = self._resolved.graph_sizes
        if not sizes:
            self._pass("capture")
            return
        log(f"Capture cuda graph begin. This can take up to several minutes. avail mem={available:.2f} GB", "TP0")
        log(f"Capture cuda graph bs {list(sizes)}", "TP0")
        self._pass("capture")
        used = self._resolved.memory.graph_gib
        elapsed = self._setting.startup_s * SHARES["capture"]
        log(
            f"Capture cuda graph end. Time elapsed: {elapsed:.2f} s. mem usage={used:.2f} GB. "
            f"avail mem={available - used:.2f} GB.",
            "TP0",
        )

    def _pass(self, stage: str) -> None:
        self._sleep(SHARES[stage])
        self._die_if(stage)

    def _sleep(self, share: float) -> None:
        time.sleep(share * self._setting.startup_s / self._setting.speed)

    def _die_if(self, stage: str) -> None:
        if self._failure is not None and self._failure.stage == stage:
            die_of(self._failure.error, self._child, serving=False)


def _failure_of(setting: NodeSetting, resolved: Resolved) -> StartFailure | None:
    wanted = setting.faults.die_at_start
    if wanted == "oom":
        return StartFailure("capture", "Exception: Capture cuda graph failed: CUDA out of memory. (fault die_at_start)")
    if wanted == "exception":
        return StartFailure("weights", "RuntimeError: the weights cannot be read (fault die_at_start)")
    return resolved.failure
