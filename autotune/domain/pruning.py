"""A trial that ends before its last level: who decides it, and what is recorded of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from autotune.domain.level import Level, named_all
from autotune.domain.measurement import Estimate, Measurement

_UNITS = {"weighted_throughput": ("tok/s", 1), "weighted_speedup": ("x", 2), "weighted_goodput": ("req/s", 2)}


@dataclass(frozen=True)
class Bound:
    """Why a trial was stopped. `score`: at most this, in the metric's unit and as of the first baseline where the node
    drifts; `best`: the best score by then, likewise, of the trial `holder`. `measured`: levels in the order in which
    they ran; `optimistic`: tokens a second that are assumed at each of the others."""

    metric: str
    score: float
    best: Estimate
    holder: int
    measured: tuple[Level, ...]
    optimistic: Mapping[Level, float] = field(default_factory=dict)

    def __str__(self) -> str:
        """`stopped after levels 64 and 16: at most 0.81 x, the best (trial 5) has 1.12 ± 0.02`."""
        return f"stopped after {named_all(self.measured)}: at most {self.at_most}, {self.the_best}"

    @property
    def at_most(self) -> str:
        """The bound with its unit: `0.81 x`."""
        unit, digits = _UNITS.get(self.metric, ("", 3))
        return f"{self.score:.{digits}f} {unit}".rstrip()

    @property
    def the_best(self) -> str:
        """`the best (trial 5) has 1.12 ± 0.02`."""
        _unit, digits = _UNITS.get(self.metric, ("", 3))
        half = self.best.half_width
        value = f"{self.best.value:.{digits}f}" + ("" if half is None else f" ± {half:.{digits}f}")
        return f"the best (trial {self.holder}) has {value}"


class LevelScreen(Protocol):
    """Asked after each level of a trial, and within one how its present figure would be judged. Pure: what it knows of
    other trials is fixed when the trial begins."""

    @property
    def order(self) -> tuple[Level, ...]:
        """Every level of the workload, in the order in which they are to be measured."""
        ...

    def bound(self, measurements: Sequence[Measurement]) -> Bound | None:
        """None: go on. `measurements` are those of the levels so far. Only their throughput is read: of a level that is
        still running there is nothing else."""
        ...
