"""`autotune run`: the study itself."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli.options import (
    DEFAULT_MLRUNS,
    DEFAULT_RUNS,
    EngineName,
    MlRuns,
    Overrides,
    Runs,
    find_earlier,
    find_run,
    read_space,
)
from autotune.errors import InputError, Interrupted, StudyStopped

if TYPE_CHECKING:
    from autotune.pipeline import Outcome

Space = Annotated[Path | None, typer.Option("--space", help="The space file (see docs/space_file.md).")]
Trials = Annotated[int | None, typer.Option("--trials", min=1, help="Overrides budget.trials (of the search).")]
Hours = Annotated[float | None, typer.Option("--hours", min=0.0, help="Overrides budget.hours (node hours).")]
Resume = Annotated[
    str | None,
    typer.Option("--resume", metavar="STUDY", help="Go on with this run folder (or `latest`), as it was resolved."),
]
WarmStart = Annotated[
    list[str] | None,
    typer.Option("--warm-start", metavar="RUN", help="Learn from this earlier study first; may be repeated."),
]
NoMlflow = Annotated[bool, typer.Option("--no-mlflow", help="Only the run folder; `autotune sync` catches up.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, last, and nothing else there.")]


def run(
    space: Space = None,
    engine: EngineName = None,
    overrides: Overrides = None,
    trials: Trials = None,
    hours: Hours = None,
    resume: Resume = None,
    warm_start: WarmStart = None,
    no_mlflow: NoMlflow = False,
    as_json: Json = False,
    runs: Runs = DEFAULT_RUNS,
    mlruns: MlRuns = DEFAULT_MLRUNS,
) -> None:
    """Search the space: launch, prove, measure, record, compare; print the verdict and what won."""
    from dataclasses import replace

    from autotune import pipeline
    from autotune.cli import interruption
    from autotune.cli.live import display

    if (space is None) == (resume is None):
        raise InputError("either --space FILE or --resume STUDY must be given", hint="autotune run --space FILE")
    folder = None
    if resume is not None:
        if engine or overrides:
            raise InputError("a resumed study keeps its space: --set and --engine cannot change it")
        if warm_start:
            raise InputError(
                "a resumed study goes on with what it knew at its start: --warm-start cannot add to it",
                hint="autotune run --space FILE --warm-start RUN begins a new one",
            )
        folder, spec = find_run(runs, None if resume == "latest" else resume)
    else:
        assert space is not None
        spec = read_space(space, [*(overrides or ()), *_budget_overrides(trials, hours)], engine)
    earlier = tuple(find_earlier(runs, name) for name in warm_start or ())
    if resume is not None:
        budget = replace(spec.budget, trials=trials or spec.budget.trials, hours=hours or spec.budget.hours)
        spec = replace(spec, budget=budget)
    with display(spec, sys.stderr, () if folder is None else folder.trials()) as shown:
        options = pipeline.Options(
            runs=runs,
            mlruns=None if no_mlflow else mlruns,
            folder=folder,
            warm_start=earlier,
            on_event=shown.event,
            on_phase=shown.phase,
            stop_requested=interruption.requested,
        )
        outcome = pipeline.tune(spec, options)
    _print(outcome, as_json=as_json)
    if outcome.interrupted:
        raise Interrupted(
            f"interrupted; what was measured is in {outcome.folder.path}",
            hint=f"go on with: autotune run --resume {outcome.folder.path.name}"
            + (f" --runs {runs}" if runs != DEFAULT_RUNS else ""),
        )
    if outcome.error is not None:
        raise StudyStopped(outcome.error.message, hint=outcome.error.hint)


def _budget_overrides(trials: int | None, hours: float | None) -> list[str]:
    """As changes to the file, so that study.yaml has them: a study that is gone on with ends where it was to end."""
    given = (("budget.trials", trials), ("budget.hours", hours))
    return [f"{path}={value}" for path, value in given if value]


def _print(outcome: Outcome, *, as_json: bool) -> None:
    from autotune import reporting

    if as_json:
        typer.echo(json.dumps(outcome.summary(), allow_nan=False))
        return
    typer.echo(reporting.terminal_report(outcome.result))
    typer.echo(f"\nreport     {outcome.folder.path / 'report.md'}")
    typer.echo(f"run folder {outcome.folder.path}")
    if outcome.result.best is not None:
        typer.echo(f"command    autotune export {outcome.folder.path.name} --format shell")
    if outcome.tracking_uri:
        typer.echo("MLflow     autotune ui   (needs the extra: pip install 'sglang-autotune[ui]')")
