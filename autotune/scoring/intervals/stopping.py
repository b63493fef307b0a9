"""When a level may end: warm-up is over, and its interval is as narrow as was asked.

Looking again and again at an interval and stopping when it is narrow stops too often when it is too narrow by chance
(Chow and Robbins 1965 need no remedy for that only because their intervals get narrow without end). Three things
keep the coverage:

- Looks are few. The first comes with the plan's floor (5 requests a slot), later ones when half as many more requests
  have ended: at most 6 looks up to 8 times the floor.
- The half-width must be below MARGIN of what was asked, so that a level does not stop for a width that a little luck
  made.
- The interval is a mixture over laws of dependence that the window cannot tell apart. It is widest just where a plain
  one would be too narrow: in windows that are short against the noise.

What the three amount to is counted, not derived: benchmarks/measuring/coverage.py, docs/studies/coverage.md.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass

from autotune.domain.measurement import LevelRun, RequestRecord
from autotune.domain.stopping import Look
from autotune.scoring.intervals.interval import fill_live, uncertainty
from autotune.scoring.intervals.stationarity import warm_up_parts

MARGIN = 0.9


@dataclass(frozen=True)
class WarmAndPrecise:
    """`precision`: half of the 95 % interval over the throughput; None: the floor of requests is enough."""

    precision: float | None = None

    def look(
        self, run: LevelRun, live: Iterable[RequestRecord], *, may_open_later: bool
    ) -> Generator[None, None, Look]:
        """See domain.stopping.StoppingRule."""
        if run.window is None:
            return Look(enough=False)
        series = yield from fill_live(run.window, run.records, live)
        if series is None:
            return Look(enough=self.precision is None)
        rates, length = series.rates, run.window[1] - run.window[0]
        yield
        warm_up = warm_up_parts(rates, length) if may_open_later else 0
        if warm_up:
            return Look(enough=False, opens_s=run.window[0] + length * warm_up / series.parts)
        if self.precision is None:
            return Look(enough=True)
        yield
        half = uncertainty(series, closed_loop=True)
        return Look(enough=half is not None and half <= MARGIN * self.precision * float(rates.mean()))
