"""The largest batch for which a server has a decode graph, as it says itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from autotune.domain.trial import ResolvedArguments

_OFF = ("disable_cuda_graph", "disable_decode_cuda_graph")
_GRAPHLESS = ("torch_native", "flex_attention")


def graph_ceiling(resolved: ResolvedArguments) -> int | None:
    """Requests in one batch, on all data-parallel replicas together; 0: it decodes without graphs, None: not known.

    From 0.5.15 on `cuda_graph_config` says what was captured (sglang 0.5.23 model_executor/cuda_graph_config.py:44),
    before that the arguments do.
    """
    values = resolved.values
    if values.get("device") == "cpu" or any(values.get(name) is True for name in _OFF):
        return 0
    if values.get("attention_backend") in _GRAPHLESS:
        return 0
    each = _captured(values)
    if each is None:
        return None
    replicas = values.get("dp_size")
    return each * (replicas if isinstance(replicas, int) and replicas > 0 else 1)


def _captured(values: Mapping[str, Any]) -> int | None:
    backend = values.get("cuda_graph_config.decode.backend")
    if backend == "disabled" or values.get("cuda_graph_backend_decode") == "disabled":
        return 0
    places = (
        ("cuda_graph_config.decode.bs", "cuda_graph_config.decode.max_bs"),
        ("cuda_graph_bs_decode", "cuda_graph_max_bs_decode"),
        ("cuda_graph_bs", "cuda_graph_max_bs"),
    )
    for sizes_name, most_name in places:
        sizes, most = _sizes(values.get(sizes_name)), values.get(most_name)
        if sizes:
            return max(sizes)
        if isinstance(most, int) and not isinstance(most, bool):
            return most
    return None


def _sizes(value: Any) -> list[int]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return []
    return [size for size in value if isinstance(size, int)] if isinstance(value, list | tuple) else []
