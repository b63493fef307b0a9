"""The held-out node: constants drawn by a seed, never looked at while a strategy is designed."""

from __future__ import annotations

import random
from dataclasses import replace

from autotune.simulated_node.nodes import NVLINK_X8, RTX_PRO_6000_X8, NodeDescription

NAME = "held-out"
_SEED = 20261


def node() -> NodeDescription:
    """Each cost lies between those of the two eight-card nodes or up to 1.6 times outside, by the draw."""
    draw = random.Random(_SEED)

    def between(first: float, second: float) -> float:
        share = draw.uniform(0.0, 1.0)
        return float(first ** (1 - share) * second**share * draw.uniform(0.63, 1.6))

    step = replace(
        RTX_PRO_6000_X8.step,
        **{
            name: between(getattr(RTX_PRO_6000_X8.step, name), getattr(NVLINK_X8.step, name))
            for name in ("fixed_ms", "allreduce_ms", "expert_ms", "token_ms", "graph_excess")
        },
        untuned_factor=draw.uniform(1.2, 3.0),
        fusion_saving=draw.uniform(0.02, 0.3),
    )
    costs = replace(
        RTX_PRO_6000_X8.speculation,
        **{
            name: between(getattr(RTX_PRO_6000_X8.speculation, name), getattr(NVLINK_X8.speculation, name))
            for name in ("verify_v1_ms", "verify_v2_ms", "draft_step_ms", "v1_token_ms")
        },
    )
    acceptance = replace(
        RTX_PRO_6000_X8.acceptance,
        first=draw.uniform(0.5, 0.8),
        depth_decay=draw.uniform(0.82, 0.95),
        sibling_exponent=draw.uniform(0.4, 0.8),
    )
    backends = {"flashinfer": 1.0, "triton": draw.uniform(0.92, 1.12), "cutlass_mla": draw.uniform(0.92, 1.12)}
    return replace(
        RTX_PRO_6000_X8,
        name=NAME,
        about="drawn by a seed; fitted to nothing",
        step=step,
        speculation=costs,
        acceptance=acceptance,
        backends=backends,
    )
