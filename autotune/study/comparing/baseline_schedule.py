"""When the baseline is to be measured again: as often as the drift that its own repeats show asks for.

The second measurement comes soon, as one says nothing of drift. From then on the next is due when what the node may
have done since the last one (the variance of the random walk, as the repeats make it likely) has grown as large as
what a single trial is uncertain by anyway: launch and window. Repeats that agree make the walk small and the interval
long; repeats that do not make it short. All of it is a pure function of the recorded trials.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from autotune.domain.study import Budget
from autotune.domain.trial import Origin, TrialResult, TrialState
from autotune.scoring.trials.drift import Standing

SECOND_AFTER = 3
"""Trials between the first two measurements."""
CLOSEST, FARTHEST = 2, 24
"""Trials between two later ones."""
SHARE = 0.15
"""Of node time and of the budget's trials, at most, goes into repeats (the second measurement excepted)."""


def is_due(budget: Budget, results: Sequence[TrialResult], standing: Standing) -> bool:
    """`results` of the search, in the order in which they ran; the baseline has a score."""
    ended = [result for result in results if result.state is not TrialState.INTERRUPTED]
    last = max((place for place, result in enumerate(ended) if result.origin is Origin.BASELINE), default=-1)
    since = len(ended) - 1 - last
    if budget.baseline_every is None:
        return False
    if budget.baseline_every != "auto":
        return since >= budget.baseline_every
    return _asked_for(since, ended, standing) and _affordable(budget, ended)


def _asked_for(since: int, ended: Sequence[TrialResult], standing: Standing) -> bool:
    """Whatever became of an earlier one: a repeat that failed counts as measured, or it would be tried for ever."""
    tried = sum(result.origin is Origin.BASELINE for result in ended)
    curve = standing.curve
    if tried < 2 or curve is None:
        return since >= SECOND_AFTER
    if since < CLOSEST:
        return False
    windows = [
        r.variance for t in standing.repeats if (r := standing.reading(t)) is not None and r.variance is not None
    ]
    single = curve.launch_variance + (statistics.fmean(windows) if windows else 0.0)
    now = standing.clock[ended[-1].number]
    return since >= FARTHEST or curve.walk_variance * (now - curve.last) > single


def _affordable(budget: Budget, ended: Sequence[TrialResult]) -> bool:
    repeats = [result for result in ended if result.origin is Origin.BASELINE][1:]
    if budget.trials is not None and len(repeats) + 1 > SHARE * budget.trials:
        return False
    if not repeats:
        return True
    each = statistics.fmean(result.node_seconds for result in repeats)
    spent = sum(result.node_seconds for result in repeats)
    return spent + each <= SHARE * (sum(result.node_seconds for result in ended) + each)
