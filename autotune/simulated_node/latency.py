"""Node time of one step of the scheduler. Milliseconds in, seconds out."""

from __future__ import annotations

import math
from collections.abc import Mapping

from autotune.simulated_node.nodes import NodeDescription
from autotune.simulated_node.plan import ServingPlan

# How the factor between untuned and tuned NCCL divides over its three settings (shares of its logarithm), and the
# laws of the settings that no published figure covers. Assumed.
PATH_SHARE, PROTO_SHARE, ALGO_SHARE = 0.6, 0.3, 0.1
SIMPLE_FACTOR, SIMPLE_EXPONENT = 2.2, -0.13
SOCKET_FACTOR = 12.0
TREE_FACTOR = 1.12
CUSTOM_ALL_REDUCE_FACTOR = 0.45
P2P_PENALTY = {"SYS": 0.0, "5": 0.0, "4": 0.0, "PHB": 0.5, "3": 0.5}


class StepModel:
    """Times of prefill and decode steps for one node and one resolved server."""

    def __init__(self, node: NodeDescription, plan: ServingPlan) -> None:
        self._node = node
        self._plan = plan
        self._allreduce_factor = allreduce_factor(node, plan)
        self._simple = plan.environment.get("NCCL_PROTO", "").strip().lower() == "simple"
        self._decode_cache: dict[int, float] = {}
        self._kv_s = node.step.kv_us_per_token * 1e-6
        self._prefill_s = node.step.prefill_ms_per_token * 1e-3 * self._backend_factor()

    def prefill_s(self, tokens: int) -> float:
        return self._prefill_s * tokens

    def decode_s(self, running: int, context_tokens: int) -> float:
        """One decode step of `running` requests that hold `context_tokens` tokens of KV cache together."""
        cached = self._decode_cache.get(running)
        if cached is None:
            cached = self._decode_cache[running] = self._decode_ms(running) * 1e-3
        return cached + self._kv_s * context_tokens

    def uses_graph(self, running: int) -> bool:
        return running <= self._plan.graph_max_bs

    def verify_ms(self, running: int) -> float:
        """The target's forward pass alone, with the overhead of verifying where there is speculation."""
        plan, costs = self._plan, self._node.speculation
        forward = self.forward_ms(running)
        if plan.tree is None:
            return forward
        return forward + (costs.verify_v2_ms if plan.overlap else costs.verify_v1_ms)

    def draft_ms(self, running: int) -> float:
        """Drafting for one step; NGRAM looks drafts up and pays next to nothing."""
        tree, costs = self._plan.tree, self._node.speculation
        if tree is None or tree.algorithm == "NGRAM":
            return 0.0
        per_step = costs.draft_step_ms + costs.draft_token_ms * running * tree.topk
        return tree.steps * per_step * (8.0 if tree.algorithm == "STANDALONE" else 1.0)

    def forward_ms(self, running: int) -> float:
        node, plan, step = self._node, self._plan, self._node.step
        width = plan.tree.draft_tokens if plan.tree else 1
        tokens = float(running * width)
        independent = running * (1.0 + (width - 1) * step.expert_overlap)
        experts = node.experts * (1.0 - math.pow(1.0 - node.experts_per_token / node.experts, independent))
        reduce_ms = step.allreduce_ms * math.pow(tokens, step.allreduce_exponent) * self._allreduce_factor
        if self._simple:
            reduce_ms *= math.pow(tokens, SIMPLE_EXPONENT)
        total = step.fixed_ms + reduce_ms + step.expert_ms * experts + step.token_ms * tokens
        if not self.uses_graph(running):
            return total * step.eager_factor * self._backend_factor()
        above = max(0, plan.graph_max_bs - 128) / (512 - 128)
        return total * (1.0 + step.graph_excess * above) * self._backend_factor()

    def _decode_ms(self, running: int) -> float:
        plan, node = self._plan, self._node
        total = self.verify_ms(running)
        if plan.tree is None:
            if not plan.overlap:
                total += node.step.no_overlap_ms + node.step.no_overlap_request_ms * running
            return total
        if not plan.overlap:
            total += self.draft_ms(running)
            total += node.speculation.v1_token_ms * plan.tree.draft_tokens * running
        return total

    def _backend_factor(self) -> float:
        return self._node.backends.get(self._plan.attention_backend, 1.0)


def allreduce_factor(node: NodeDescription, plan: ServingPlan) -> float:
    """All-reduce time at one token against the tuned node's (LL, Ring, P2P over SYS, no fusion)."""
    env = {key: value.strip() for key, value in plan.environment.items() if key.startswith("NCCL_")}
    untuned = math.log(node.step.untuned_factor)
    factor = 1.0
    if node.nvlink and plan.custom_all_reduce:
        factor = CUSTOM_ALL_REDUCE_FACTOR
    else:
        if not node.nvlink:
            factor *= math.exp(PATH_SHARE * untuned * _path_penalty(env))
        proto = env.get("NCCL_PROTO", "").lower()
        if proto == "simple":
            factor *= SIMPLE_FACTOR
        elif proto not in ("ll", "ll128"):
            factor *= math.exp(PROTO_SHARE * untuned)
        algo = env.get("NCCL_ALGO", "").lower()
        if "ring" not in algo:
            factor *= math.exp(ALGO_SHARE * untuned) * (TREE_FACTOR if "tree" in algo else 1.0)
    if _shared_memory_off(env):
        factor *= SOCKET_FACTOR
    return factor * ((1.0 - node.step.fusion_saving) if plan.fusion else 1.0)


def _path_penalty(env: Mapping[str, str]) -> float:
    """0: every pair of cards talks directly; 1: through host memory. NCCL reads the level case-sensitively and
    ignores unknown words."""
    if env.get("NCCL_P2P_DISABLE") == "1":
        return 1.0
    return P2P_PENALTY.get(env.get("NCCL_P2P_LEVEL", ""), 1.0)


def _shared_memory_off(env: Mapping[str, str]) -> bool:
    return env.get("NCCL_P2P_DISABLE") == "1" and env.get("NCCL_SHM_DISABLE") == "1"
