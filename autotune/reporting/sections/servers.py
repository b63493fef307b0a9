"""What the servers turned out to be: duplicates of one another, and where they run with other than was asked."""

from __future__ import annotations

from autotune.domain.secrets import is_secret
from autotune.domain.study import StudyResult
from autotune.domain.trial import TrialResult
from autotune.reporting.changes import changes
from autotune.reporting.layout import Table


def state_word(trial: TrialResult) -> str:
    """`complete`, `breaks SLO`, or `as trial 3` for one whose figures are another's."""
    if trial.duplicate_of is not None:
        return f"as trial {trial.duplicate_of}"
    return "breaks SLO" if trial.broken else trial.state.value


def duplicate_rows(result: StudyResult) -> Table:
    """Each trial that was not measured since its server was known, and what it had asked for otherwise."""
    numbered = {trial.number: trial for trial in result.trials}
    rows = []
    for trial in result.trials:
        original = numbered.get(trial.duplicate_of) if trial.duplicate_of is not None else None
        if original is not None:
            otherwise = ", ".join(map(str, changes(trial.configuration, original.configuration)))
            rows.append((str(trial.number), str(original.number), otherwise))
    return Table(("trial", "runs as trial", "although it asks for"), tuple(rows), frozenset({0, 1}))


def rewrite_rows(result: StudyResult) -> Table:
    """Every difference of asked and resolved, with the trials that showed it."""
    trials: dict[tuple[str, str, str], list[str]] = {}
    for trial in result.trials:
        for d in trial.differences:
            hidden = is_secret(d.argument, d.asked)
            key = (d.argument, *(("(hidden)", "(hidden)") if hidden else (d.asked, d.resolved)))
            trials.setdefault(key, []).append(str(trial.number))
    rows = tuple((*key, ", ".join(numbers)) for key, numbers in sorted(trials.items()))
    return Table(("argument", "asked for", "the server runs with", "trials"), rows)
