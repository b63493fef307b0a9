"""A/A: studies in which no knob does anything. How often is a winner claimed, and what does it take to find a true one?

    python -m benchmarks.measuring.aa            # 100 studies of each kind of noise, and of each true gain: 25 minutes
    python -m benchmarks.measuring.aa --quick    # 8 of each: 2 minutes

The search, the baseline's repeats, the confirmation and the conclusion are the program's own; the measurements are made
up (made_up_node.py). Beside it the naive rule: the best trial against the one baseline run, with their intervals.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

from autotune.domain.confirmation import Confirm
from autotune.domain.study import Budget
from benchmarks.measuring.command import options_of, say, under
from benchmarks.measuring.made_up_node import Effect, Node, Noise, linear, nothing, one_factor, run, screening, step

TRIALS = 30
BUDGET = Budget(trials=TRIALS, baseline_every="auto", confirm=Confirm())
NOISES = {
    "windows 1 %, launches 0.7 %": Noise(),
    "launches 2 %": Noise(launch=0.02),
    "one launch in 20 is 8 % slow": Noise(slow=0.05),
    "drift of -5 % an hour": Noise(drift=linear(-0.05)),
    "step of -8 % in mid-search": Noise(drift=step(-0.08, TRIALS * 300 / 3600 / 2)),
    "step of -8 % in mid-confirmation": Noise(drift=step(-0.08, (TRIALS + 5) * 300 / 3600)),
}
GAINS = (0.03, 0.05)
Z = 1.959964


@dataclass(frozen=True)
class Seen:
    """One study. `naive`, `confirmed`: the claimed gain, None where none was claimed. `chosen`: what the claimed winner
    is truly worth. `covered`: the confirmation's interval of its leader holds the truth."""

    naive: float | None
    confirmed: float | None
    chosen: float | None
    covered: bool | None
    search_hours: float
    confirmation_hours: float


def one(noise_name: str, gain: float, seed: int) -> Seen:
    effect: Effect = one_factor(gain) if gain else nothing
    node = Node(seed, NOISES[noise_name], effect)
    result = run(node, BUDGET)
    bare, found = screening(result), result.confirmation
    compared = bare.comparison
    naive = compared.ratio.value - 1 if compared is not None and compared.verdict == "better" else None
    confirmed = chosen = covered = None
    leader = found.finalists[0] if found is not None and found.finalists else None
    if leader is not None and leader.gain is not None:
        truth = effect(next(t.configuration for t in result.trials if t.number == leader.trial))
        covered = (leader.gain.low or 0.0) <= truth <= (leader.gain.high or math.inf)
        if found is not None and found.winner is not None:
            confirmed, chosen = leader.gain.value - 1, truth - 1
    hours = [sum(t.node_seconds for t in part) / 3600 for part in (result.search, result.trials)]
    return Seen(naive, confirmed, chosen, covered, hours[0], hours[1] - hours[0])


def wilson(hits: int, count: int) -> str:
    """`2 of 100 (0.6 to 7.0 %)`."""
    share = hits / count
    centre = (share + Z**2 / (2 * count)) / (1 + Z**2 / count)
    half = Z / (1 + Z**2 / count) * math.sqrt(share * (1 - share) / count + Z**2 / (4 * count**2))
    return f"{hits} of {count} ({max(0.0, centre - half) * 100:.1f} to {(centre + half) * 100:.1f} %)"


def spread(values: Sequence[float], scale: float = 100.0) -> str:
    """Median, and the quartiles in brackets."""
    if len(values) < 2:
        return "-" if not values else f"{values[0] * scale:.1f}"
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle * scale:.1f} ({low * scale:.1f} to {high * scale:.1f})"


def row(name: str, seen: Sequence[Seen], truth: float) -> str:
    count = len(seen)
    naive = [s.naive for s in seen if s.naive is not None]
    found = [s for s in seen if s.confirmed is not None]
    right = sum((s.chosen or 0.0) > 0 for s in found) if truth else len(found)
    covered = [s.covered for s in seen if s.covered is not None]
    cells = [
        name,
        wilson(len(naive), count),
        spread([value - truth for value in naive]),
        wilson(right, count),
        spread([s.confirmed - (s.chosen or 0.0) for s in found if s.confirmed is not None]),
        wilson(sum(covered), len(covered)) if covered else "-",
        spread([s.confirmation_hours for s in seen], 1.0),
        f"{statistics.median(s.search_hours for s in seen):.1f}",
    ]
    return "| " + " | ".join(cells) + " |"


HEADER = (
    "| node | naive rule claims a winner | and overstates it by, % points | the confirmation claims one "
    "| and overstates it by, % points | its interval holds the truth | its node hours | node hours of the search |"
)


def main() -> None:
    options = options_of(__doc__, studies=100, only="rows")
    count = 8 if options.quick else options.studies
    say(f"{count} studies of {TRIALS} trials each; median (quartiles); intervals of shares: Wilson, 95 %\n")
    say(HEADER + "\n" + under(HEADER))
    kinds = [(name, 0.0) for name in NOISES] + [(next(iter(NOISES)), gain) for gain in GAINS]
    with ProcessPoolExecutor(options.processes) as pool:
        for name, gain in kinds:
            shown = f"a true gain of {gain * 100:.0f} %; {name}" if gain else name
            if options.only not in shown:
                continue
            seen = list(pool.map(partial(one, name, gain), range(count)))
            say(row(shown, seen, gain))


if __name__ == "__main__":
    main()
