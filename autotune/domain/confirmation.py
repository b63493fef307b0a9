"""After the search: the best few against the baseline on fresh servers; and how the node drifted meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from autotune.domain.level import Level
from autotune.domain.measurement import Estimate


@dataclass(frozen=True)
class Confirm:
    """How the best few are to be confirmed. `finalists`: at most so many. `share`: of the study's node time. `rounds`:
    at most so many servers of each."""

    finalists: int = 3
    share: float = 0.2
    rounds: int = 6


@dataclass(frozen=True)
class Replicate:
    """Which run of a confirmation a trial is. `finalists` are the numbers of the trials that are confirmed, `confirms`
    is one of them, or None for a run of the baseline. `rounds`, counted from 1, are planned in all."""

    confirms: int | None
    round: int
    rounds: int
    finalists: tuple[int, ...]


@dataclass(frozen=True)
class Finalist:
    """`trial`: number of the search's trial. `gain`: ratio to the baseline, with an interval that holds for all
    finalists and all looks at once. `levels`: ratio at each level. `servers`: launches that were measured.

    verdict: better, worse or unclear, against the baseline. `behind`: ratio to the leader, None for the leader itself.
    `dropped`: why it was not measured on, else empty.
    """

    trial: int
    servers: int
    gain: Estimate | None = None
    verdict: str = "unclear"
    behind: Estimate | None = None
    levels: Mapping[Level, float] = field(default_factory=dict)
    dropped: str = ""


@dataclass(frozen=True)
class Confirmation:
    """`finalists`: the leader first. `outcome`: one of OUTCOMES. `rounds`: how many were completed, of `planned`.
    `looks`: how often the figures were looked at, of as many as were planned. `launch_spread`: standard deviation of
    the logarithm of the objective between two launches of one configuration, None while it cannot be told."""

    finalists: tuple[Finalist, ...]
    baseline_servers: int
    rounds: int
    planned: int
    outcome: str
    launch_spread: float | None = None
    node_seconds: float = 0.0

    OUTCOMES = ("winner", "none", "undecided")

    @property
    def winner(self) -> Finalist | None:
        return self.finalists[0] if self.outcome == "winner" and self.finalists else None

    @property
    def near(self) -> tuple[Finalist, ...]:
        """Finalists that are not told apart from the leader."""
        return tuple(f for f in self.finalists[1:] if f.behind is not None and (f.behind.high or 1.0) >= 1.0)


@dataclass(frozen=True)
class Drift:
    """What the repeats of the baseline say of the node, over `hours` from the first to the last.

    change: the baseline's expected ratio, last over first. `levels`: the same for each level, None where the repeats
    hardly tell. `launch_spread`: standard deviation between launches, relative; None likewise. `corrected`: by trial,
    the score as it would have been at the time of the first baseline, with an interval that carries launch, drift and
    window. `largest`: the largest correction, relative. `told`: False where `change` is mostly what is assumed of a
    node, as the repeats' windows are wide. `window`: relative half-width of the median repeat's window at 95 %.
    """

    repeats: int
    hours: float
    change: Estimate
    launch_spread: float | None
    levels: Mapping[Level, Estimate | None] = field(default_factory=dict)
    corrected: Mapping[int, Estimate] = field(default_factory=dict)
    largest: float = 0.0
    told: bool = True
    window: float = 0.0

    @property
    def seen(self) -> bool:
        """The interval of the change excludes none at all."""
        low, high = self.change.low, self.change.high
        return low is not None and high is not None and not low <= 1 <= high
