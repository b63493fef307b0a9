"""The greedy pass over the factors: each level of each factor in turn, applied to the best so far, kept if better.

A pure function of the space and of what was measured. It walks the pass from its start each time, over results that
are in, until it comes to a configuration that has none; so a resumed study goes on where the other stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from autotune.domain.configuration import Configuration, Value
from autotune.domain.knowledge import Knowledge
from autotune.domain.space import Parameter, SearchSpace
from autotune.study.ledger import Ledger, Rank
from autotune.study.moves import Rules, change, levels, same

NOTHING = Knowledge()


def factor_order(space: SearchSpace, earlier: Knowledge = NOTHING) -> tuple[Parameter, ...]:
    """Parameters that others' conditions name first, then the rest; each group in the order of the file. What gained
    in an earlier study comes first in its group, by its gain, and what could not gain there comes last.

    What switches others on decides which factors there are: tuned last, it would throw away what was tuned before it
    for the other branch, and leave its own branch untuned.
    """
    named = {word for parameter in space.parameters if parameter.when is not None for word in parameter.when.words}
    places = {name: place - len(earlier.order) for place, name in enumerate(earlier.order)}
    places.update(dict.fromkeys(earlier.idle, 1))
    ordered = sorted(space.parameters, key=lambda parameter: places.get(parameter.name, 0))
    ordered.sort(key=lambda parameter: parameter.name not in named)
    if earlier.order or earlier.idle:
        ordered = _conditions_first(ordered)
    return tuple(ordered)


def _conditions_first(ordered: Sequence[Parameter]) -> list[Parameter]:
    """In this order, but none before those that its condition speaks of."""
    names = {parameter.name for parameter in ordered}
    placed: list[Parameter] = []
    waiting = list(ordered)
    while waiting:
        done = {parameter.name for parameter in placed}
        ready = next(p for p in waiting if p.when is None or not (p.when.words & names) - done)
        placed.append(ready)
        waiting.remove(ready)
    return placed


def next_greedy(
    ledger: Ledger,
    baseline: Configuration,
    known_good: Sequence[Configuration],
    earlier: Knowledge = NOTHING,
    hopeless: Callable[[Configuration], bool] = lambda _configuration: False,
) -> Configuration | None:
    """What the pass wants measured next; None when it is over, or there is no score to start from.

    `hopeless`: what crashes in an earlier study speak against; it is passed over. It must be the same at each call.
    Scores are compared as they are, without their intervals: the pass decides where to look next, not who has won.
    What breaks the SLO never takes the place of what keeps to it, and only that of what breaks it by more.
    """
    path = _ranked(ledger, (*known_good, baseline))
    if not path:
        return None
    current_rank, current = max(path, key=lambda step: step[0])
    for parameter in factor_order(ledger.space, earlier):
        for level in levels(parameter.domain):
            if not ledger.space.is_active(parameter, current):
                break
            if parameter.name in current and same(current[parameter.name], level):
                continue
            candidate = _changed(ledger, current, parameter.name, level, path)
            if candidate is None:
                continue
            if ledger.is_open(candidate):
                if hopeless(candidate):
                    continue
                return candidate
            rank = ledger.rank(candidate)
            if rank is None:
                continue
            path.append((rank, candidate))
            if rank > current_rank:
                current_rank, current = rank, candidate
    return None


Path = list[tuple[Rank, Configuration]]
"""Ranks and points that the pass has gone over, in that order. Results from outside the pass (the sampler's) must
not steer it, or its replay would differ from its first run."""


def _ranked(ledger: Ledger, configurations: Sequence[Configuration]) -> Path:
    found: Path = []
    for configuration in configurations:
        rank = ledger.rank(configuration)
        if rank is not None:
            found.append((rank, ledger.point(configuration)))
    return found


def _changed(ledger: Ledger, current: Configuration, name: str, level: Value, path: Path) -> Configuration | None:
    donors = tuple(configuration for _rank, configuration in sorted(path, key=lambda step: step[0], reverse=True))
    return change(Rules(ledger.space, ledger.is_legal, donors), current, name, level)
