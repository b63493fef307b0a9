"""What the guards found: a line a finding, and the tables and tags made of them."""

from __future__ import annotations

from collections.abc import Iterable

from autotune.domain.finding import Effect, Finding
from autotune.domain.study import StudyResult
from autotune.domain.trial import TrialResult
from autotune.reporting.layout import Table


def relied_upon(result: StudyResult) -> list[str]:
    """Findings on the baseline and the best, whose figures the verdict is made of. Alarms are told apart from these."""
    shown: dict[int, TrialResult] = {t.number: t for t in (result.baseline, result.best) if t is not None}
    return [
        f"trial {trial.number}: {found}"
        for trial in shown.values()
        for found in trial.every_finding
        if found.effect is not Effect.ALARM
    ]


def finding_rows(result: StudyResult) -> Table:
    """Every finding of the study, one row for each guard of a trial."""
    rows = []
    for trial in result.trials:
        groups: dict[str, list[Finding]] = {}
        for found in trial.every_finding:
            groups.setdefault(found.guard, []).append(found)
        rows += [
            (str(trial.number), found[0].effect.value, guard, levels_text(found), found[0].text)
            for guard, found in groups.items()
        ]
    return Table(("trial", "effect", "guard", "levels", "what was found (at the first of them)"), tuple(rows))


def levels_text(found: Iterable[Finding]) -> str:
    return ", ".join(str(one.level) for one in found if one.level is not None) or "all"
