"""How many requests are in flight over time, and whether that grows without bound."""

from __future__ import annotations

import math

LEAST_ARRIVALS = 40
LOST_SHARE = 0.1
SPREAD = 4.0


class InFlight:
    """`begin` and `end` bound the window; stamps are seconds of any clock, and may be a little out of order.

    Growth: of three equal runs of arrivals inside the window, each found more in flight than the one before, and the
    last more than the first by over four times what chance gives (a Poisson count's standard deviation), and by over
    a tenth of the arrivals in between: at least one in ten did not get out. In a queue that is stable this is rare,
    in one that is not it comes as surely as more requests do.
    """

    def __init__(self) -> None:
        self.now = 0
        self._found: list[int] = []
        self._area = 0.0
        self._begun: float | None = None
        self._last = 0.0
        self._ended: float | None = None

    def begin(self, stamp: float) -> None:
        self._begun = self._last = stamp

    def end(self, stamp: float) -> None:
        self._advance(stamp)
        self._ended = self._last

    def change(self, stamp: float, by: int) -> None:
        if self._begun is not None and self._ended is None:
            self._advance(stamp)
            if by > 0:
                self._found.append(self.now)
        self.now += by

    @property
    def mean(self) -> float | None:
        """Over the time of the window; None if it has no length."""
        if self._begun is None or self._last <= self._begun:
            return None
        return self._area / (self._last - self._begun)

    def growth(self) -> str | None:
        """What shows that in flight grows; None if nothing does."""
        count = len(self._found)
        if count < LEAST_ARRIVALS:
            return None
        third = count // 3
        first, middle, last = (sum(self._found[i * third : (i + 1) * third]) / third for i in range(3))
        bound = max(SPREAD * math.sqrt(1.0 + first), LOST_SHARE * 2 * third)
        if not first < middle < last or last - first <= bound:
            return None
        return f"in flight grew from {first:.0f} to {last:.0f} over {count} arrivals"

    def _advance(self, stamp: float) -> None:
        if stamp > self._last:
            self._area += self.now * (stamp - self._last)
            self._last = stamp
