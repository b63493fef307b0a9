"""`autotune sync`, `ui`: MLflow, filled and shown."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from autotune.cli.options import DEFAULT_MLRUNS, DEFAULT_RUNS, MlRuns, Runs, Study, find_run
from autotune.errors import InputError, StudyStopped


def sync(study: Study = None, runs: Runs = DEFAULT_RUNS, mlruns: MlRuns = DEFAULT_MLRUNS) -> None:
    """Write to MLflow whatever a study's run folder has and MLflow has not."""
    from autotune import pipeline, recording, reporting

    folder, spec = find_run(runs, study)
    uri, artifacts = recording.default_tracking(mlruns)
    note = reporting.experiment_note(pipeline.conclude(spec, folder))
    done = recording.sync(folder, spec, uri=uri, artifact_root=artifacts, note=note, warn=_warn)
    if done.problem:
        raise StudyStopped(
            f"{folder.path.name}: {done.written} trials written, then MLflow could not be: {done.problem}"
        )
    typer.echo(f"{folder.path.name}: {done.written} trials written, {done.present} already there, {done.uri}")


def ui(
    study: Study = None,
    host: Annotated[str, typer.Option("--host", help="Loopback unless you say otherwise.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=1, max=65535)] = 5000,
    runs: Runs = DEFAULT_RUNS,
    mlruns: MlRuns = DEFAULT_MLRUNS,
) -> None:
    """Serve MLflow's pages, and print the address of the study's trials. Ctrl-C ends it."""
    from autotune import recording

    if not recording.ui_available():
        raise InputError(
            "MLflow's pages are not installed: the tuner itself needs only mlflow-skinny",
            hint="pip install 'sglang-autotune[ui]'   (850 MB)",
        )
    uri, artifacts = recording.default_tracking(mlruns)
    experiment = None
    if study is not None or recording.RunFolder.all(runs):
        experiment = recording.experiment_id(uri, find_run(runs, study)[0].path.name)
    argv, env = recording.ui_command(sys.executable, uri, artifacts, host=host, port=port)
    typer.echo(f"MLflow starts in about 10 s: {recording.ui_url(host, port, experiment)}", err=True)
    sys.stderr.flush()
    os.execve(argv[0], argv, {**os.environ, **env})


def _warn(message: str) -> None:
    typer.echo(f"warning: {message}", err=True)
