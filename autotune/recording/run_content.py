"""What MLflow is told of a trial: pure functions from the trial to names, figures and texts."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from autotune.domain.configuration import show_value
from autotune.domain.level import Level, Rate, label
from autotune.domain.measurement import Estimate, Measurement, Percentiles
from autotune.domain.study import StudyResult, StudySpec
from autotune.domain.trial import TrialResult, TrialState
from autotune.recording.codec import encode_trial
from autotune.recording.folder_names import attempt_file
from autotune.recording.run_folder import RunFolder
from autotune.recording.secrets import mask_text

NOTE_TAG = "mlflow.note.content"
LOG_BYTES = 2_000_000
_NAME_LENGTH = 60
RATE = "rate"
"""Before the names of figures at a rate: `rate.goodput`."""
_TAG_LENGTH = 7_500  # MLflow's own bound is 8000 characters
_STATUS = {
    TrialState.COMPLETE: "FINISHED",
    TrialState.PRUNED: "FINISHED",
    TrialState.INFEASIBLE: "FAILED",
    TrialState.FAILED: "FAILED",
    TrialState.INTERRUPTED: "KILLED",
}


@dataclass(frozen=True)
class RunContent:
    """One MLflow run. `metrics` are (name, value, step); `texts` are artifacts by name; times in ms since 1970.

    The run lasts as long as the trial took on the node's clock, which on a simulated node runs faster.
    """

    name: str
    status: str
    start_ms: int
    end_ms: int
    params: Mapping[str, str]
    metrics: tuple[tuple[str, float, int], ...]
    tags: Mapping[str, str]
    texts: Mapping[str, str]


def trial_key(tags: Mapping[str, str]) -> tuple[str, str]:
    """What tells the runs of one experiment apart: the trial's number, and when it started."""
    return tags.get("trial", ""), tags.get("started_at", "")


def trial_content(result: TrialResult, study: StudyResult, folder: RunFolder) -> RunContent:
    """`result` as read back from `folder`, so with its secrets masked; `study` gives the baseline."""
    start_ms = round(datetime.fromisoformat(result.started_at).timestamp() * 1000)
    return RunContent(
        name=_run_name(result, study.spec),
        status=_STATUS[result.state],
        start_ms=start_ms,
        end_ms=start_ms + round(result.node_seconds * 1000),
        params={name: show_value(value) for name, value in result.configuration.items()},
        metrics=tuple(_metrics(result, study)),
        tags={name: value[:_TAG_LENGTH] for name, value in _tags(result, folder).items()},
        texts=_texts(result, folder),
    )


def experiment_tags(spec: StudySpec, trials: tuple[TrialResult, ...], folder: RunFolder) -> dict[str, str]:
    tags = {"study": spec.name, "engine": spec.engine.name, "simulated": _word(folder.simulated)}
    if pretended := sorted({pretence for trial in trials for pretence in trial.pretences}):
        tags["acceptance_simulated"] = ", ".join(pretended)
    known = next((t.provenance for t in trials if t.provenance is not None), None)
    if known is not None:
        tags |= {"engine_version": known.engine_version, **_facts("tuner", known.tuner)}
    return tags


def study_note(study: StudyResult, folder: RunFolder) -> str:
    """Markdown: the trials so far, in the order in which they ran."""
    levels = study.spec.workload.levels
    head = ["trial", "state", "score", "× baseline", *(_figure_name(level) for level in levels), "configuration"]
    rows = [" | ".join(head), " | ".join("---" for _ in head)]
    for trial in study.trials:
        speedup = _speedup(trial, study)
        cells = [
            f"{trial.number:02d} {trial.origin.value}",
            trial.failure.reason.word if trial.failure is not None else trial.state.value,
            _score(trial),
            "–" if speedup is None else f"{speedup:.3f}",
            *(_shown(m.main_figure) if (m := trial.at(level)) is not None else "–" for level in levels),
            f"`{trial.configuration}`",
        ]
        rows.append(" | ".join(cell.replace("|", "\\|") for cell in cells))
    simulated = "**Simulated node: no figure here is a measurement of real hardware.**\n\n" if folder.simulated else ""
    if any(trial.pretences for trial in study.trials):
        simulated += "**Acceptance simulated: draft tokens were accepted by decree.**\n\n"
    return f"{simulated}Study `{study.spec.name}`, {study.spec.objective.metric}.\n\n" + "\n".join(
        f"| {row} |" for row in rows
    )


def _figure_name(level: Level) -> str:
    return f"{level} good req/s" if isinstance(level, Rate) else f"{label(level)} tok/s"


def _score(trial: TrialResult) -> str:
    if trial.bound is not None:
        return f"at most {trial.bound.at_most}"
    return _shown(trial.score.estimate) if trial.score is not None else "–"


def trial_note(result: TrialResult, *, simulated: bool) -> str:
    """Markdown: what the levels showed, where the server runs with other than was asked, why it failed."""
    parts = ["**Simulated node: no figure here is a measurement of real hardware.**"] if simulated else []
    if result.pretences:
        parts.append(f"**Acceptance simulated: {', '.join(result.pretences)}.**")
    if result.score is not None:
        parts.append(f"{result.score.metric}: **{_shown(result.score.estimate)}**")
    if result.measurements:
        parts.append("\n".join(["```", *map(_level_line, result.measurements), "```"]))
    parts += [f"**breaks the SLO**: {check}" for check in result.broken]
    if result.failure is not None:
        failure = result.failure
        parts.append(f"**{failure.reason.word}**: {failure.message}")
        parts += [f"```\n{failure.evidence}\n```"] if failure.evidence else []
        parts += [f"hint: {failure.hint}"] if failure.hint else []
    parts += [f"- asked `{d.argument}` = {d.asked}, the server runs with {d.resolved}" for d in result.differences]
    parts += [f"- {found}" for found in result.every_finding]
    parts += [f"- {remark}" for remark in result.remarks]
    parts.append(f"`{result.configuration}`")
    return "\n\n".join(parts)


def cut_log(text: str, limit: int = LOG_BYTES) -> str:
    """The first quarter and the last three of what `limit` allows, in characters."""
    if len(text) <= limit:
        return text
    first, last = limit // 4, limit - limit // 4
    return f"{text[:first]}\n\n[... {len(text) - limit} characters left out ...]\n\n{text[-last:]}"


def _run_name(result: TrialResult, spec: StudySpec) -> str:
    """`07 greedy spec_v2=true …`: what differs from the baseline, in the order of the space file, which puts first
    what matters first; the pages show only the start of a name."""
    places = {parameter.name: place for place, parameter in enumerate(spec.space.parameters)}
    differing = [
        f"{name}={show_value(value)}"
        for name, value in sorted(result.configuration.items(), key=lambda item: places.get(item[0], len(places)))
        if name not in spec.baseline or spec.baseline[name] != value
    ]
    name = " ".join([f"{result.number:02d}", result.origin.value, *differing])
    return name if len(name) <= _NAME_LENGTH else name[: _NAME_LENGTH - 1] + "…"


def _metrics(result: TrialResult, study: StudyResult) -> Iterator[tuple[str, float, int]]:
    """Only what is there: a metric that is missing is left out."""
    score = result.score.estimate if result.score is not None else None
    single = {
        "objective": score.value if score is not None else None,
        "objective_low": score.low if score is not None else None,
        "objective_high": score.high if score is not None else None,
        "objective_at_most": result.bound.score if result.bound is not None else None,
        "speedup_vs_baseline": _speedup(result, study),
        "node_seconds": result.node_seconds,
        "startup_seconds": result.startup_seconds,
        "slo_violation": result.violation if result.slo else None,
    }
    figures = [(name, value, 0) for name, value in single.items()]
    for measurement in result.measurements:
        figures += [_at(measurement.level, name, value) for name, value in _level_figures(measurement).items()]
    figures += [_at(check.level, f"slo_violation.{check.figure}", check.violation) for check in result.slo]
    times = {key.removeprefix("allreduce_us."): text for key, text in result.proof.items() if "allreduce_us." in key}
    figures += [("nccl_allreduce_us", float(text), int(size)) for size, text in times.items() if size.isdecimal()]
    for name, value, step in figures:
        if value is not None and math.isfinite(value):
            yield name, value, step


def _at(level: Level, name: str, value: float | None) -> tuple[str, float | None, int]:
    """A step of MLflow's is a whole number: of a rate the requests per 1,000 seconds, under a name of its own."""
    return (f"{RATE}.{name}", value, level.step) if isinstance(level, Rate) else (name, value, level)


def _level_figures(seen: Measurement) -> dict[str, float | None]:
    return {
        "output_throughput": seen.output_throughput.value if seen.output_throughput is not None else None,
        "per_request_rate": seen.per_request_rate,
        "ttft_p50_ms": seen.ttft_ms.p50 if seen.ttft_ms is not None else None,
        "ttft_p95_ms": seen.ttft_ms.p95 if seen.ttft_ms is not None else None,
        "itl_mean_ms": seen.itl_ms.mean if seen.itl_ms is not None else None,
        "tpot_p50_ms": seen.tpot_ms.p50 if seen.tpot_ms is not None else None,
        "e2e_p50_s": seen.e2e_s.p50 if seen.e2e_s is not None else None,
        "e2e_p99_s": seen.e2e_s.p99 if seen.e2e_s is not None else None,
        "accept_length": seen.accept_length,
        "looping_share": seen.looping_share,
        "eager_share": seen.server.eager_share if seen.server is not None else None,
        "server_queued": seen.server.queued if seen.server is not None else None,
        "server_running": seen.server.running if seen.server is not None else None,
        "good_share": seen.good_share.value if seen.good_share is not None else None,
        "goodput": seen.goodput.value if seen.goodput is not None else None,
        **_gpu_figures(seen),
    }


def _gpu_figures(seen: Measurement) -> dict[str, float | None]:
    """Power of all GPUs together, which is unknown if one of them does not tell; the clock of the slowest."""
    powers = [device.power_w for device in seen.devices]
    known = [power for power in powers if power is not None]
    clocks = [device.sm_clock_mhz for device in seen.devices if device.sm_clock_mhz is not None]
    return {
        "gpu_power_w": sum(known) if known and len(known) == len(powers) else None,
        "gpu_sm_clock_mhz": min(clocks, default=None),
    }


def _speedup(result: TrialResult, study: StudyResult) -> float | None:
    """A confirmation's run is held against the last one of the baseline before it: both had held-out prompts."""
    against = study.baseline
    if result.replicate is not None:
        runs = [t for t in study.trials if t.replicate and t.replicate.confirms is None and t.number <= result.number]
        against = next((t for t in reversed(runs) if t.score is not None), None)
    baseline = against.score if against is not None else None
    if result.score is None or baseline is None or baseline.estimate.value <= 0:
        return None
    return result.score.estimate.value / baseline.estimate.value


def _tags(result: TrialResult, folder: RunFolder) -> dict[str, str]:
    provenance, failure = result.provenance, result.failure
    simulated = folder.simulated or (provenance is not None and provenance.simulated)
    tags = {
        "study": folder.study,
        "trial": str(result.number),
        "started_at": result.started_at,
        "state": result.state.value,
        "origin": result.origin.value,
        "digest": result.configuration.digest,
        "attempts": str(result.attempts),
        "simulated": _word(simulated),
        NOTE_TAG: trial_note(result, simulated=simulated),
    }
    if result.replicate is not None:
        confirms = result.replicate.confirms
        tags["confirms"] = "baseline" if confirms is None else str(confirms)
        tags["confirmation_round"] = f"{result.replicate.round} of {result.replicate.rounds}"
    if result.slo:
        tags["slo"] = "; ".join(map(str, result.broken)) or "kept"
    if result.duplicate_of is not None:
        tags["duplicate_of"] = str(result.duplicate_of)
    if result.pretences:
        tags["acceptance_simulated"] = ", ".join(result.pretences)
    tags |= _facts("nccl", {key: text for key, text in result.proof.items() if not re.search(r"\.\d+", key)})
    for effect, guards in _found(result).items():
        tags[f"findings.{effect}"] = ", ".join(guards)
    if failure is not None:
        tags |= {"failure_reason": failure.reason.word, "failure_evidence": failure.evidence or failure.message}
    if provenance is not None:
        tags |= {
            "engine": provenance.engine,
            "engine_version": provenance.engine_version,
            "clock_rate": f"{provenance.clock_rate:g}",
            **_facts("node", provenance.node),
            **_facts("tuner", provenance.tuner),
        }
    return tags


def _found(result: TrialResult) -> dict[str, list[str]]:
    """By effect, each guard with the levels of its findings: `eager_steps@64`."""
    found: dict[str, list[str]] = {}
    for one in result.every_finding:
        shown = one.guard if one.level is None else f"{one.guard}@{one.level}"
        found.setdefault(one.effect.value, []).append(shown)
    return found


def _texts(result: TrialResult, folder: RunFolder) -> dict[str, str]:
    texts = {}
    command = encode_trial(result)["command"]
    if command is not None:
        texts["launch_command.json"] = json.dumps(command, indent=2)
    where = folder.path / "trials" / f"{result.number:04d}"
    for name in ("server.log", "server_info.json"):
        for attempt in range(1, result.attempts + 1):
            text = _read(where / attempt_file(name, attempt))
            if text is not None:
                texts[attempt_file(name, attempt)] = mask_text(cut_log(text) if name == "server.log" else text)
    return texts


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else None


def _facts(prefix: str, facts: Mapping[str, str]) -> dict[str, str]:
    """Keys that MLflow takes: `node.gpu`, `tuner.commit`."""
    return {f"{prefix}.{re.sub(r'[^A-Za-z0-9_. /-]', '_', key)}": str(value) for key, value in facts.items()}


def _level_line(seen: Measurement) -> str:
    latency = "–" if seen.e2e_s is None else _seconds(seen.e2e_s)
    rate = "–" if seen.per_request_rate is None else f"{seen.per_request_rate:.1f} tok/s"
    return (
        f"{_label(seen)} | {seen.requests_total} requests | throughput: {_shown(seen.output_throughput)} tok/s"
        f" | per-req: {rate} | latency avg/p50/p99: {latency} | ok: {seen.requests_ok}/{seen.requests_total}"
    )


def _label(seen: Measurement) -> str:
    """At a rate also the mean number in flight, rounded."""
    level = label(seen.concurrency, width=3)
    return level if seen.rate is None else f"{label(seen.level)} | {level}"


def _seconds(latency: Percentiles) -> str:
    return f"{latency.mean:.2f}/{latency.p50:.2f}/{latency.p99:.2f} s"


def _shown(estimate: Estimate | None) -> str:
    if estimate is None:
        return "–"
    margin = "" if estimate.half_width is None else f" ± {estimate.half_width:.3g}"
    return f"{estimate.value:.4g}{margin}"


def _word(truth: bool) -> str:
    return "true" if truth else "false"
