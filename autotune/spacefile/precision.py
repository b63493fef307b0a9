"""`workload.precision`: half of the 95 % interval over the throughput, as `2%` or as 0.02."""

from __future__ import annotations

import re

from autotune.spacefile import fields
from autotune.spacefile.tree import Node, Scalar

_PERCENT = re.compile(r"(\d+\.?\d*|\.\d+)\s*%")
FINEST, COARSEST = 0.001, 0.5


def read(node: Node) -> float:
    """Raises a refusal for what is neither, or outside of 0.1 % to 50 %."""
    match = _PERCENT.fullmatch(node.text) if isinstance(node, Scalar) else None
    share = float(match.group(1)) / 100.0 if match else fields.number(node)
    if not FINEST <= share <= COARSEST:
        raise fields.refuse(node, "between 0.1% and 50%", "write `precision: 2%`")
    return share
