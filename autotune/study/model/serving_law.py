"""What is known beforehand of how a server's throughput is made, whatever the node. Pure functions of values.

    tokens per second at a level = requests in flight x accept length / time of one cycle

- No more requests are in flight than `max_running_requests` lets in: the rest of the level waits.
- A cycle verifies in flight x draft tokens at once.
- A batch larger than the largest captured graph (`cuda_graph_max_bs`) runs without one.
- A chain of drafts goes on while each is accepted: its length is a geometric sum.

None of this says how long a cycle takes or how often a draft is accepted: that is learnt.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from autotune.domain.configuration import Value

DRAFTING = "speculative_"
"""Parameters by which drafts are made begin so. Whether drafting overlaps with verifying (spec_v2) is none of them."""

ALGORITHM = "speculative_algorithm"
_STEPS, _DRAFT_TOKENS = "speculative_num_steps", "speculative_num_draft_tokens"
_CAP, _GRAPH = "max_running_requests", "cuda_graph_max_bs"

ACCEPTED = 0.65
"""Chance that one draft is accepted, as long as no accept length was seen; and its standard deviation."""
ACCEPTED_DEVIATION = 0.15

Batch = Literal["unknown", "in a graph", "beyond the graphs"]
UNKNOWN: Batch = "unknown"


def in_flight(values: Mapping[str, Value], level: int) -> float:
    """Of the `level` requests that the client keeps open, those that the server works on."""
    cap = _positive(values, _CAP)
    return float(level) if cap is None else min(float(level), cap)


def width(values: Mapping[str, Value]) -> float:
    """Tokens that one request has verified at once."""
    tokens, steps = _positive(values, _DRAFT_TOKENS), _positive(values, _STEPS)
    if tokens is not None:
        return tokens
    return 1.0 if steps is None else steps + 1.0


def depth(values: Mapping[str, Value]) -> float:
    """The longest chain of drafts; 0 where nothing says that there is one."""
    steps, tokens = _positive(values, _STEPS), _positive(values, _DRAFT_TOKENS)
    if steps is not None:
        return steps
    return 0.0 if tokens is None else max(0.0, tokens - 1.0)


def batch(values: Mapping[str, Value], level: int) -> Batch:
    largest = _positive(values, _GRAPH)
    if largest is None:
        return UNKNOWN
    return "in a graph" if in_flight(values, level) <= largest else "beyond the graphs"


def graphs(values: Mapping[str, Value]) -> float:
    """About how many batch sizes are captured: every eighth up to the largest; 0 where that is not said."""
    return (_positive(values, _GRAPH) or 0.0) / 8.0


def chain_length(steps: float) -> tuple[float, float]:
    """Log of the accept length of a chain, and its derivative by the chance that one draft is accepted."""
    count = round(steps)
    length = sum(ACCEPTED**power for power in range(count + 1))
    slope = sum(power * ACCEPTED ** (power - 1) for power in range(1, count + 1))
    return math.log(length), slope / length


def _positive(values: Mapping[str, Value], name: str) -> float | None:
    value = values.get(name)
    if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
        return float(value)
    return None
