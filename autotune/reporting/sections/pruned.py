"""Trials that were stopped before their last level: what they can have come to at most."""

from __future__ import annotations

from autotune.domain.measurement import Score
from autotune.domain.study import StudyResult
from autotune.domain.trial import TrialResult
from autotune.reporting.changes import differences_from_baseline
from autotune.reporting.figures import change_percent, score_text
from autotune.reporting.layout import Table

EXPLAINED = (
    "Stopped before the last level, as even optimistic values there left them below the best of that time. They count "
    "as tried and as no better."
)


def score_or_bound(trial: TrialResult) -> str:
    """`1.120 ± 0.020 x`, or `at most 0.81 x` of a trial that was stopped."""
    return score_text(trial.score) if trial.bound is None else f"at most {trial.bound.at_most}"


def change_at_most(trial: TrialResult, reference: TrialResult) -> str:
    """`at most -23.0 %` against a complete trial; empty where that cannot be said."""
    below = reference.score.estimate.value if reference.score is not None else 0.0
    return "" if trial.bound is None or below <= 0 else f"at most {change_percent(trial.bound.score / below)}"


def pruned_rows(result: StudyResult) -> Table:
    """The last column names those whose bound is above the best as it is known now: drift or a repeat may have brought
    that down since. They are not run again."""
    best = result.best
    now = result.corrected(best).value if best is not None and best.score is not None else None
    rows = []
    for trial in result.trials:
        bound = trial.bound
        if bound is None:
            continue
        held = f"{score_text(Score(bound.metric, bound.best))} (trial {bound.holder})"
        above = "may be above the best as it is known now" if now is not None and bound.score > now else ""
        levels = ", ".join(map(str, bound.measured))
        changed = differences_from_baseline(trial.configuration, result.spec.baseline)
        rows.append((str(trial.number), levels, bound.at_most, held, changed, above))
    header = ("trial", "levels measured", "at most", "best by then", "configuration", "")
    return Table(header, tuple(rows), frozenset({0}))
