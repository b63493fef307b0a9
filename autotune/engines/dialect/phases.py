"""How far a server had come, by the marks that SGLang leaves in its log."""

from __future__ import annotations

import re
from enum import Enum


class Phase(Enum):
    """The last of these whose mark is in the log."""

    ARGUMENTS = "reading its arguments"
    COMMUNICATION = "connecting its GPUs"
    PREPARING = "preparing to load weights"
    WEIGHTS = "loading weights"
    POOL = "allocating the KV cache"
    GRAPHS = "capturing graphs"
    WARM_UP = "warming up"
    SERVING = "serving"


MARKS: tuple[tuple[re.Pattern[str], Phase], ...] = (
    (re.compile(r"Init (torch distributed|parallel) begin"), Phase.COMMUNICATION),
    (re.compile(r"Init (torch distributed|parallel) ends"), Phase.PREPARING),
    (re.compile(r"Load weight begin"), Phase.WEIGHTS),
    (re.compile(r"Load weight end"), Phase.POOL),
    (re.compile(r"Capture .*graph.* begin", re.IGNORECASE), Phase.GRAPHS),
    (re.compile(r"\bmax_total_num_tokens=\d"), Phase.WARM_UP),
    (re.compile(r"The server is fired up and ready to roll!"), Phase.SERVING),
)
"""A draft model passes the first four once more. 0.5.9 to 0.5.22 say "torch distributed", 0.5.23 "parallel"."""

ANY_MARK = re.compile("|".join(f"(?:{pattern.pattern})" for pattern, _ in MARKS), re.IGNORECASE)
"""Holds for few lines: the marks themselves are then looked at one by one."""

BEFORE_WEIGHTS = frozenset({Phase.ARGUMENTS, Phase.COMMUNICATION, Phase.PREPARING})
STARTING = frozenset(Phase) - {Phase.SERVING}
RUNNING = frozenset({Phase.WARM_UP, Phase.SERVING})
