"""Alarms of the measurements: what a reader must see before any figure."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.domain.level import named_all
from autotune.domain.trial import TrialResult

_SHOWN = 3


def alarm_line(trial: TrialResult) -> str:
    """`trial 3, levels 1 and 4: accept length 1.00 ...`: the first level's alarm stands for all; empty without one."""
    alarmed = [measurement for measurement in trial.measurements if measurement.alarms]
    if not alarmed:
        return ""
    where = named_all([measurement.level for measurement in alarmed])
    return f"trial {trial.number}, {where}: {alarmed[0].alarms[0]}"


def alarms(trials: Sequence[TrialResult]) -> tuple[str, ...]:
    """One line for each trial with an alarm; beyond the first three, their numbers."""
    found = [(trial.number, line) for trial in trials if (line := alarm_line(trial))]
    lines = [line for _number, line in found[:_SHOWN]]
    if more := [str(number) for number, _line in found[_SHOWN:]]:
        lines.append(f"an alarm also in trial{'s' if len(more) > 1 else ''} {', '.join(more)}")
    return tuple(lines)
