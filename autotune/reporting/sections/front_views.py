"""The front and the best of each level, for readers: tables, a small plot of characters, and plain data."""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from typing import Any

from autotune.domain.level import Level, Rate, as_data
from autotune.domain.measurement import Estimate
from autotune.domain.slo import short
from autotune.domain.study import StudyResult
from autotune.reporting.changes import differences_from_baseline
from autotune.reporting.figures import number, with_interval
from autotune.reporting.layout import Table
from autotune.reporting.sections.fronts import LevelBest, Point, best_per_level, front, points

_WIDTH, _HEIGHT = 60, 14
_ROWS = 24
_RIVALS = 5


def best_rows(result: StudyResult) -> Table:
    """A row for each level in flight: whose throughput is the highest, and who is not clearly below."""
    rows = tuple(_best_row(result, best) for best in best_per_level(result) if not isinstance(best.level, Rate))
    header = ("concurrency", "trial", "throughput, tok/s", "per request, tok/s", "", "configuration")
    return Table(header, rows, frozenset({0, 1, 2, 3}))


def best_rate_rows(result: StudyResult) -> Table:
    """A row for each rate that some trial sustains within its bounds: whose goodput is the highest."""
    rows = []
    for best in best_per_level(result):
        point, measured = best.point, best.point.trial.at(best.level)
        if not isinstance(best.level, Rate) or measured is None:
            continue
        share = "" if measured.good_share is None else f"{measured.good_share.value:.1%}"
        ttft = number(measured.ttft_ms.p95 if measured.ttft_ms is not None else None)
        what = differences_from_baseline(point.trial.configuration, result.spec.baseline)
        shown = with_interval(point.served, 2), share, ttft
        rows.append((str(best.level), str(point.trial.number), *shown, clearness(best), what))
    header = ("rate", "trial", "goodput, req/s", "good", "TTFT p95, ms", "", "configuration")
    return Table(header, tuple(rows), frozenset({0, 1, 2, 3, 4}))


def _best_row(result: StudyResult, best: LevelBest) -> tuple[str, ...]:
    point = best.point
    what = differences_from_baseline(point.trial.configuration, result.spec.baseline)
    shown = with_interval(point.served), with_interval(point.each)
    return (str(best.level), str(point.trial.number), *shown, clearness(best), what)


def clearness(best: LevelBest) -> str:
    """`clear`, or `no clear one: trials 3, 5 are not clearly below`, or that there was nothing to compare it with."""
    if not best.others:
        return "the only one"
    if best.clear:
        return "clear"
    numbers = [str(rival.trial.number) for rival in best.rivals]
    more = f" and {len(numbers) - _RIVALS} more" if len(numbers) > _RIVALS else ""
    many = len(numbers) > 1
    named = f"{'trials' if many else 'trial'} {', '.join(numbers[:_RIVALS])}{more} {'are' if many else 'is'}"
    return f"no clear one: {named} not clearly below"


def front_rows(result: StudyResult) -> Table:
    """Points of the front, fastest for one user first; at most the first `_ROWS`. The mark is a trial's in the plot."""
    kept = front(points(result))
    marks = _marks(kept)
    rows = []
    for point in kept[:_ROWS]:
        measured = point.trial.at(point.level)
        ttft = measured.ttft_ms.p95 if measured is not None and measured.ttft_ms is not None else None
        what = differences_from_baseline(point.trial.configuration, result.spec.baseline)
        shown = with_interval(point.each), with_interval(point.served), number(ttft)
        rows.append((marks[point.trial.number], str(point.trial.number), str(point.level), *shown, what))
    head = ("", "trial", "concurrency", "per request, tok/s", "throughput, tok/s", "TTFT p95, ms", "configuration")
    return Table(head, tuple(rows), frozenset({1, 2, 3, 4, 5}))


def front_plot(result: StudyResult) -> str:
    """Both axes logarithmic. A letter is a trial on the front, a dot a point that is clearly below it. Empty where
    there are fewer than three points."""
    every = points(result)
    if len(every) < 3:
        return ""
    kept = front(every)
    marks = _marks(kept)
    across, up = _Axis([p.each.value for p in every], _WIDTH), _Axis([p.served.value for p in every], _HEIGHT)
    grid = [[" "] * _WIDTH for _ in range(_HEIGHT)]
    for point in (*(p for p in every if p not in kept), *reversed(kept)):
        mark = marks[point.trial.number] if point in kept else "·"
        grid[_HEIGHT - 1 - up.place(point.served.value)][across.place(point.each.value)] = mark
    margin = max(len(up.first), len(up.last))
    lines = [f"{label.rjust(margin)} |{''.join(row)}".rstrip() for label, row in zip(up.labels(), grid, strict=True)]
    foot = across.first + across.last.rjust(_WIDTH - len(across.first))
    return "\n".join(
        [
            "throughput, tok/s",
            *lines,
            f"{' ' * margin} +{'-' * _WIDTH}",
            f"{' ' * margin}  {foot}",
            f"{' ' * margin}  per request, tok/s",
        ]
    )


def front_line(result: StudyResult) -> str:
    """`trial 3 at 1, 2; trial 5 at 8`: who is on the front where; empty where there is no more than one point."""
    kept = front(points(result))
    where: dict[int, list[Level]] = {}
    for point in kept:
        where.setdefault(point.trial.number, []).append(point.level)
    if len(kept) < 2:
        return ""
    parts = (f"trial {trial} at {', '.join(map(str, sorted(levels)))}" for trial, levels in sorted(where.items()))
    return "; ".join(parts)


def front_data(result: StudyResult) -> list[dict[str, Any]]:
    return [
        {
            "trial": point.trial.number,
            **as_data(point.level),
            "per_request_rate": point.each.value,
            "per_request_rate_interval": _interval(point.each),
            "throughput": point.served.value,
            "throughput_interval": _interval(point.served),
        }
        for point in front(points(result))
    ]


def best_data(result: StudyResult) -> list[dict[str, Any]]:
    return [
        {
            **as_data(best.level),
            "trial": best.point.trial.number,
            "goodput" if isinstance(best.level, Rate) else "throughput": best.point.served.value,
            "interval": _interval(best.point.served),
            "clear": best.clear,
            "not_clearly_below": [rival.trial.number for rival in best.rivals],
        }
        for best in best_per_level(result)
    ]


class _Axis:
    """Logarithms of positive values on so many places."""

    def __init__(self, values: Sequence[float], places: int) -> None:
        self._low, self._high, self._places = math.log(min(values)), math.log(max(values)), places

    @property
    def first(self) -> str:
        return short(math.exp(self._low))

    @property
    def last(self) -> str:
        return short(math.exp(self._high))

    def place(self, value: float) -> int:
        if self._high <= self._low:
            return 0
        return round((math.log(value) - self._low) / (self._high - self._low) * (self._places - 1))

    def labels(self) -> list[str]:
        """From the top down, the ends alone."""
        return [self.last, *[""] * (self._places - 2), self.first]


def _marks(kept: Sequence[Point]) -> dict[int, str]:
    """A letter for each trial of the front; `*` for those beyond the alphabet."""
    numbers = list(dict.fromkeys(point.trial.number for point in kept))
    letters = string.ascii_uppercase + string.ascii_lowercase
    return {number: letters[place] if place < len(letters) else "*" for place, number in enumerate(numbers)}


def _interval(estimate: Estimate) -> list[float] | None:
    return None if estimate.low is None or estimate.high is None else [estimate.low, estimate.high]
