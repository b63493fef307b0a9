"""What speaks against a figure: findings of guards, and what the server's own log says of a window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from autotune.domain.level import Level, named


class Effect(StrEnum):
    """What a finding does to the level that it was made at."""

    VOID = "void"  # none of the level's figures stands: they are missing, and no score is made of them
    ALARM = "alarm"  # the figures stand; whoever reads any of the trial's must see this first
    MARK = "mark"  # the figures stand, for what the text says of them


@dataclass(frozen=True)
class Finding:
    """One guard's finding. `values` are the figures that it rests on; `level` None: it holds for the whole trial.

    The rule of each guard stands in autotune/scoring/guarding/guards.py.
    """

    guard: str
    effect: Effect
    text: str
    level: Level | None = None
    values: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        """`mark eager_steps, level 64: 31% of ...`"""
        where = "" if self.level is None else f", {named(self.level)}"
        return f"{self.effect} {self.guard}{where}: {self.text}"


@dataclass(frozen=True)
class ServerWindow:
    """What the server's own log says of a level's window, from `lines` lines on decode steps, each a sample.

    running, queued: mean numbers of requests, over all data-parallel replicas; running_median likewise. eager_share:
    of the sampled steps (0 to 1), those that ran without a graph. accept_length: tokens for each verify pass, as the
    server counts them. None where the lines do not say.
    """

    lines: int
    running: float
    running_median: float
    queued: float | None = None
    eager_share: float | None = None
    accept_length: float | None = None
