"""What is confirmed after the search, and in which order: the plan, and the runs that follow from what is recorded."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace

from autotune.domain.configuration import Configuration
from autotune.domain.confirmation import Confirm, Replicate
from autotune.domain.measurement import Estimate
from autotune.domain.study import Budget, StudyResult, StudySpec
from autotune.domain.trial import Origin, TrialRequest, TrialResult, TrialState
from autotune.scoring.trials.confirmation import Progress, progress, runs_of
from autotune.scoring.trials.drift import Standing
from autotune.study.budget import spent

FEWEST_ROUNDS = 4
"""Rather fewer finalists than fewer rounds: few servers of each decide little."""
FEWEST_THAT_TELL = 3
"""Rounds; two leave one degree of freedom to one finalist, which is as good as nothing."""


def search_budget(budget: Budget) -> Budget:
    """What the search may use: the hours without the confirmation's share."""
    if budget.confirm is None or budget.hours is None:
        return budget
    return replace(budget, hours=budget.hours * (1.0 - budget.confirm.share), confirm=None)


def recorded_progress(spec: StudySpec, trials: Sequence[TrialResult]) -> Progress | None:
    """How far the confirmation at the end of `trials` has come; None where there is none. The plan is read from its own
    runs, whatever the budget is by now."""
    runs = runs_of(trials)
    plan = runs[0].replicate if runs else None
    return None if plan is None else progress(spec, plan, runs)


class Confirming:
    """The confirmation of one study: what is due, given the recorded trials."""

    def __init__(self, spec: StudySpec, trials: Sequence[TrialResult]) -> None:
        self._spec = spec
        self._trials = list(trials)

    def run(self, evaluate: Callable[[TrialRequest], TrialResult]) -> str:
        """To its end; why it ended. What `evaluate` raises goes through."""
        runs = runs_of(self._trials)
        plan = runs[0].replicate if runs else self._plan()
        if isinstance(plan, str):
            return plan
        assert plan is not None
        while True:
            now = progress(self._spec, plan, runs_of(self._trials))
            if now.pending is None:
                return f"confirmation: {now.ended}"
            hours = Budget(hours=self._spec.budget.hours)
            if (ended := spent(hours, self._trials)) is not None:
                return f"confirmation: {ended}"
            arm, turn = now.pending
            number = max(trial.number for trial in self._trials) + 1
            replicate = Replicate(arm, turn, plan.rounds, plan.finalists)
            request = TrialRequest(number, self._configuration(arm), Origin.CONFIRMATION, replicate)
            result = evaluate(request)
            if result.replicate != replicate:
                raise ValueError(f"the result of trial {number} must be of {replicate}, but is of {result.replicate}")
            self._trials.append(result)

    def _configuration(self, trial: int | None) -> Configuration:
        if trial is None:
            return self._spec.baseline
        return next(t.configuration for t in self._trials if t.number == trial)

    def _plan(self) -> Replicate | str:
        """A plan, as the replicate that it begins with; or why there is nothing to confirm."""
        confirm = self._spec.budget.confirm
        assert confirm is not None
        found = finalists(self._spec, self._trials, confirm.finalists)
        if not found:
            return "nothing to confirm: no trial may be faster than the baseline"
        runs = self._affordable(confirm)
        count = len(found)
        while count > 1 and runs // (count + 1) < min(FEWEST_ROUNDS, confirm.rounds):
            count -= 1
        rounds = min(confirm.rounds, runs // (count + 1))
        if rounds < FEWEST_THAT_TELL:
            return "not confirmed: too little node time is left"
        return Replicate(None, 1, rounds, tuple(trial.number for trial in found[:count]))

    def _affordable(self, confirm: Confirm) -> int:
        """How many runs. Without hours never so few that the best alone could not be confirmed."""
        search = [trial for trial in self._trials if trial.origin is not Origin.CONFIRMATION]
        lengths = [t.node_seconds for t in search if t.state is TrialState.COMPLETE and t.duplicate_of is None]
        each = max(1e-9, statistics.median(lengths))
        if self._spec.budget.hours is not None:
            used = sum(trial.node_seconds for trial in self._trials)
            return int((self._spec.budget.hours * 3600.0 - used) / each + 0.5)
        share = confirm.share / (1.0 - confirm.share) * sum(trial.node_seconds for trial in search)
        return max(int(share / each + 0.5), 2 * FEWEST_ROUNDS)


def finalists(spec: StudySpec, trials: Sequence[TrialResult], most: int) -> tuple[TrialResult, ...]:
    """The best first: those that keep to the SLO, whose interval reaches into the best's and above the baseline."""
    standing = Standing(spec, trials)
    measured: dict[Configuration, tuple[Estimate, TrialResult]] = {}
    for trial in StudyResult(spec, tuple(trials)).candidates:
        ratio = standing.ratio(trial)
        if ratio is not None and trial.configuration != spec.baseline and trial.duplicate_of is None:
            measured.setdefault(trial.configuration, (ratio, trial))
    ranked = sorted(measured.values(), key=lambda found: (-found[0].value, found[1].number))
    if not ranked:
        return ()
    bound = max(1.0, ranked[0][0].low or 0.0)
    return tuple(trial for ratio, trial in ranked if (ratio.high or 0.0) > bound)[:most]
