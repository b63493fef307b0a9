"""Several objectives out of the same trials: the front of what one user sees against throughput, and the best of each
level.

A point is one trial at one level. At a rate throughput is the rate: goodput stands in its place, and the front has no
such points. Only what is measured decides, with its uncertainty: a point leaves the front when
another is clearly above it on both axes, and the best of a level is clear only if all others are clearly below it.
Clearly means that the 95 % interval of the difference excludes 0; how many points there are does not widen it. The
interval of the per-request rate is that of the throughput, in per cent: the requests of a level share it out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from autotune.domain.level import Level, Rate
from autotune.domain.measurement import Estimate, Measurement
from autotune.domain.study import StudyResult
from autotune.domain.trial import TrialResult


@dataclass(frozen=True)
class Point:
    """`each`: per-request rate, tok/s; `served`: tok/s of the level, at a rate good requests a second."""

    trial: TrialResult
    level: Level
    each: Estimate
    served: Estimate


@dataclass(frozen=True)
class LevelBest:
    """`point` has the level's highest throughput (at a rate goodput); `rivals`, highest first, are not clearly below
    it. `clear`: it has an interval, rivals there are none, and there were others."""

    level: Level
    point: Point
    rivals: tuple[Point, ...]
    others: int

    @property
    def clear(self) -> bool:
        return self.others > 0 and not self.rivals


def points(result: StudyResult) -> tuple[Point, ...]:
    """Each server once, at each level in flight that its first complete trial measured; without those that break a
    bound of the SLO at that level."""
    return tuple(point for point in _points(result) if not isinstance(point.level, Rate))


def _points(result: StudyResult) -> tuple[Point, ...]:
    """At rates too, where they are sustained."""
    found: list[Point] = []
    seen = set()
    for trial in result.complete:
        if trial.duplicate_of is not None or trial.configuration in seen:
            continue
        seen.add(trial.configuration)
        broken = {check.level for check in trial.broken}
        for measured in (trial.at(level) for level in result.spec.workload.levels if level not in broken):
            point = None if measured is None else _point(trial, measured)
            found += [] if point is None else [point]
    return tuple(found)


def _point(trial: TrialResult, measured: Measurement) -> Point | None:
    each = measured.per_request_rate
    if isinstance(measured.level, Rate):
        if measured.goodput is None or measured.goodput.value <= 0 or each is None or not measured.sustained:
            return None
        return Point(trial, measured.level, Estimate(each), measured.goodput)
    served = measured.output_throughput
    if served is None or each is None or served.value <= 0:
        return None
    return Point(trial, measured.level, _as_uncertain_as(served, each), served)


def left_out(result: StudyResult) -> int:
    """Points, of levels in flight, that are none since they break a bound."""
    broken = ({check.level for check in trial.broken} for trial in result.complete if trial.duplicate_of is None)
    return sum(not isinstance(level, Rate) for levels in broken for level in levels)


def front(found: Iterable[Point]) -> tuple[Point, ...]:
    """Those that no other point is clearly above, fastest for one user first. Where a point has no interval its values
    decide: it would stay on any front."""
    every = tuple(found)
    kept = [point for point in every if not any(_dominates(other, point) for other in every)]
    return tuple(sorted(kept, key=lambda p: (-p.each.value, -p.served.value, p.trial.number)))


def best_per_level(result: StudyResult) -> tuple[LevelBest, ...]:
    """Levels that no trial may be called the best of are left out."""
    every = _points(result)
    bests = (_best(level, [p for p in every if p.level == level]) for level in result.spec.workload.levels)
    return tuple(best for best in bests if best is not None)


def best_at(result: StudyResult, level: Level) -> LevelBest | None:
    return next((best for best in best_per_level(result) if best.level == level), None)


def _best(level: Level, found: list[Point]) -> LevelBest | None:
    if not found:
        return None
    ordered = sorted(found, key=lambda p: (-p.served.value, p.trial.number))
    first, others = ordered[0], ordered[1:]
    rivals = tuple(p for p in others if not first.served.is_clearly_above(p.served))
    return LevelBest(level, first, rivals, len(others))


def _dominates(above: Point, below: Point) -> bool:
    pairs = ((above.each, below.each), (above.served, below.served))
    if any(end.half_width is None for pair in pairs for end in pair):
        return all(high.value > low.value for high, low in pairs)
    return all(high.is_clearly_above(low) for high, low in pairs)


def _as_uncertain_as(known: Estimate, value: float) -> Estimate:
    if known.low is None or known.high is None:
        return Estimate(value)
    return Estimate(value, value * known.low / known.value, value * known.high / known.value, known.batches)
