"""The search's results as they would have been without the node's drift: what strategies see instead of the raw ones.

A trial is corrected when it comes in, by the repeats of the baseline known then; the greedy pass, which is replayed
from its start over and over, sees these figures and no later ones, so that its way never changes under its feet. The
other strategies get all results corrected anew after each repeat, which then lie between two of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from autotune.domain.measurement import Estimate, Measurement
from autotune.domain.study import StudySpec
from autotune.domain.trial import TrialResult
from autotune.scoring.trials.drift import Standing


class Corrections:
    """`raw` are the results as recorded, in the order in which they ran."""

    def __init__(self, spec: StudySpec) -> None:
        self._spec = spec
        self.raw: list[TrialResult] = []
        self._standing = Standing(spec, ())

    @classmethod
    def of(cls, spec: StudySpec, results: Iterable[TrialResult]) -> Corrections:
        made = cls(spec)
        made.raw = list(results)
        made._standing = Standing(spec, made.raw)
        return made

    @property
    def standing(self) -> Standing:
        return self._standing

    def add(self, result: TrialResult) -> tuple[TrialResult, bool]:
        """The result, corrected by what is known now; and whether it taught something new about the others."""
        repeats = len(self._standing.repeats)
        self.raw.append(result)
        self._standing = Standing(self._spec, self.raw)
        return self._corrected(result), len(self._standing.repeats) > max(1, repeats)

    def all(self) -> Iterable[TrialResult]:
        return map(self._corrected, self.raw)

    def _corrected(self, result: TrialResult) -> TrialResult:
        if len(self._standing.repeats) < 2:
            return result
        if result.bound is not None:  # the bound itself is of the first baseline's time already
            factor = self._standing.without_drift(result)
            return replace(result, measurements=tuple(_scaled(seen, factor) for seen in result.measurements))
        if result.score is None:
            return result
        estimate = self._standing.corrected(result)
        if estimate is None or result.score.estimate.value <= 0:
            return result
        factor = estimate.value / result.score.estimate.value
        measurements = tuple(_scaled(measurement, factor) for measurement in result.measurements)
        return replace(result, score=replace(result.score, estimate=estimate), measurements=measurements)


def _scaled(seen: Measurement, factor: float) -> Measurement:
    return replace(seen, output_throughput=_times(seen.output_throughput, factor), goodput=_times(seen.goodput, factor))


def _times(estimate: Estimate | None, factor: float) -> Estimate | None:
    if estimate is None:
        return None
    low, high = (None if end is None else end * factor for end in (estimate.low, estimate.high))
    return replace(estimate, value=estimate.value * factor, low=low, high=high)
