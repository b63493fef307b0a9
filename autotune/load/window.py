"""When a level's measurement starts and ends, and whether the level was really there in between."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from autotune.domain.stopping import Look
from autotune.domain.workload import ENDS_FOR_A_BOUND

LATER_LOOK = 1.5
"""After a look that was not enough, so many times the requests have to end before the next."""


@dataclass
class Window:
    """Opens when every slot has finished its warm-up and all `concurrency` requests are on the wire; closes at the end
    of a request. Stamps are those of the sockets.

    Without `looks` that is the `requests`-th end after the opening. With them it is a look's to say, the first being
    due at that end, later ones after LATER_LOOK times as many. A look may also move the opening to a later end of a
    request, as long as no more than `requests` of them fall before it. `most` ends since the first opening, or
    `seconds` since then (of the stamps' clock), close it whatever looks say.

    `seconds` close it at the last end before they are up, where the next one is the ENDS_FOR_A_BOUND-th or a later one;
    else at that next one, so that any window which outlasts them holds fewer, and is marked for it by its guard.
    Between a moment that is fixed beforehand and the next end no request ends, hence none begins: a window up to there
    is one prefill short. That is 0.4 % of a window of 8 ends on the simulated node (docs/studies/coverage.md), and
    more where prefill takes more of the time.

    Both edges are ends of requests, so a window holds whole turns of a slot but for one: the bias from stopping at an
    end rather than at a moment chosen beforehand is at most about one chunk in all that the window holds. Tokens are
    to be counted by their own stamps, from all requests that were in flight, whether they finished inside or not.
    Failed requests count as ended: a level of 60 requests of which two failed is 58 of 60, not 60 of 62.
    """

    concurrency: int
    requests: int
    looks: bool = False
    most: int | None = None
    seconds: float | None = None
    opened: float | None = None
    closed: float | None = None
    in_flight: int = 0
    lowest: int | None = None
    look_is_due: bool = False
    _warm: int = 0
    _ends: list[float] = field(default_factory=list)  # since the first opening, in the order in which they were read
    _first_opened: float = 0.0
    _before: int = 0  # how many of the ends lie before the opening
    _next_look: int = 0

    def __post_init__(self) -> None:
        self._next_look = self.requests

    def slot_is_warm(self) -> None:
        self._warm += 1

    def sent(self, stamp: float) -> bool:
        """Returns whether the window opened by this."""
        self.in_flight += 1
        if self.opened is not None or self._warm < self.concurrency or self.in_flight < self.concurrency:
            return False
        self.opened, self.lowest = stamp, self.in_flight
        self._first_opened = stamp
        return True

    def ended(self, stamp: float, *, was_in_flight: bool = True) -> bool:
        """Returns whether the window closed by this. An end that was stamped before the opening, and read after it,
        lies outside. A request that found no connection ends without having been in flight."""
        self.in_flight -= was_in_flight
        if self.opened is None or stamp <= self.opened:
            return False
        self._ends.append(stamp)
        inside = len(self._ends) - self._before
        over = inside >= self.requests if not self.looks else len(self._ends) >= (self.most or math.inf)
        late = self.seconds is not None and stamp - self._first_opened >= self.seconds
        if over or late:
            spared = not over and inside >= ENDS_FOR_A_BOUND
            self.closed = self._ends[-2] if spared else stamp
            return True
        self.look_is_due = self.looks and inside >= self._next_look
        if self.look_is_due:
            self._next_look = math.ceil(LATER_LOOK * inside)
        return False

    @property
    def may_open_later(self) -> bool:
        return self._before < self.requests

    def settle(self, look: Look, stamp: float, opens: float | None) -> bool:
        """Takes what the look gave that was due at `stamp`; `opens` is its `opens_s` as a stamp. Returns whether the
        window closed by this."""
        if self.closed is not None or self.opened is None:
            return False
        if opens is not None:
            self._open_later(opens)
        elif look.enough:
            self.closed = stamp
        return self.closed is not None

    def _open_later(self, opens: float) -> None:
        later = next((place for place, stamp in enumerate(self._ends) if stamp >= opens), len(self._ends) - 1)
        self._before = min(later + 1, self.requests)
        self.opened = self._ends[self._before - 1]
        self._next_look = self.requests

    def slot_is_empty(self) -> None:
        """A slot could not send its next request at once. (Where it could, nothing was ever missing.)"""
        if self.lowest is not None:
            self.lowest = min(self.lowest, self.in_flight)

    def close_early(self) -> bool:
        """Closes at the last end inside; returns whether there was any."""
        inside = self._ends[self._before :]
        self.closed = inside[-1] if inside else None
        return self.closed is not None

    @property
    def has_its_floor(self) -> bool:
        return len(self._ends) - self._before >= self.requests

    @property
    def opened_late(self) -> float:
        """By how much looks moved the opening, in the stamps' seconds."""
        return 0.0 if self.opened is None else self.opened - self._first_opened

    @property
    def bounds(self) -> tuple[float, float] | None:
        return None if self.opened is None or self.closed is None else (self.opened, self.closed)
