"""GPU memory of one card: weights, KV cache, graphs, and what does not fit."""

from __future__ import annotations

import bisect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autotune.simulated_node.nodes import NodeDescription

RUNTIME_GIB = 1.0
"""CUDA context, NCCL buffers and the like. Assumed."""


@dataclass(frozen=True)
class MemoryUse:
    """GiB for each card. `problem` says what does not fit, and at which stage, or is None."""

    weights_gib: float
    kv_gib: float
    graph_gib: float
    capacity_tokens: int
    prefill_limit_tokens: int  # a prefill batch above this runs out of memory while serving
    problem: tuple[str, str] | None = None  # stage, message


def default_fraction(node: NodeDescription, values: Mapping[str, Any]) -> float:
    """SGLang 0.5.9's default for --mem-fraction-static."""
    total_mib = node.memory.gpu_gib * 1024
    parallel = values["tp_size"] * values["pp_size"]
    reserved = 512 + 1.5 * max(values["chunked_prefill_size"], 2048) + parallel / 8 * 1024
    reserved += 2 * values["cuda_graph_max_bs"]
    if total_mib > 60 * 1024:
        reserved = max(reserved, 10 * 1024)
    algorithm = values["speculative_algorithm"]
    if algorithm == "STANDALONE":
        reserved += 6 * 1024
    elif algorithm not in (None, "NGRAM"):
        reserved += 2 * 1024
    return float(round((total_mib - reserved) / total_mib, 3))


def graph_sizes(values: Mapping[str, Any]) -> list[int]:
    """Batch sizes to capture. 0.5.9 stops at the last listed size that is not above the ceiling."""
    if values["disable_cuda_graph"]:
        return []
    if values["cuda_graph_bs"]:
        return sorted(set(values["cuda_graph_bs"]))
    if values["speculative_algorithm"] is None:
        sizes = [1, 2, 4, 8, 12, *range(16, 257, 8), *range(272, 513, 16)]
    else:
        sizes = [*range(1, 9), *range(10, 33, 2), *range(40, 65, 4), *range(72, 257, 8), *range(272, 513, 16)]
    sizes += list(range(544, values["cuda_graph_max_bs"] + 1, 32))
    return sizes[: bisect.bisect_right(sizes, values["cuda_graph_max_bs"])]


def clamp_sizes(sizes: list[int], max_running: int) -> list[int]:
    """No graph is larger than the pool of requests, and the pool's own size is always captured."""
    if sizes and sizes[-1] > max_running:
        return [*(size for size in sizes if size < max_running), max_running]
    return sizes


def memory_use(node: NodeDescription, values: Mapping[str, Any], largest_graph: int) -> MemoryUse:
    """`values` are resolved; `largest_graph` is the largest captured batch, 0 for none."""
    law = node.memory
    fraction = values["mem_fraction_static"]
    speculating = values["speculative_algorithm"] not in (None, "NGRAM")
    weights = law.weights_gib_total / values["tp_size"] + (law.draft_gib if speculating else 0.0)
    kv_gib = law.gpu_gib * fraction - RUNTIME_GIB - weights
    bytes_each = law.kv_bytes_per_token * (0.5 if "fp8" in values["kv_cache_dtype"] else 1.0)
    capacity = int(max(0.0, kv_gib) * 1024**3 / bytes_each)
    if values["max_total_tokens"] is not None:
        capacity = min(capacity, values["max_total_tokens"])
    width = values["speculative_num_draft_tokens"] or 1 if values["speculative_algorithm"] else 1
    graph = 0.0
    if largest_graph:
        mib = law.graph_request_mib * largest_graph + law.graph_token_mib * largest_graph * width
        graph = law.graph_base_gib + mib / 1024
    free = law.gpu_gib * (1.0 - fraction) - graph
    limit = int(max(0.0, free) * 1024 / law.activation_mib_per_token)
    problem = None
    if weights > law.gpu_gib - RUNTIME_GIB:
        problem = ("weights", _out_of_memory(law.gpu_gib, 0.6))
    elif kv_gib <= 0 or capacity < 64:
        problem = (
            "pool",
            "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. "
            f"Current value: self.server_args.mem_fraction_static={fraction}",
        )
    elif free < 0.3:
        problem = ("capture", f"Capture cuda graph failed: {_out_of_memory(law.gpu_gib, graph)}\n{CAPTURE_ADVICE}")
    return MemoryUse(round(weights, 2), round(max(0.0, kv_gib), 2), round(graph, 2), capacity, limit, problem)


CAPTURE_ADVICE = """Possible solutions:
1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)
2. set --cuda-graph-max-bs to a smaller value (e.g., 16)
3. disable torch compile by not using --enable-torch-compile
4. disable CUDA graph by --disable-cuda-graph. (Not recommended. Huge performance loss)"""


def _out_of_memory(total_gib: float, wanted_gib: float) -> str:
    return (
        f"CUDA out of memory. Tried to allocate {wanted_gib:.2f} GiB. GPU 0 has a total capacity of "
        f"{total_gib:.2f} GiB of which 212.00 MiB is free."
    )
