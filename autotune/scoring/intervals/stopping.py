"""When a level may end: warm-up is over, and its interval is as narrow as was asked, or narrow enough to say that the
trial is not worth the asking.

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

A level that ends because its figure is hopeless was picked for being low, so that figure is biased, and its interval is
wider than asked. It may serve as the bound of a trial that is given up, and not as the figure of one that is ranked.
That the bound holds at all looks together is what SURELY is for.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass

from autotune.domain.measurement import Estimate, LevelRun, RequestRecord
from autotune.domain.stopping import Look
from autotune.scoring.intervals.interval import fill_live, uncertainty
from autotune.scoring.intervals.stationarity import warm_up_parts

MARGIN = 0.9

SURELY = 1.5
"""Times the half-width of the 95 % interval, before a figure counts as hopeless. Six looks, each of which errs on that
side 1 time in 40, err together up to 1 time in 6. At 1.5 times the half-width they err together less than 1 time in 38
(Student's t with 8 degrees of freedom; with more, less)."""

WhyHopeless = Callable[[Estimate], str]
"""Says why a level with this figure, wherever in its interval the truth lies, need not be measured on; empty: it is."""


@dataclass(frozen=True)
class WarmAndPrecise:
    """`precision`: half of the 95 % interval over the throughput; None: the floor of requests is enough. `hopeless` is
    asked at each look that is not precise enough; None: precision alone ends the level."""

    precision: float | None = None
    hopeless: WhyHopeless | None = None

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
        half, mean = uncertainty(series, closed_loop=True), float(rates.mean())
        if half is None:
            return Look(enough=False)
        if half <= MARGIN * self.precision * mean:
            return Look(enough=True)
        if self.hopeless is None:
            return Look(enough=False)
        yield
        why = self.hopeless(Estimate(mean, mean - SURELY * half, mean + SURELY * half, batches=series.parts))
        return Look(enough=bool(why), why=why)
