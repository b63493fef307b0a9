"""What a level costs that ends once it is hopeless, and how often one ends so that is not.

    python -m benchmarks.measuring.hopeless --precision 0.02               # 60 levels, less than a minute
    python -m benchmarks.measuring.hopeless --precision 0.02 --repeats 1   # a first look

Each level is measured to its precision on a simulated node, and what every look saw is kept. From that follows, for
any rate that the level would have to reach, at which look it would have been given up. Where the rate is its true one,
to give it up is an error.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field

from autotune.domain.measurement import Estimate, LevelRun, RequestRecord
from autotune.domain.stopping import Look
from autotune.domain.workload import LATE_PRECISION, LevelPlan
from autotune.scoring.intervals.stopping import WarmAndPrecise
from benchmarks.measuring.coverage import LEVELS, NODES, NOISES, floor, made_node, table

NEEDED = (1.0, 1.02, 1.05, 1.1, 1.2, 1.5)
"""What the level would have to reach, over what it truly is."""


@dataclass
class Watched:
    """The program's rule, never told that a level is hopeless. `seen`: by look that asked, the end of the window (node
    seconds since the level began) and the figure over the truth."""

    precision: float
    truth: float
    seen: list[tuple[float, Estimate]] = field(default_factory=list)

    def look(
        self, run: LevelRun, live: Iterable[RequestRecord], *, may_open_later: bool
    ) -> Generator[None, None, Look]:
        def note(figure: Estimate) -> str:
            assert run.window is not None
            self.seen.append((run.window[1], figure))
            return ""

        return WarmAndPrecise(self.precision, note).look(run, live, may_open_later=may_open_later)


@dataclass(frozen=True)
class Level:
    truth: float
    whole_s: float
    looks: Sequence[tuple[float, Estimate]]

    def given_up(self, needed: float) -> tuple[float, Estimate] | None:
        rate = needed * self.truth
        return next((look for look in self.looks if look[1].high is not None and look[1].high < rate), None)


def measured(name: str, concurrency: int, repeat: int, precision: float) -> Level:
    node = made_node(name, 7000 + 1000 * list(NODES).index(name) + 100 * concurrency + repeat, NOISES[repeat % 3])
    tokens, requests = LEVELS[concurrency], floor(concurrency)
    rule = Watched(precision, node.truth(concurrency, tokens))
    plan = LevelPlan(concurrency, requests, rule=rule, most_requests=LATE_PRECISION * requests)
    run = node.level(plan, tokens)
    assert run.window is not None
    return Level(rule.truth, run.window[1], rule.seen)


def report(levels: Sequence[Level]) -> str:
    rows = []
    for needed in NEEDED:
        ends = [(level, level.given_up(needed)) for level in levels]
        cost = [(level.whole_s if end is None else end[0]) / level.whole_s for level, end in ends]
        early = sum(end is not None for _level, end in ends)
        rows.append([f"{needed:g}", f"{early} of {len(ends)}", f"{statistics.fmean(cost):.2f}"])
    return table(("has to reach, x its true rate", "given up", "time, over that to the precision"), rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--precision", type=float, default=0.02)
    parser.add_argument("--repeats", type=int, default=3)
    asked = parser.parse_args()
    levels = [
        measured(name, concurrency, repeat, asked.precision)
        for repeat in range(asked.repeats)
        for name in NODES
        for concurrency in LEVELS
    ]
    sys.stdout.write(report(levels) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
