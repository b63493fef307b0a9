"""What a study took from earlier ones, told so that none of it passes for a result of its own."""

from __future__ import annotations

from autotune.domain.knowledge import KnownGood
from autotune.domain.study import StudyResult
from autotune.domain.trial import Origin, TrialResult
from autotune.reporting.figures import MISSING, change_percent, change_text
from autotune.reporting.layout import Table, as_markdown, escape


def origin_word(trial: TrialResult, result: StudyResult) -> str:
    """`known_good (trial 7 of kimi-20260131)` for one that an earlier study proposed."""
    taken = _taken(trial, result)
    return trial.origin.value if taken is None else f"{trial.origin.value} (trial {taken.trial} of {taken.run})"


def warm_start_section(result: StudyResult) -> str:
    """Markdown; empty for a study that began cold."""
    earlier = result.spec.earlier
    if not earlier.runs:
        return ""
    said = (
        "The earlier studies decided where to look first. No figure in this report is theirs, but for the column "
        "`there`: every other one was measured in this study."
    )
    parts = [said, "\n".join(f"- {escape(note)}" for note in earlier.notes)]
    if earlier.order or earlier.idle:
        order = ", ".join(earlier.order) or "none"
        idle = f"; gained nothing there, and come last: {', '.join(earlier.idle)}" if earlier.idle else ""
        parts.append(f"Factors that gained there, the most first: {escape(order + idle)}.")
    if table := as_markdown(_known_good(result)):
        parts.append(table)
    if earlier.priors:
        count = len(earlier.priors)
        subject = "1 trial of an earlier study was" if count == 1 else f"{count} trials of earlier studies were"
        parts.append(f"{subject} given to the models as a starting point, as ratios to the baseline: in no table here.")
    return "\n\n".join(parts)


def _known_good(result: StudyResult) -> Table:
    rows = []
    for one in result.spec.earlier.known_good:
        mine = next((t for t in result.trials if t.configuration == one.configuration and t.score), None)
        there = MISSING if one.speedup is None else change_percent(one.speedup)
        here = "not measured" if mine is None else change_text(mine, result.baseline)
        rows.append((f"trial {one.trial} of {one.run}", there, MISSING if mine is None else str(mine.number), here))
    return Table(("proposed by", "there", "trial here", "here"), tuple(rows), frozenset({1, 2, 3}))


def _taken(trial: TrialResult, result: StudyResult) -> KnownGood | None:
    if trial.origin is not Origin.KNOWN_GOOD:
        return None
    return next((one for one in result.spec.earlier.known_good if one.configuration == trial.configuration), None)
