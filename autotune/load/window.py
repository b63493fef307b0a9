"""When a level's measurement starts and ends, and whether the level was really there in between."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Window:
    """Opens when every slot has finished its warm-up and all `concurrency` requests are on the wire; closes at the
    `requests`-th end of a request after that. Stamps are those of the sockets.

    Both edges are ends of requests, so a window holds whole turns of a slot but for one: the bias from stopping at an
    end rather than at a moment chosen beforehand is at most about one chunk in all that the window holds. Tokens are
    to be counted by their own stamps, from all requests that were in flight, whether they finished inside or not.
    Failed requests count as ended: a level of 60 requests of which two failed is 58 of 60, not 60 of 62.
    """

    concurrency: int
    requests: int
    opened: float | None = None
    closed: float | None = None
    in_flight: int = 0
    lowest: int | None = None
    _warm: int = 0
    _ended: int = 0
    _last_end: float | None = None

    def slot_is_warm(self) -> None:
        self._warm += 1

    def sent(self, stamp: float) -> bool:
        """Returns whether the window opened by this."""
        self.in_flight += 1
        if self.opened is not None or self._warm < self.concurrency or self.in_flight < self.concurrency:
            return False
        self.opened, self.lowest = stamp, self.in_flight
        return True

    def ended(self, stamp: float, *, was_in_flight: bool = True) -> bool:
        """Returns whether the window closed by this. An end that was stamped before the opening, and read after it,
        lies outside. A request that found no connection ends without having been in flight."""
        self.in_flight -= was_in_flight
        if self.opened is None or stamp <= self.opened:
            return False
        self._ended, self._last_end = self._ended + 1, stamp
        if self._ended < self.requests:
            return False
        self.closed = stamp
        return True

    def slot_is_empty(self) -> None:
        """A slot could not send its next request at once. (Where it could, nothing was ever missing.)"""
        if self.lowest is not None:
            self.lowest = min(self.lowest, self.in_flight)

    def close_early(self) -> None:
        self.closed = self._last_end

    @property
    def bounds(self) -> tuple[float, float] | None:
        return None if self.opened is None or self.closed is None else (self.opened, self.closed)
