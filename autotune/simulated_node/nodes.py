"""Descriptions of imaginary nodes: all the constants of the model, with their units and where they come from.

`fitted` fields of the first node are what scripts/fit_simulated_node.py prints for the published figures of an
8 x RTX PRO 6000 node (Kimi-K2.5 INT4, tp 8). `assumed` fields were chosen by hand and are not evidence of anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType


def _frozen(values: dict[str, float]) -> Mapping[str, float]:
    return MappingProxyType(values)


@dataclass(frozen=True)
class StepCosts:
    """Milliseconds of one forward pass. `n` below is the number of tokens verified together."""

    fixed_ms: float  # fitted: launch, attention and dense weights, whatever the batch
    allreduce_ms: float  # fitted: all the all-reduces of a pass with one token, NCCL tuned (LL, Ring, SYS)
    allreduce_exponent: float  # fitted: they grow as n ** exponent
    expert_ms: float  # fitted: reading one more distinct expert of every layer
    token_ms: float  # fitted: compute and the bandwidth part of communication, for each token
    untuned_factor: float  # fitted: how much slower the all-reduces are with no NCCL setting at all
    fusion_saving: float  # fitted: share of the all-reduce time that --enable-flashinfer-allreduce-fusion saves
    expert_overlap: float  # fitted: a draft token counts as this share of an independent token for expert reading
    graph_excess: float  # fitted: slowdown of a CUDA-graph ceiling of 512 against 128
    kv_us_per_token: float = 0.044  # assumed: reading the KV cache of one token of context
    prefill_ms_per_token: float = 0.12  # assumed; linear on purpose, see the docs
    eager_factor: float = 1.6  # assumed: a batch above the graph ceiling
    no_overlap_ms: float = 0.9  # assumed: --disable-overlap-schedule without speculation
    no_overlap_request_ms: float = 0.03  # assumed: the same, for each running request


@dataclass(frozen=True)
class SpeculationCosts:
    """Milliseconds that a speculative step costs beside its forward pass."""

    verify_v1_ms: float  # fitted
    verify_v2_ms: float  # fitted: the overlapping worker
    draft_step_ms: float  # fitted: one draft step at batch 1; hidden by spec v2
    v1_token_ms: float  # fitted: tree building and host work of the v1 worker, per draft token and running request
    draft_token_ms: float = 0.004  # assumed: a draft step, for each running request and branch


@dataclass(frozen=True)
class Acceptance:
    """P(first draft token accepted) and how it changes with depth, siblings and prompt."""

    first: float  # fitted: one branch
    depth_decay: float  # fitted: each deeper position, given that the one before was accepted
    sibling_exponent: float  # fitted: missing probability with k siblings = (1 - p) * k ** -exponent
    spread: float = 0.09  # assumed: standard deviation of `first` between prompts
    algorithms: Mapping[str, float] = field(
        default_factory=lambda: _frozen({"EAGLE3": 1.0, "EAGLE": 0.9, "STANDALONE": 0.95, "NGRAM": 0.45})
    )  # assumed: factor on `first`


@dataclass(frozen=True)
class Memory:
    """GiB for each GPU. All assumed, from the sizes of the cards and of the model."""

    gpu_gib: float = 94.97
    weights_gib_total: float = 555.0
    draft_gib: float = 0.7
    kv_bytes_per_token: int = 70272  # 61 layers x 576 x bf16; MLA keeps a full copy on every rank
    graph_base_gib: float = 0.25
    graph_request_mib: float = 1.2  # each captured request slot
    graph_token_mib: float = 1.1  # each captured token
    activation_mib_per_token: float = 0.6


@dataclass(frozen=True)
class NodeDescription:
    """`sm`: compute capability x 10. `backends`: factor of each attention backend that works on it."""

    name: str
    about: str
    gpus: int
    sm: int
    nvlink: bool
    step: StepCosts
    speculation: SpeculationCosts
    acceptance: Acceptance
    backends: Mapping[str, float]
    memory: Memory = Memory()
    experts: int = 384
    experts_per_token: int = 8
    context_length: int = 262144


RTX_PRO_6000_X8 = NodeDescription(
    name="rtx-pro-6000-x8",
    about="8 x RTX PRO 6000 Blackwell on PCIe, Kimi-K2.5 INT4; fitted to published figures",
    gpus=8,
    sm=120,
    nvlink=False,
    step=StepCosts(
        fixed_ms=7.168,
        allreduce_ms=3.057,
        allreduce_exponent=0.3062,
        expert_ms=0.106,
        token_ms=0.1598,
        untuned_factor=2.405,
        fusion_saving=0.07509,
        expert_overlap=0.2927,
        graph_excess=0.09,
    ),
    speculation=SpeculationCosts(verify_v1_ms=6.02, verify_v2_ms=9.809, draft_step_ms=0.2621, v1_token_ms=0.1121),
    acceptance=Acceptance(first=0.6139, depth_decay=0.8877, sibling_exponent=0.554),
    backends=_frozen({"flashinfer": 1.0, "triton": 1.03, "torch_native": 2.5, "flex_attention": 1.9}),
)

NVLINK_X8 = NodeDescription(
    name="nvlink-x8",
    about="8 cards on NVLink; invented, fitted to nothing",
    gpus=8,
    sm=100,
    nvlink=True,
    step=StepCosts(
        fixed_ms=4.5,
        allreduce_ms=1.2,
        allreduce_exponent=0.2,
        expert_ms=0.045,
        token_ms=0.012,
        untuned_factor=1.1,
        fusion_saving=0.25,
        expert_overlap=0.6,
        graph_excess=0.03,
    ),
    speculation=SpeculationCosts(verify_v1_ms=1.2, verify_v2_ms=0.6, draft_step_ms=0.25, v1_token_ms=0.03),
    acceptance=Acceptance(first=0.66, depth_decay=0.9, sibling_exponent=0.7),
    backends=_frozen({"flashinfer": 1.0, "triton": 1.08, "trtllm_mla": 0.94, "cutlass_mla": 0.97, "torch_native": 2.5}),
    memory=Memory(gpu_gib=178.0),
)

ONE_CARD_8B = NodeDescription(
    name="one-card-8b",
    about="one 24 GiB card with a dense model of 8 billion parameters; invented, fitted to nothing",
    gpus=1,
    sm=89,
    nvlink=False,
    step=StepCosts(
        fixed_ms=18.5,
        allreduce_ms=0.0,
        allreduce_exponent=0.3,
        expert_ms=0.0,
        token_ms=0.055,
        untuned_factor=1.0,
        fusion_saving=0.0,
        expert_overlap=1.0,
        graph_excess=0.04,
        kv_us_per_token=0.14,
    ),
    speculation=SpeculationCosts(verify_v1_ms=2.4, verify_v2_ms=1.1, draft_step_ms=0.9, v1_token_ms=0.02),
    acceptance=Acceptance(first=0.7, depth_decay=0.93, sibling_exponent=0.6),
    backends=_frozen({"flashinfer": 1.0, "triton": 0.97, "torch_native": 2.0}),
    memory=Memory(
        gpu_gib=23.6,
        weights_gib_total=15.1,
        draft_gib=0.9,
        kv_bytes_per_token=131072,
        activation_mib_per_token=0.15,
    ),
    experts=1,
    experts_per_token=0,
    context_length=32768,
)

NODES: Mapping[str, NodeDescription] = MappingProxyType(
    {node.name: node for node in (RTX_PRO_6000_X8, NVLINK_X8, ONE_CARD_8B)}
)


def node_named(name: str) -> NodeDescription:
    """Raises ValueError with the names there are."""
    try:
        return NODES[name]
    except KeyError:
        raise ValueError(f"no simulated node is called {name!r}; there are {', '.join(sorted(NODES))}") from None
