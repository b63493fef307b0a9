"""The screen of the next trial: made of the results so far by the grey-box model."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from autotune.domain.configuration import Configuration
from autotune.domain.level import Level
from autotune.domain.study import StudySpec
from autotune.domain.trial import Origin, TrialResult, TrialState
from autotune.scoring.student import t_quantile
from autotune.study.comparing.corrections import Corrections
from autotune.study.early_stopping.pruning import Expectation, Incumbent, Screen, by_information
from autotune.study.ledger import Ledger, rank_of
from autotune.study.model.goal import Goal
from autotune.study.model.greybox import GreyBox, Observation
from autotune.study.model.likeness import Floats
from autotune.study.model.observations import observed, rates_of

SCREENED = frozenset({Origin.GREEDY, Origin.SAMPLER})
"""The others always run all levels: the baseline and its repeats, what is known to be good, and confirmations."""
FEWEST = 6
"""Complete trials of different servers, before which nothing is stopped and levels run in the order of the file."""
SURE = 0.99
"""Two-sided: one level in 200 shows more than its optimistic value."""
COMPLETE_ROWS, STOPPED_ROWS = 300, 100
"""Trials x levels that the model is fitted to at most: of the complete the latest and the best of the earlier, of the
stopped the latest."""


class Screening:
    """For metrics made of throughput, and workloads of several levels and no rate; for others it makes none."""

    def __init__(self, spec: StudySpec, ledger: Ledger, corrections: Corrections) -> None:
        self._spec, self._ledger, self._corrections = spec, ledger, corrections
        self._levels = spec.workload.closed
        self._goal = Goal(spec.workload, spec.objective)
        self._model = GreyBox(spec.space, self._levels)
        plan = spec.plan()
        work = [(p.requests + p.concurrency) * plan.max_tokens for p in plan.levels if p.rate is None]
        self._work = np.array(work, dtype=np.float64)

    def screen(self, configuration: Configuration, origin: Origin) -> Screen | None:
        """None where the trial is to run every level in the order of the file."""
        spec = self._spec
        suits = spec.budget.early_stopping and spec.ranks_by_throughput and len(self._levels) > 1
        if not suits or origin not in SCREENED:
            return None
        complete = [r for r in self._ledger.results if _measured(r) and self._rates(r) is not None]
        identities = {self._ledger.identity(result.configuration) for result in complete}
        incumbent, baseline = self._incumbent(), self._baseline(complete)
        if incumbent is None or baseline is None or len(identities) < FEWEST:
            return None
        expectation = self._expectation(configuration, complete)
        shares = self._goal.shares(expectation.mean)
        order = by_information(expectation, shares, self._seconds(expectation.mean))
        return Screen(
            spec.objective.metric,
            self._goal,
            self._levels,
            tuple(self._levels[place] for place in order),
            expectation,
            baseline,
            incumbent,
            self._drift(),
        )

    def _expectation(self, configuration: Configuration, complete: Sequence[TrialResult]) -> Expectation:
        kept = self._representative(complete)
        most = max(1, STOPPED_ROWS // len(self._levels))
        stopped = [r for r in self._ledger.results if r.state is TrialState.PRUNED][-most:]
        observations = [self._observation(r) for r in (*kept, *stopped)]
        model = self._model
        model.fit([found for found in observations if found is not None])
        seen = np.log(np.array([[(self._rates(r) or {})[level] for level in self._levels] for r in kept]))
        errors = seen - model.left_out()[: len(kept)]
        prediction = model.predict([self._ledger.point(configuration)])
        covariance = prediction.covariance[0] + model.launch_covariance
        different = len({self._ledger.identity(result.configuration) for result in kept})
        return Expectation(prediction.mean[0], covariance, errors, t_quantile(float(different - 2), SURE))

    def _representative(self, complete: Sequence[TrialResult]) -> list[TrialResult]:
        most = max(2 * FEWEST, COMPLETE_ROWS // len(self._levels))
        if len(complete) <= most:
            return list(complete)
        latest = complete[-most // 2 :]
        best = sorted(complete[: -most // 2], key=lambda r: rank_of(r) or (-math.inf, 0.0), reverse=True)
        return [*best[: most - len(latest)], *latest]

    def _observation(self, result: TrialResult) -> Observation | None:
        return observed(result, self._ledger.point(result.configuration), self._levels)

    def _rates(self, result: TrialResult) -> dict[Level, float] | None:
        """None unless every level has one."""
        rates = rates_of(result)
        return rates if set(self._levels) <= rates.keys() else None

    def _baseline(self, complete: Sequence[TrialResult]) -> Floats | None:
        """What the first baseline showed: what a speed-up is the ratio to."""
        first = next((r for r in complete if r.configuration == self._spec.baseline), None)
        raw = None if first is None else next(r for r in self._corrections.raw if r.number == first.number)
        rates = None if raw is None else self._rates(raw)
        return None if rates is None else np.log(np.array([rates[level] for level in self._levels]))

    def _incumbent(self) -> Incumbent | None:
        """With launch and drift in its interval. None while nothing keeps to the SLO: what breaks it less may be slow,
        and better."""
        best = self._ledger.best
        if best is None or best.broken:
            return None
        raw = next(r for r in self._corrections.raw if r.number == best.number)
        corrected = self._corrections.standing.corrected(raw)
        return None if corrected is None else Incumbent(best.number, corrected)

    def _seconds(self, mean: Floats) -> Floats:
        """Of each level: as long as its windows took on complete trials, or else as its requests would."""
        at_rate = self._work / np.exp(mean)
        taken: dict[Level, list[float]] = {level: [] for level in self._levels}
        for result in self._corrections.raw:
            for seen in result.measurements:
                if _measured(result) and seen.window_s and seen.level in taken:
                    taken[seen.level].append(seen.window_s)
        if not all(taken.values()):
            return np.asarray(at_rate)
        return np.array([float(np.median(taken[level])) for level in self._levels])

    def _drift(self) -> float:
        standing = self._corrections.standing
        if standing.curve is None or len(standing.repeats) < 2:
            return 0.0
        return standing.curve.change(max(standing.clock.values()), standing.curve.first)[0]


def _measured(result: TrialResult) -> bool:
    return result.state is TrialState.COMPLETE and result.score is not None and result.duplicate_of is None
