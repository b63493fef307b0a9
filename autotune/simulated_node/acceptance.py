"""How many draft tokens a verify pass accepts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from autotune.simulated_node.nodes import Acceptance

CLASSES = 16
"""Prompts fall into this many equally likely classes, from hard to easy to draft for."""


@dataclass(frozen=True)
class DraftTree:
    """Shape of what is verified: `steps` levels, `topk` branches, `draft_tokens` nodes with the root."""

    algorithm: str
    steps: int
    topk: int
    draft_tokens: int

    @property
    def candidates(self) -> int:
        """Nodes that the draft can offer, without the root."""
        return self.topk + (self.steps - 1) * self.topk**2


def reach_of(acceptance: Acceptance, tree: DraftTree, prompt_class: int) -> tuple[float, ...]:
    """reach[i] = P(at least i + 1 draft tokens are accepted) for prompts of this class.

    The tree is built as SGLang builds it: on each level the topk best nodes are expanded into topk children each, and
    of all nodes so offered the best draft_tokens - 1 are verified. A deeper node is accepted with the product of the
    probabilities on its path.
    """
    offset = math.sqrt(3.0) * (2 * prompt_class + 1 - CLASSES) / CLASSES  # uniform, standard deviation 1
    first = acceptance.first * acceptance.algorithms.get(tree.algorithm, 1.0) + acceptance.spread * offset
    first = min(0.97, max(0.02, first))
    offered: list[tuple[float, int]] = []
    frontier = [1.0]
    for depth in range(tree.steps):
        shares = _sibling_shares(first * acceptance.depth_decay**depth, tree.topk, acceptance.sibling_exponent)
        children = sorted((parent * share for parent in frontier for share in shares), reverse=True)
        offered += [(probability, depth) for probability in children]
        frontier = children[: tree.topk]
    offered.sort(key=lambda node: (-node[0], node[1]))
    reach = [0.0] * tree.steps
    for probability, depth in offered[: tree.draft_tokens - 1]:
        reach[depth] += probability
    return tuple(value for value in reach if value > 0.0)


def mean_length(acceptance: Acceptance, tree: DraftTree) -> float:
    """Tokens for each verify pass over many requests of equal length: the harmonic mean over the classes, since a
    hard prompt stays longer. The bonus token is included, as SGLang counts."""
    lengths = [1.0 + sum(reach_of(acceptance, tree, index)) for index in range(CLASSES)]
    return CLASSES / sum(1.0 / length for length in lengths)


def _sibling_shares(first: float, topk: int, exponent: float) -> list[float]:
    """P(the j-th best sibling is the accepted one), for j = 1 .. topk."""
    covered = [0.0] + [1.0 - (1.0 - first) * j**-exponent for j in range(1, topk + 1)]
    return [after - before for before, after in pairwise(covered)]
