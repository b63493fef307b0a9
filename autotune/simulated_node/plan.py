"""What the step loop needs to know of a server: the resolved arguments and the environment, boiled down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autotune.simulated_node.acceptance import DraftTree


@dataclass(frozen=True)
class ServingPlan:
    """`graph_max_bs`: largest captured batch, 0 for none.

    `tree` is None without speculation. `overlap`: the overlap scheduler (with speculation: spec v2) is on.
    """

    tree: DraftTree | None
    overlap: bool
    max_running: int
    graph_max_bs: int
    attention_backend: str
    fusion: bool
    custom_all_reduce: bool
    kv_capacity_tokens: int
    chunk_tokens: int
    prefill_limit_tokens: int  # a prefill batch above this runs out of memory
    radix_cache: bool
    environment: Mapping[str, str]
    stream_interval: int = 1
    decode_log_interval: int = 40
