"""The published table, the servers behind it, and what is true of them on the simulated node that was fitted to it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from benchmarks.measuring.virtual import TUNED, Noise, VirtualNode

NODE = "rtx-pro-6000-x8"
LEVELS = (1, 2, 5, 10, 30, 70, 100, 250)
REQUESTS = 30
WARMUP_REQUESTS = 5
TOKENS = 512
"""Tokens of an answer in the closed loop that is called true here. The published chain was asked for 200 only."""

SAME_LOAD = tuple(level for level in LEVELS if level >= REQUESTS)
"""Of 30 requests no more than 30 are in flight: these levels are one load."""

_COMMON = (
    *("--tp-size", "8", "--attention-backend", "flashinfer", "--cuda-graph-max-bs", "128"),
    *("--disable-custom-all-reduce", "--enable-flashinfer-allreduce-fusion"),
)
_DRAFT = ("--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", "d", "--speculative-num-steps", "2")


@dataclass(frozen=True)
class Server:
    """`tokens`: of an answer in the published protocol; `published`: its row of the table, by level."""

    name: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    tokens: int
    published: Mapping[int, float]

    def raised(self, cap: int = 256) -> Server:
        """With room for all levels in the batch. A chunk for every 16 tokens, so that millions of tokens are quickly
        simulated: the step times do not know of it."""
        more = ("--max-running-requests", str(cap), "--stream-interval", "16")
        return replace(self, arguments=(*self.arguments, *more))

    def node(self, seed: int, noise: Noise) -> VirtualNode:
        return VirtualNode(NODE, self.arguments, self.environment, seed=seed, noise=noise)

    def truth(self, level: int) -> float:
        """tok/s of an endless closed loop with `level` in flight, all answers of TOKENS tokens."""
        return self.node(0, Noise(relative=0.0)).truth(level, TOKENS)


def _row(*figures: float) -> dict[int, float]:
    return dict(zip(LEVELS, figures, strict=True))


BASELINE = Server(
    "baseline", _COMMON, TUNED, 512, _row(92.7, 157.7, 290.8, 453.2, 689.4, 752.8, 773.1, 718.1)
)  # fmt: skip
TREE = Server(
    "tree",
    (*_COMMON, *_DRAFT, "--speculative-eagle-topk", "4", "--speculative-num-draft-tokens", "16"),
    TUNED,
    512,
    _row(80.9, 128.3, 189.2, 246.3, 313.3, 349.3, 353.1, 353.8),
)
CHAIN = Server(
    "chain",
    (*_COMMON, *_DRAFT, "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "3"),
    {**TUNED, "SGLANG_ENABLE_SPEC_V2": "1"},
    200,
    _row(86.8, 145.5, 279.0, 428.0, 759.3, 768.6, 775.0, 754.4),
)
TWIN = replace(BASELINE, name="twin", published={})
"""The baseline once more, as after a change of a flag that does nothing."""

SERVERS = (BASELINE, TREE, CHAIN, TWIN)


def scatter(rows: list[list[float]]) -> float:
    """Relative standard deviation of figures of one load, pooled over the rows."""
    shares = []
    for row in rows:
        mean = sum(row) / len(row)
        shares.append(sum((value / mean - 1.0) ** 2 for value in row) / (len(row) - 1))
    return math.sqrt(sum(shares) / len(shares))


PUBLISHED_SCATTER = scatter([[s.published[level] for level in SAME_LOAD] for s in (BASELINE, TREE, CHAIN)])
