"""`autotune report`, `export`, `studies`: what is recorded, rendered."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli.options import DEFAULT_RUNS, Runs, Study, find_run
from autotune.domain.level import Level, Rate, named
from autotune.errors import InputError

if TYPE_CHECKING:
    from autotune.domain.study import StudyResult
    from autotune.domain.trial import TrialResult


def report(
    study: Study = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Markdown instead of plain text.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The object that `run --json` prints.")] = False,
    runs: Runs = DEFAULT_RUNS,
) -> None:
    """Print the report of a recorded study, finished or not."""
    import json

    from autotune import pipeline, reporting

    folder, spec = find_run(runs, study)
    result = pipeline.conclude(spec, folder)
    if as_json:
        typer.echo(json.dumps(reporting.summary(result, run_dir=str(folder.path)), allow_nan=False))
    else:
        typer.echo(reporting.markdown_report(result) if markdown else reporting.terminal_report(result))


def export(
    study: Study = None,
    form: Annotated[str, typer.Option("--format", help="shell, env or json.")] = "shell",
    trial: Annotated[int | None, typer.Option("--trial", min=0, help="The best where left out.")] = None,
    level: Annotated[
        int | None, typer.Option("--level", min=1, help="The best at this concurrency level, not by the objective.")
    ] = None,
    rate: Annotated[
        float | None, typer.Option("--rate", min=0.001, help="The best at this rate, in requests a second.")
    ] = None,
    host: Annotated[str, typer.Option("--host", help="The address that the exported server is to bind.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=1, max=65535)] = 30000,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A file; stdout where left out.")] = None,
    runs: Runs = DEFAULT_RUNS,
) -> None:
    """Print the launch command of the best trial, or of --trial, or of the best at --level or --rate, as it ran."""
    from autotune import exporters, pipeline

    if sum(given is not None for given in (trial, level, rate)) > 1:
        raise InputError("--trial, --level and --rate each name a trial", hint="give one of them")
    at = level if rate is None else Rate(rate)
    folder, spec = find_run(runs, study)
    result = pipeline.conclude(spec, folder, explained=False)
    if at is not None:
        chosen, why = _best_at(result, at)
    else:
        chosen, why = (result.best if trial is None else _numbered(result, trial)), ""
    if chosen is None:
        raise _nothing_to_export(result, folder.path.name, trial, at)
    text = exporters.render(form, result, chosen, host=host, port=port, note=why)
    if output is None:
        typer.echo(text, nl=not text.endswith("\n"))
        return
    try:
        output.write_text(text)
        if form == "shell":
            output.chmod(0o755)
    except OSError as error:
        raise InputError(f"--output must be writable, but {output}: {error.strerror}") from error


def _numbered(result: StudyResult, trial: int) -> TrialResult | None:
    return next((t for t in result.trials if t.number == trial), None)


def _best_at(result: StudyResult, level: Level) -> tuple[TrialResult | None, str]:
    """And what to say of it: in the export, and on stderr where it is not clearly the best."""
    from autotune import reporting

    best = reporting.best_at(result, level)
    if best is None:
        return None, ""
    figure = "goodput" if isinstance(level, Rate) else "throughput"
    trial, clearness = best.point.trial, reporting.clearness(best)
    if not best.clear:
        typer.echo(f"{named(level)}: trial {trial.number} has the highest {figure}; {clearness}", err=True)
    return trial, f"highest {figure} at {named(level)} ({clearness}), not the best by the objective of all levels"


def _nothing_to_export(result: StudyResult, study: str, trial: int | None, level: Level | None) -> InputError:
    numbers = ", ".join(str(t.number) for t in result.complete) or "none"
    hint = f"complete trials: {numbers}"
    least = result.least_violating
    if trial is not None:
        what = f"it has no trial {trial}"
    elif level is not None and level not in result.spec.workload.levels:
        what = f"it has no {named(level)}"
        hint = f"its levels: {', '.join(map(str, result.spec.workload.levels))}"
    elif least is not None and least.broken:
        what = "no trial keeps to the SLO" + ("" if level is None else f" at {named(level)}")
        hint = f"the one that comes closest: --trial {least.number}"
    else:
        what = "no trial of it is complete"
    return InputError(f"nothing to export from {study}: {what}", hint=hint)


def studies(runs: Runs = DEFAULT_RUNS) -> None:
    """List the recorded studies, newest last: trials, state, best against baseline."""
    from autotune import pipeline, reporting
    from autotune.errors import AutotuneError
    from autotune.recording import RunFolder

    for found in RunFolder.all(runs):
        try:
            folder, spec = find_run(runs, found.path.name)
            typer.echo(f"{folder.path.name}  {reporting.verdict(pipeline.conclude(spec, folder, explained=False))}")
        except AutotuneError as error:
            typer.echo(f"{found.path.name}  unreadable: {error.message.splitlines()[0]}")
