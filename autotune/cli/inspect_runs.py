"""`autotune report`, `export`, `studies`: what is recorded, rendered."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autotune.cli.options import DEFAULT_RUNS, Runs, Study, find_run
from autotune.errors import InputError


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
    host: Annotated[str, typer.Option("--host", help="The address that the exported server is to bind.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=1, max=65535)] = 30000,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A file; stdout where left out.")] = None,
    runs: Runs = DEFAULT_RUNS,
) -> None:
    """Print the launch command of the best trial, or of --trial, exactly as it ran."""
    from autotune import exporters, pipeline

    folder, spec = find_run(runs, study)
    result = pipeline.conclude(spec, folder)
    chosen = result.best if trial is None else next((t for t in result.trials if t.number == trial), None)
    if chosen is None:
        numbers = ", ".join(str(t.number) for t in result.complete) or "none"
        what = "no trial of it is complete" if trial is None else f"it has no trial {trial}"
        raise InputError(f"nothing to export from {folder.path.name}: {what}", hint=f"complete trials: {numbers}")
    text = exporters.render(form, result, chosen, host=host, port=port)
    if output is None:
        typer.echo(text, nl=not text.endswith("\n"))
        return
    try:
        output.write_text(text)
        if form == "shell":
            output.chmod(0o755)
    except OSError as error:
        raise InputError(f"--output must be writable, but {output}: {error.strerror}") from error


def studies(runs: Runs = DEFAULT_RUNS) -> None:
    """List the recorded studies, newest last: trials, state, best against baseline."""
    from autotune import pipeline, reporting
    from autotune.errors import AutotuneError
    from autotune.recording import RunFolder

    for found in RunFolder.all(runs):
        try:
            folder, spec = find_run(runs, found.path.name)
            typer.echo(f"{folder.path.name}  {reporting.verdict(pipeline.conclude(spec, folder))}")
        except AutotuneError as error:
            typer.echo(f"{found.path.name}  unreadable: {error.message.splitlines()[0]}")
