"""The report for a terminal: plain text, no colours, which the CLI adds."""

from __future__ import annotations

from autotune.domain.study import StudyResult
from autotune.domain.trial import TrialState
from autotune.reporting.alarms import alarms
from autotune.reporting.command import command_text
from autotune.reporting.figures import duration, score_text
from autotune.reporting.layout import as_text
from autotune.reporting.nccl import nccl_table
from autotune.reporting.servers import duplicate_rows
from autotune.reporting.stamp import acceptance_stamp, stamp
from autotune.reporting.tables import difference_rows, factor_table, failures_table, throughput_table
from autotune.reporting.verdict import verdict

_COLUMNS = 5


def terminal_report(result: StudyResult) -> str:
    """Verdict first, launch command last; parts that would be empty are left out."""
    parts = [f"study {result.spec.name}: {counts(result)}"]
    if stamped := stamp(result):
        parts.append(f"SIMULATED: {stamped}")
    if pretended := acceptance_stamp(result):
        parts.append(f"ACCEPTANCE SIMULATED: {pretended}")
    parts += [f"ALARM: {alarm}" for alarm in alarms(result.trials)]
    parts.append(f"verdict: {verdict(result)}")
    if result.stopped_because:
        parts.append(f"stopped: {result.stopped_because}")
    best = result.best
    parts += _titled("output throughput, tok/s (95 % intervals)", throughput_table(result, _COLUMNS))
    parts += _titled("factors, each against an earlier trial that differs in it alone", factor_table(result))
    parts += _titled("NCCL: all-reduce times of the probe, and what serving made of them", nccl_table(result))
    parts += _titled("configurations that are one server", as_text(duplicate_rows(result)))
    parts += _titled("trials without figures", failures_table(result))
    if best is not None:
        parts += _titled(f"trial {best.number}: asked for and resolved", as_text(difference_rows(best)))
        if best.command is not None:
            title = f"launch command of trial {best.number} ({score_text(best.score)})"
            parts += _titled(title, command_text(best.command))
    return "\n\n".join(parts) + "\n"


def counts(result: StudyResult) -> str:
    """`12 trials (9 complete, 2 infeasible, 1 failed), 5.2 h of node time`."""
    each = [(state.value, sum(t.state is state for t in result.trials)) for state in TrialState]
    shown = ", ".join(f"{count} {word}" for word, count in each if count)
    trials = f"{len(result.trials)} trial{'' if len(result.trials) == 1 else 's'}"
    return f"{trials} ({shown or 'none'}), {duration(result.node_seconds)} of node time"


def _titled(title: str, text: str) -> list[str]:
    return [f"{title}\n{text}"] if text else []
