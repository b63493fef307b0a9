"""Measurements to one number, and one trial against another.

Levels are measured one after the other, so their errors count as independent, and so do two trials'. Standard errors
are combined, not half-widths: each is the half-width over its own t, and the sum gets the t of Welch's degrees of
freedom. (Adding half-widths would keep the large t of five batches for a sum of forty.)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from autotune.domain.level import Level
from autotune.domain.measurement import Comparison, Estimate, Measurement, Objective, Score
from autotune.errors import InputError
from autotune.scoring.student import t_quantile

HALF_A_REQUEST = 0.5 / 3.8415
"""Of the upper end of Wilson's 95 % interval for no good request of n, which is near z^2 / n: half a request of n."""
NONE_AT_ALL = 2.0
"""Variance of a logarithm that stands on half a request: one over it."""


@dataclass(frozen=True)
class _Term:
    """One summand: its value and, if known, its standard error and the degrees of freedom behind that."""

    value: float
    error: float | None
    freedom: float
    batches: int

    def times(self, factor: float) -> _Term:
        error = None if self.error is None else abs(factor) * self.error
        return _Term(self.value * factor, error, self.freedom, self.batches)

    def log(self) -> _Term:
        """Of a positive value, to first order."""
        error = None if self.error is None else self.error / self.value
        return _Term(math.log(self.value), error, self.freedom, self.batches)


def score(
    measurements: Sequence[Measurement],
    objective: Objective,
    weights: Mapping[Level, float],
    baseline: Sequence[Measurement] | None,
) -> Score | None:
    """The objective over the levels that have a weight; None if any of them lacks its figure, or if there is no
    baseline for `weighted_speedup`. `per_level` is tok/s, for `weighted_speedup` the ratio to the baseline, for
    `weighted_goodput` good requests a second.

    Raises InputError for a metric that is not known.
    """
    if objective.metric not in Objective.METRICS:
        raise InputError(
            f"a metric must be one of {', '.join(Objective.METRICS)}, but got {objective.metric}",
            hint="set objective.metric in the space file",
        )
    mine = _levels(measurements, weights, objective.metric)
    if mine is None:
        return None
    if objective.metric != "weighted_speedup":
        estimate = _estimate(_mean(mine, weights))
        return Score(objective.metric, estimate, {level: term.value for level, term in mine.items()})
    theirs = None if baseline is None else _levels(baseline, weights, objective.metric)
    if baseline is None or theirs is None:
        return None
    ratios = {level: term.value / theirs[level].value for level, term in mine.items()}
    return Score(objective.metric, _speedup(mine, theirs, weights, same=_same(measurements, baseline)), ratios)


def log_score(
    measurements: Sequence[Measurement], objective: Objective, weights: Mapping[Level, float]
) -> tuple[float, float | None, float] | None:
    """Natural logarithm of the objective, its standard error (None if unknown) and the degrees of freedom behind that.

    Up to a constant that all trials of a study share: for `weighted_speedup` no baseline enters, and so the
    difference of two trials has none of the baseline's error. None where a level that has a weight lacks a figure.
    """
    mine = _levels(measurements, weights, objective.metric)
    if mine is None:
        return None
    if objective.metric == "weighted_speedup":
        term = _mean({level: term.log() for level, term in mine.items()}, weights)
    else:
        logarithm = _log_mean(measurements, mine, weights)
        if logarithm is None:
            return None
        term = logarithm
    return term.value, term.error, term.freedom


def compare(
    candidate: Sequence[Measurement],
    baseline: Sequence[Measurement],
    objective: Objective,
    weights: Mapping[Level, float],
) -> Comparison | None:
    """The objective's ratio, candidate over baseline, with its 95 % interval taken on a logarithmic scale.

    `better` or `worse` only if the interval excludes 1; without an interval always `unclear`. None where either
    side lacks the throughput of a level that has a weight. Raises InputError for a metric that is not known.
    """
    if objective.metric not in Objective.METRICS:
        raise InputError(f"a metric must be one of {', '.join(Objective.METRICS)}, but got {objective.metric}")
    mine, theirs = (_levels(side, weights, objective.metric) for side in (candidate, baseline))
    if mine is None or theirs is None:
        return None
    same = _same(candidate, baseline)
    if objective.metric == "weighted_speedup":
        ratio = _speedup(mine, theirs, weights, same=same)
    elif same:
        ratio = Estimate(1.0, 1.0, 1.0)
    else:
        above, below = _log_mean(candidate, mine, weights), _log_mean(baseline, theirs, weights)
        if above is None or below is None or not _any_good(mine, theirs):
            return None  # no good request on either side: nothing is known of a ratio
        ratio = _exponential(_sum((above, below.times(-1.0))))
    if ratio.low is None or ratio.high is None:
        return Comparison(ratio, "unclear")
    verdict = "better" if ratio.low > 1 else "worse" if ratio.high < 1 else "unclear"
    return Comparison(ratio, verdict)


def least(estimate: Estimate) -> float | None:
    """For a logarithm, where there was no good request at all: what half a good request would be. None where the data
    gave no interval."""
    return None if not estimate.high else HALF_A_REQUEST * estimate.high


def _log_mean(
    measurements: Sequence[Measurement], levels: Mapping[Level, _Term], weights: Mapping[Level, float]
) -> _Term | None:
    """Without any good request it is that of half a one, and as uncertain: a server that serves nobody well must not
    drop out of a comparison. None where even that is not known."""
    mean = _mean(levels, weights)
    if mean.value > 0:
        return mean.log()
    seen = {m.level: least(m.goodput) for m in reversed(measurements) if m.goodput is not None}
    floors = [(weights[level], seen.get(level)) for level in levels]
    known = [weight * floor for weight, floor in floors if floor is not None]
    if len(known) < len(floors):
        return None
    return _Term(math.log(sum(known) / sum(weight for weight, _floor in floors)), math.sqrt(NONE_AT_ALL), math.inf, 1)


def _any_good(*sides: Mapping[Level, _Term]) -> bool:
    return any(term.value > 0 for side in sides for term in side.values())


def _same(candidate: Sequence[Measurement], baseline: Sequence[Measurement]) -> bool:
    """One and the same run: its ratio to itself is 1 without any error."""
    return tuple(candidate) == tuple(baseline)


def _levels(
    measurements: Sequence[Measurement], weights: Mapping[Level, float], metric: str
) -> dict[Level, _Term] | None:
    """The figure of each level that has a weight, the first measurement of a level counting; None if one is missing or
    there is none. No good request at all is a goodput of 0; a throughput of 0 is none."""
    found: dict[Level, _Term] = {}
    for level in sorted(level for level, weight in weights.items() if weight > 0):
        measured = next((m for m in measurements if m.level == level), None)
        good = metric == "weighted_goodput"
        seen = None if measured is None else measured.goodput if good else measured.output_throughput
        if seen is None or (seen.value <= 0 and not good):
            return None
        found[level] = _term(seen)
    return found or None


def _term(estimate: Estimate) -> _Term:
    """An interval whose batches are not told counts as a normal one."""
    freedom = float(estimate.batches - 1) if estimate.batches > 1 else math.inf
    half = estimate.half_width
    return _Term(estimate.value, None if half is None else half / t_quantile(freedom), freedom, estimate.batches)


def _mean(levels: Mapping[Level, _Term], weights: Mapping[Level, float]) -> _Term:
    total = sum(weights[level] for level in levels)
    return _sum(term.times(weights[level] / total) for level, term in levels.items())


def _speedup(
    mine: Mapping[Level, _Term], theirs: Mapping[Level, _Term], weights: Mapping[Level, float], *, same: bool
) -> Estimate:
    """The weighted geometric mean of the levels' ratios."""
    if same:
        return Estimate(1.0, 1.0, 1.0)
    logs = {level: _sum((term.log(), theirs[level].log().times(-1.0))) for level, term in mine.items()}
    return _exponential(_mean(logs, weights))


def _sum(terms: Iterable[_Term]) -> _Term:
    """Of independent terms; Welch and Satterthwaite's degrees of freedom."""
    parts = tuple(terms)
    value, batches = sum(part.value for part in parts), sum(part.batches for part in parts)
    errors = [part.error for part in parts if part.error is not None]
    if len(errors) < len(parts):
        return _Term(value, None, math.inf, batches)
    variance = sum(error**2 for error in errors)
    loss = sum(error**4 / part.freedom for error, part in zip(errors, parts, strict=True))
    return _Term(value, math.sqrt(variance), variance**2 / loss if loss > 0 else math.inf, batches)


def _half(term: _Term) -> float | None:
    return None if term.error is None else t_quantile(term.freedom) * term.error


def _estimate(term: _Term) -> Estimate:
    half = _half(term)
    if half is None:
        return Estimate(term.value)
    return Estimate(term.value, term.value - half, term.value + half, batches=term.batches)


def _exponential(term: _Term) -> Estimate:
    half, value = _half(term), math.exp(term.value)
    if half is None:
        return Estimate(value)
    return Estimate(value, value * math.exp(-half), value * math.exp(half), batches=term.batches)
