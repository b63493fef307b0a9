"""The report and the experiment's note in Markdown."""

from __future__ import annotations

from collections.abc import Iterable

from autotune.domain.level import named
from autotune.domain.study import StudyResult
from autotune.domain.trial import Provenance, TrialResult
from autotune.reporting.command import command_text
from autotune.reporting.figures import score_text
from autotune.reporting.layout import Table, as_markdown, code_block, escape
from autotune.reporting.lines import level_line
from autotune.reporting.sections.alarms import alarms
from autotune.reporting.sections.confirmation import confirmation_note, confirmation_rows, drift_note, drift_rows
from autotune.reporting.sections.effects import (
    effects_section,
    importance_section,
    interactions_section,
    untried_section,
)
from autotune.reporting.sections.findings import finding_rows
from autotune.reporting.sections.gpus import gpu_lines
from autotune.reporting.sections.modelled import modelled_section
from autotune.reporting.sections.nccl import nccl_rows
from autotune.reporting.sections.objectives import best_section, front_section, slo_section
from autotune.reporting.sections.pruned import EXPLAINED, pruned_rows
from autotune.reporting.sections.servers import duplicate_rows, rewrite_rows
from autotune.reporting.sections.warm_start import warm_start_section
from autotune.reporting.stamp import acceptance_stamp, stamp
from autotune.reporting.tables import (
    difference_rows,
    factor_rows,
    failure_rows,
    throughput_rows,
    throughput_title,
    trial_rows,
)
from autotune.reporting.terminal import counts
from autotune.reporting.verdict import verdict

_COLUMNS = 8
_NOTE_COLUMNS = 5


def markdown_report(result: StudyResult) -> str:
    """The whole study; sections that would be empty are left out."""
    best = result.best
    parts = [
        *_opening(result),
        *_launch(best),
        *_section("Confirmation", _confirmation(result)),
        *_section("Drift", _drift(result)),
        *_section("Throughput", _throughput(result, _COLUMNS)),
        *_section("SLO", slo_section(result)),
        *_section("Best at each level", best_section(result)),
        *_section("Per-request rate against throughput", front_section(result)),
        *_section("Levels", _levels(result)),
        *_section("GPUs", _gpus(result)),
        *_section("Trials", as_markdown(trial_rows(result))),
        *_section("Taken from earlier studies", warm_start_section(result)),
        *_section("Factors", _factors(result)),
        *_section("Effects of the factors", effects_section(result)),
        *_section("Effects by the model", modelled_section(result)),
        *_section("Interactions", interactions_section(result)),
        *_section("Never tried", untried_section(result)),
        *_section("Importances", importance_section(result)),
        *_section("NCCL", _nccl(result)),
        *_section("Asked for and resolved", _differences(result)),
        *_section("Configurations that are one server", as_markdown(duplicate_rows(result))),
        *_section("Trials stopped early", _pruned(result)),
        *_section("Trials without figures", as_markdown(failure_rows(result))),
        *_section("What the guards found", as_markdown(finding_rows(result))),
        *_section("Remarks", _remarks(result)),
        *_section("Variables of the shell that the server did not get", _dropped(result)),
        *_section("Provenance", _provenance(result)),
        *_section("How the figures were obtained", _method(result)),
    ]
    return "\n\n".join(parts) + "\n"


def experiment_note(result: StudyResult) -> str:
    """Short: verdict, throughput, SLO, front, effects, launch command."""
    table = as_markdown(throughput_rows(result, _NOTE_COLUMNS))
    parts = [*_opening(result), *_section("Confirmation", _confirmation(result)), *([table] if table else [])]
    parts += [*_section("SLO", slo_section(result)), *_section("Best at each level", best_section(result))]
    parts += _section("Per-request rate against throughput", front_section(result))
    parts += _section("Effects of the factors", effects_section(result))
    parts += _section("Effects by the model", modelled_section(result))
    parts += _section("Taken from earlier studies", warm_start_section(result))
    return "\n\n".join([*parts, *_launch(result.best)]) + "\n"


def _opening(result: StudyResult) -> list[str]:
    parts = [f"# {escape(result.spec.name)}"]
    if stamped := stamp(result):
        parts.append(f"**SIMULATED**: {stamped}.")
    if pretended := acceptance_stamp(result):
        parts.append(f"**ACCEPTANCE SIMULATED**: {escape(pretended)}.")
    parts += [f"**ALARM**: {escape(alarm)}." for alarm in alarms(result.trials)]
    parts += [f"**Verdict:** {escape(verdict(result))}.", f"{counts(result)}."]
    if result.stopped_because:
        parts.append(f"Stopped: {escape(result.stopped_because)}.")
    return parts


def _section(title: str, text: str) -> list[str]:
    return [f"## {title}", text] if text else []


def _launch(best: TrialResult | None) -> list[str]:
    if best is None or best.command is None:
        return []
    note = f"What trial {best.number} ran ({score_text(best.score)}), its port and served name included."
    return ["## Launch command", note, code_block(command_text(best.command), "bash")]


def _confirmation(result: StudyResult) -> str:
    table = as_markdown(confirmation_rows(result))
    return f"{confirmation_note(result)}\n\n{table}" if table else ""


def _drift(result: StudyResult) -> str:
    table = as_markdown(drift_rows(result))
    return f"{drift_note(result)}\n\n{table}" if table else ""


def _throughput(result: StudyResult, columns: int) -> str:
    table = as_markdown(throughput_rows(result, columns))
    title = throughput_title(result)
    return f"{title[0].upper()}{title[1:]}.\n\n{table}" if table else ""


def _levels(result: StudyResult) -> str:
    parts = []
    for trial, name in _named(result):
        if trial.measurements:
            lines = "\n".join(level_line(m) for m in trial.measurements)
            parts.append(f"{name}:\n\n{code_block(lines)}")
    return "\n\n".join(parts)


def _gpus(result: StudyResult) -> str:
    """Means over each level's window, of baseline and best."""
    parts = []
    for trial, name in _named(result):
        if found := gpu_lines(trial):
            lines = "\n".join(found)
            parts.append(f"{name}, over each window:\n\n{code_block(lines)}")
    return "\n\n".join(parts)


def _named(result: StudyResult) -> list[tuple[TrialResult, str]]:
    """Baseline and best; one entry if they are the same."""
    found = []
    if result.baseline is not None:
        found.append((result.baseline, f"Baseline (trial {result.baseline.number})"))
    if result.best is not None and result.best is not result.baseline:
        found.append((result.best, f"Best (trial {result.best.number})"))
    return found


def _pruned(result: StudyResult) -> str:
    table = as_markdown(pruned_rows(result))
    return f"{EXPLAINED}\n\n{table}" if table else ""


def _factors(result: StudyResult) -> str:
    table = as_markdown(factor_rows(result))
    said = "Each trial of the greedy pass against an earlier trial that differs in this parameter alone."
    return f"{said}\n\n{table}" if table else ""


def _nccl(result: StudyResult) -> str:
    """What NCCL's settings do by themselves, and what serving makes of them."""
    table = as_markdown(nccl_rows(result))
    said = (
        "All-reduce times of the probe (bf16, median of the slowest rank), before the server was started, and what the "
        "server then showed. The two need not rank alike: where another all-reduce carries the traffic, NCCL's "
        "settings change nothing."
    )
    return f"{said}\n\n{table}" if table else ""


def _differences(result: StudyResult) -> str:
    best = result.best
    parts = []
    if best is not None and (table := as_markdown(difference_rows(best))):
        parts.append(f"Of trial {best.number}.\n\n{table}")
    if every := as_markdown(rewrite_rows(result)):
        parts.append(f"Of all trials.\n\n{every}")
    return "\n\n".join(parts)


def _remarks(result: StudyResult) -> str:
    lines = []
    for trial in result.trials:
        lines += [f"trial {trial.number}: {remark}" for remark in trial.remarks]
        lines += [f"trial {trial.number}, {named(m.level)}: {r}" for m in trial.measurements for r in m.remarks]
    return _bullets(lines)


def _dropped(result: StudyResult) -> str:
    return _bullets(sorted({name for t in result.trials if t.command for name in t.command.dropped}))


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {escape(line)}" for line in lines)


def _provenance(result: StudyResult) -> str:
    """One table for each different provenance, with the trials that it holds for."""
    groups: list[tuple[Provenance, list[int]]] = []
    for trial in result.trials:
        if trial.provenance is None:
            continue
        same = next((numbers for known, numbers in groups if known == trial.provenance), None)
        if same is None:
            groups.append((trial.provenance, [trial.number]))
        else:
            same.append(trial.number)
    parts = []
    for provenance, numbers in groups:
        if len(groups) > 1:
            parts.append(f"Trials {', '.join(str(number) for number in numbers)}:")
        parts.append(as_markdown(_provenance_rows(provenance)))
    return "\n\n".join(parts)


def _provenance_rows(provenance: Provenance) -> Table:
    rows = [("engine", f"{provenance.engine} {provenance.engine_version}")]
    if provenance.simulated:
        rows.append(("SIMULATED", f"clock rate {provenance.clock_rate:g}"))
    rows += [(f"node: {key}", value) for key, value in provenance.node.items()]
    rows += [(f"tuner: {key}", value) for key, value in provenance.tuner.items()]
    return Table(("what", "value"), tuple(rows))


_CLOSED = "Closed loop: each level keeps its number of requests in flight. Requests in the window: {}."
_OPEN = (
    "Open loop: at each rate requests arrive as a Poisson process, whether or not earlier ones are done. Arrivals in "
    "the window: {}, and more until it is as long as 1.5 of the longest latencies. They are followed to their end."
)


def _method(result: StudyResult) -> str:
    spec, plan = result.spec, result.spec.plan()
    asked = ", ".join(f"{level.requests} at {level.level}" for level in plan.levels if level.rate is None)
    arriving = ", ".join(f"{level.requests} at {level.level}" for level in plan.levels if level.rate is not None)
    if spec.workload.precision is not None:
        asked += f", and more until ± is {spec.workload.precision:.2g} of the throughput"
    end = "to the full length, end of sequence ignored" if plan.ignore_eos else "until the model ends"
    return _bullets(
        [
            *([_CLOSED.format(asked)] if asked else []),
            *([_OPEN.format(arriving)] if arriving else []),
            f"Prompts: {spec.workload.prompts}, none sent twice. At most {plan.max_tokens} tokens each, {end}, "
            f"temperature {plan.temperature:g}.",
            "Throughput: completion tokens, as the server counts them, that arrived inside the window, over its "
            "length. Latencies: only of requests sent and ended inside it.",
            "± of a throughput or a score is half of a 95 % interval, from how one window's rate "
            "wanders and from what its requests differ by. It "
            "does not cover drift from one trial to the next, or what another start of the same server would show.",
            f"Objective: {spec.objective.metric}. Levels and trials count as independent.",
            "The best trial was picked for its figure, and the largest of many noisy figures overstates itself: "
            + (
                "measure it again before relying on the margin."
                if result.confirmation is None
                else "the gain over the baseline is the confirmation's, which ran afterwards on servers of its own."
            ),
        ]
    )
