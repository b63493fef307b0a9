"""When a level has been measured for long enough: asked by the load client, answered by the statistics."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import Protocol

from autotune.domain.measurement import LevelRun, RequestRecord


@dataclass(frozen=True)
class Look:
    """What a look at a level so far gave. `enough`: the window may close where the look ended. `opens_s`: warm-up
    lasted until this tick of the level, so that the window is to open there; None: it is right where it is. `why`: what
    the record says of a window that closes for another reason than the one it was asked for."""

    enough: bool
    opens_s: float | None = None
    why: str = ""


class StoppingRule(Protocol):
    def look(
        self, run: LevelRun, live: Iterable[RequestRecord], *, may_open_later: bool
    ) -> Generator[None, None, Look]:
        """`run.records` have ended, `live` are still in flight; the window ends now. A generator, so that a client
        that has streams to read can do the work in turns of well under a millisecond; it may be dropped unfinished."""
        ...
