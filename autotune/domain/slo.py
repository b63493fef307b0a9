"""Service-level objectives: bounds on what a level may show, and how what it showed stands to them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from autotune.domain.level import Level, named

PERCENTILES = ("p50", "p95", "p99")
CEILINGS = (
    *(f"{name}_{percentile}_ms" for name in ("ttft", "tpot", "itl") for percentile in PERCENTILES),
    *(f"e2e_{percentile}_s" for percentile in PERCENTILES),
)
"""Figures of a level that may be at most the bound."""

FLOORS = ("per_request_rate", "good_share")
"""Figures of a level that must be at least the bound: tok/s that one user sees; share of requests that are good."""

REQUEST_BOUNDS = ("ttft_ms", "tpot_ms", "e2e_s")
"""Bounds on each single request: one within all of them is good. They make goodput, and break nothing by themselves."""

UNSEEN = 1.0
"""What a bound on a figure that was not seen adds to a trial's violation: as much as a ceiling reached twice over."""


@dataclass(frozen=True)
class Slo:
    """Bounds by the name of their figure. `everywhere` holds at each level, `levels` at single ones; at a level its
    own bound on a figure takes the place of the general one."""

    everywhere: Mapping[str, float] = field(default_factory=dict)
    levels: Mapping[Level, Mapping[str, float]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.everywhere) or any(self.levels.values())

    def at(self, level: Level) -> dict[str, float]:
        """Bounds on the figures of this level."""
        return {name: bound for name, bound in self._all_at(level).items() if name not in REQUEST_BOUNDS}

    def of_a_request(self, level: Level) -> dict[str, float]:
        """Bounds on each of this level's requests."""
        return {name: bound for name, bound in self._all_at(level).items() if name in REQUEST_BOUNDS}

    def _all_at(self, level: Level) -> dict[str, float]:
        return {**self.everywhere, **self.levels.get(level, {})}


@dataclass(frozen=True)
class SloCheck:
    """One bound at one level. `observed` None: the level does not show the figure, and the bound counts as broken.

    violation: observed / bound - 1 for a ceiling, 1 - observed / bound for a floor; above 0 is broken. `low`, `high`:
    the figure's own 95 % interval, each None where so few `requests` set no end to it. A rate that is not `sustained`
    keeps no bound, whatever was seen until it was given up; `violation` is then None, or above what that counts for.
    """

    figure: str
    level: Level
    bound: float
    observed: float | None
    violation: float | None
    requests: int
    low: float | None = None
    high: float | None = None
    sustained: bool = True

    @property
    def broken(self) -> bool:
        return self.violation is None or self.violation > 0

    @property
    def clear(self) -> bool:
        """Whether the whole interval lies on the side of the bound on which the figure does."""
        if not self.sustained:
            return True
        if self.observed is None:
            return False
        above = self.broken != (self.figure in FLOORS)
        if above:
            return self.low is not None and self.low >= self.bound
        return self.high is not None and self.high <= self.bound

    def __str__(self) -> str:
        """`ttft_p95_ms at level 64: 812 > 500`, and how far that is to be trusted where it is not clear."""
        where = f"{self.figure} at {named(self.level)}"
        if not self.sustained:
            return f"{where}: the rate is not sustained, and {self.bound:g} is the bound"
        if self.observed is None:
            return f"{where}: not seen, and {self.bound:g} is the bound"
        if self.figure in FLOORS:
            sign = "<" if self.broken else "≥"
        else:
            sign = ">" if self.broken else "≤"
        doubt = "" if self.clear else f" (unclear, {self.requests} requests)"
        return f"{where}: {short(self.observed)} {sign} {self.bound:g}{doubt}"


def requests_needed(figure: str) -> int:
    """How many requests a percentile needs for its 95 % interval to have an upper end, hence for its bound to be kept
    clearly: 6, 72 or 368. 1 for what is no percentile."""
    percentile = next((name for name in PERCENTILES if f"_{name}_" in figure), None)
    return 1 if percentile is None else math.ceil(math.log(0.025) / math.log(int(percentile[1:]) / 100))


def short(value: float) -> str:
    """Three significant digits, without an exponent: `812`, `30.4`, `0.953`, `12840`."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
