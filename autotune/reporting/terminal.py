"""The report for a terminal: plain text, no colours, which the CLI adds."""

from __future__ import annotations

from autotune.domain.study import StudyResult
from autotune.domain.trial import TrialState
from autotune.reporting.command import command_text
from autotune.reporting.figures import duration, score_text
from autotune.reporting.layout import as_text
from autotune.reporting.sections.alarms import alarms
from autotune.reporting.sections.confirmation import confirmation_note, confirmation_rows, drift_note
from autotune.reporting.sections.effects import effects_summary
from autotune.reporting.sections.findings import relied_upon
from autotune.reporting.sections.front_views import best_rate_rows, best_rows, front_line
from autotune.reporting.sections.modelled import modelled_summary
from autotune.reporting.sections.nccl import nccl_table
from autotune.reporting.sections.pruned import pruned_rows
from autotune.reporting.sections.servers import duplicate_rows
from autotune.reporting.sections.slo import slo_rows
from autotune.reporting.stamp import acceptance_stamp, stamp
from autotune.reporting.tables import difference_rows, factor_table, failures_table, throughput_table, throughput_title
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
    parts += _titled("confirmation: ratio to the baseline, fresh servers, held-out prompts", _confirmation(result))
    parts += _titled("drift of the node", drift_note(result))
    parts += _titled(throughput_title(result), throughput_table(result, _COLUMNS))
    parts += _titled("SLO: how baseline and best stand to it, and what breaks it", as_text(slo_rows(result)))
    parts += _titled("best at each level", as_text(best_rows(result)) if len(result.complete) > 1 else "")
    parts += _titled("best at each rate", as_text(best_rate_rows(result)) if len(result.complete) > 1 else "")
    parts += _titled("front of per-request rate and throughput", front_line(result))
    parts += _titled("factors, each against an earlier trial that differs in it alone", factor_table(result))
    parts += _titled("effects of the factors, largest first (95 % intervals)", effects_summary(result))
    parts += _titled("foretold by the model, where no pair of trials is clear", modelled_summary(result))
    parts += _titled("NCCL: all-reduce times of the probe, and what serving made of them", nccl_table(result))
    parts += _titled("configurations that are one server", as_text(duplicate_rows(result)))
    parts += _titled("trials stopped early: they could not come near the best any more", as_text(pruned_rows(result)))
    parts += _titled("trials without figures", failures_table(result))
    parts += _titled("what the guards say of these figures (docs/guards.md)", "\n".join(relied_upon(result)))
    if best is not None:
        parts += _titled(f"trial {best.number}: asked for and resolved", as_text(difference_rows(best)))
        if best.command is not None:
            title = f"launch command of trial {best.number} ({score_text(best.score)})"
            parts += _titled(title, command_text(best.command))
    return "\n\n".join(parts) + "\n"


def _confirmation(result: StudyResult) -> str:
    table = as_text(confirmation_rows(result))
    return f"{table}\n{confirmation_note(result)}" if table else ""


def counts(result: StudyResult) -> str:
    """`12 trials (9 complete, 2 infeasible, 1 failed), 5.2 h of node time`."""
    each = [(state.value, sum(t.state is state for t in result.trials)) for state in TrialState]
    shown = ", ".join(f"{count} {word}" for word, count in each if count)
    trials = f"{len(result.trials)} trial{'' if len(result.trials) == 1 else 's'}"
    return f"{trials} ({shown or 'none'}), {duration(result.node_seconds)} of node time"


def _titled(title: str, text: str) -> list[str]:
    return [f"{title}\n{text}"] if text else []
