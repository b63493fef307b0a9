"""The greedy pass over the factors: each level of each factor in turn, applied to the best so far, kept if better.

A pure function of the space and of what was measured. It walks the pass from its start each time, over results that
are in, until it comes to a configuration that has none; so a resumed study goes on where the other stopped.
"""

from __future__ import annotations

from collections.abc import Sequence

from autotune.domain.configuration import Configuration, Value
from autotune.domain.space import Parameter, SearchSpace
from autotune.study.ledger import Ledger
from autotune.study.moves import Rules, change, levels, same


def factor_order(space: SearchSpace) -> tuple[Parameter, ...]:
    """Parameters that others' conditions name first, then the rest; each group in the order of the file.

    What switches others on decides which factors there are: tuned last, it would throw away what was tuned before it
    for the other branch, and leave its own branch untuned.
    """
    named = {word for parameter in space.parameters if parameter.when is not None for word in parameter.when.words}
    switches = [parameter for parameter in space.parameters if parameter.name in named]
    return (*switches, *(parameter for parameter in space.parameters if parameter.name not in named))


def next_greedy(ledger: Ledger, baseline: Configuration, known_good: Sequence[Configuration]) -> Configuration | None:
    """What the pass wants measured next; None when it is over, or there is no score to start from.

    Scores are compared as they are, without their intervals: the pass decides where to look next, not who has won.
    """
    path = _scored(ledger, (*known_good, baseline))
    if not path:
        return None
    current_score, current = max(path, key=lambda step: step[0])
    for parameter in factor_order(ledger.space):
        for level in levels(parameter.domain):
            if not ledger.space.is_active(parameter, current):
                break
            if parameter.name in current and same(current[parameter.name], level):
                continue
            candidate = _changed(ledger, current, parameter.name, level, path)
            if candidate is None:
                continue
            if ledger.is_open(candidate):
                return candidate
            score = ledger.score(candidate)
            if score is None:
                continue
            path.append((score, candidate))
            if score > current_score:
                current_score, current = score, candidate
    return None


Path = list[tuple[float, Configuration]]
"""Scores and points that the pass has gone over, in that order. Results from outside the pass (the sampler's) must
not steer it, or its replay would differ from its first run."""


def _scored(ledger: Ledger, configurations: Sequence[Configuration]) -> Path:
    found: Path = []
    for configuration in configurations:
        score = ledger.score(configuration)
        if score is not None:
            found.append((score, ledger.point(configuration)))
    return found


def _changed(ledger: Ledger, current: Configuration, name: str, level: Value, path: Path) -> Configuration | None:
    donors = tuple(configuration for _score, configuration in sorted(path, key=lambda step: -step[0]))
    return change(Rules(ledger.space, ledger.is_legal, donors), current, name, level)
