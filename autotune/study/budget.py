"""When the budget of a study ends."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from autotune.domain.study import Budget
from autotune.domain.trial import TrialResult, TrialState

_HOUR = 3600.0


def spent(budget: Budget, results: Sequence[TrialResult]) -> str | None:
    """Why no further trial may start; None if one may.

    Interrupted trials cost node time but are not counted as trials: they are evaluated again. The last trial is not
    started if, lasting as long as the median of the complete ones, more than half of it would lie beyond the hours.
    """
    counted = sum(result.state is not TrialState.INTERRUPTED for result in results)
    if budget.trials is not None and counted >= budget.trials:
        return f"{counted} {'trial' if counted == 1 else 'trials'}, as the budget asks"
    if budget.hours is None:
        return None
    used = sum(result.node_seconds for result in results) / _HOUR
    if used >= budget.hours:
        return f"{used:.3g} node hours used, of {budget.hours:g}"
    lengths = [result.node_seconds for result in results if result.state is TrialState.COMPLETE]
    expected = statistics.median(lengths) / _HOUR if lengths else 0.0
    if used + expected > budget.hours + expected / 2:
        return (
            f"{used:.3g} node hours used, of {budget.hours:g}: "
            f"the next trial would take about {expected:.2g} h, and most of it would be too much"
        )
    return None
