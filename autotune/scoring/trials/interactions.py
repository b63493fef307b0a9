"""Pairs of factors of which the effect of one depends on the other.

For each effect that was seen in more than one context, and each other factor whose setting differs between these
contexts, the effect under one setting is tested against the effect under another. Factors that changed together
cannot be told apart and are one test. One square of four trials gives the same number whichever of its two factors
is asked about: it is counted once. The p-values are corrected by Holm's step-down rule for all tests together.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from autotune.domain.explanation import Interaction
from autotune.scoring.student import exceedance
from autotune.scoring.trials.contexts import INACTIVE, Placed, Treatment, dependents, place
from autotune.scoring.trials.effects import Contrast, Evidence
from autotune.scoring.trials.readings import Reading, Spread

SIGNIFICANT = 0.05


@dataclass(frozen=True)
class _InContext:
    """One contrast within one context: the mean of the trials with `after` less that of those with `before`."""

    held: dict[str, str]
    value: float
    variance: float
    loss: float  # sum of variance ** 2 / degrees of freedom, for Welch's formula
    trials: frozenset[int]


def interactions(known: Evidence, significant: float = SIGNIFICANT) -> tuple[tuple[Interaction, ...], int]:
    """Those with a corrected p-value below `significant`, the surest first, and how many were looked at."""
    tests: dict[frozenset[int], Interaction] = {}
    for parameter in known.space.parameters:
        placed = place(known.space, parameter.name, known.held)
        along = dependents(known.space, parameter.name)
        visited: dict[Treatment, set[object]] = {}
        for one in placed:
            visited.setdefault(one.treatment, set()).add(one.context)
        for before, after in itertools.combinations(visited, 2):
            if before[0] == after[0] or len(visited[before] & visited[after]) < 2:
                continue
            seen = _contrasts(placed, (before, after), known)
            for trials, made in _tests(parameter.name, (before, after), seen, along):
                tests.setdefault(trials, made)
    ranked = sorted(tests.values(), key=lambda made: made.p_value)
    corrected, largest = [], 0.0
    for rank, made in enumerate(ranked):
        largest = min(1.0, max(largest, made.p_value * (len(ranked) - rank)))
        corrected.append(replace(made, p_value=largest))
    return tuple(made for made in corrected if made.p_value < significant), len(ranked)


def _contrasts(placed: list[Placed], pair: tuple[Treatment, Treatment], known: Evidence) -> list[_InContext]:
    """One for each context that has both treatments, with intervals."""
    spread = known.spread
    contexts: dict[tuple[tuple[str, str], ...], tuple[list[int], list[int]]] = {}
    for one in placed:
        if one.treatment in pair:
            contexts.setdefault(one.context, ([], []))[pair.index(one.treatment)].append(one.index)
    found = []
    for context, (before, after) in contexts.items():
        low, high = _mean(before, known.score, spread), _mean(after, known.score, spread)
        if low is None or high is None:
            continue
        value, variance, loss = high[0] - low[0], high[1] + low[1], high[2] + low[2]
        found.append(_InContext(dict(context), value, variance, loss, frozenset((*before, *after))))
    return found


def _mean(
    indices: list[int], readings: tuple[Reading | None, ...], spread: Spread
) -> tuple[float, float, float] | None:
    """Value, variance and loss of the mean; None if there is none, or one of them has no interval."""
    known = [reading for index in indices if (reading := readings[index]) is not None]
    if not known or any(reading.variance is None for reading in known):
        return None
    count = len(known)
    parts = [((reading.variance or 0.0) / count**2, reading.freedom) for reading in known]
    launches = spread.variance / count
    loss = sum(part**2 / freedom for part, freedom in parts)
    loss += launches**2 / spread.freedom if launches else 0.0
    return sum(r.value for r in known) / count, sum(part for part, _ in parts) + launches, loss


def _tests(
    name: str, pair: tuple[Treatment, Treatment], seen: list[_InContext], along: frozenset[str]
) -> Iterator[tuple[frozenset[int], Interaction]]:
    """For each way in which another factor splits the contexts in two."""
    splits: dict[tuple[frozenset[int], frozenset[int]], list[tuple[str, str, str]]] = {}
    names = sorted({other for one in seen for other in one.held if other not in along})
    for other in names:
        words = list(dict.fromkeys(one.held[other] for one in seen if one.held.get(other, INACTIVE) != INACTIVE))
        for first, second in itertools.combinations(words, 2):
            halves = tuple(
                frozenset(index for index, one in enumerate(seen) if one.held.get(other) == word)
                for word in (first, second)
            )
            splits.setdefault((halves[0], halves[1]), []).append((other, first, second))
    for (left, right), together in splits.items():
        contrasts = [_combined([seen[index] for index in half]) for half in (left, right)]
        trials = frozenset[int]().union(*(seen[index].trials for index in (*left, *right)))
        yield trials, _interaction(name, pair, together, (contrasts[0], contrasts[1]))


def _combined(seen: list[_InContext]) -> Contrast:
    """The mean over contexts, by inverse variance."""
    weights = [1.0 / one.variance for one in seen]
    total = sum(weights)
    shares = [weight / total for weight in weights]
    value = sum(share * one.value for share, one in zip(shares, seen, strict=True))
    variance = sum(share**2 * one.variance for share, one in zip(shares, seen, strict=True))
    loss = sum(share**4 * one.loss for share, one in zip(shares, seen, strict=True))
    return Contrast(value, math.sqrt(variance), variance**2 / loss if loss > 0 else math.inf)


def _interaction(
    name: str,
    pair: tuple[Treatment, Treatment],
    together: list[tuple[str, str, str]],
    contrasts: tuple[Contrast, Contrast],
) -> Interaction:
    low, high = contrasts
    first, second = low.error or 0.0, high.error or 0.0
    variance = first**2 + second**2
    loss = first**4 / low.freedom + second**4 / high.freedom
    t = (high.value - low.value) / math.sqrt(variance)
    return Interaction(
        parameter=name,
        before=pair[0][0],
        after=pair[1][0],
        others=tuple(other for other, _first, _second in together),
        under=(", ".join(word for _, word, _ in together), ", ".join(word for _, _, word in together)),
        ratios=(low.ratio(), high.ratio()),
        p_value=exceedance(t, variance**2 / loss if loss > 0 else math.inf),
    )
