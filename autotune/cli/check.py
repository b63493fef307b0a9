"""`autotune check`: the space as it is read, and what a study of it would cost. Starts no server."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from autotune.cli.options import EngineName, Overrides, Space, read_space
from autotune.errors import ServingEnvironmentError


def check(
    space: Space,
    engine: EngineName = None,
    overrides: Overrides = None,
    engine_version: Annotated[
        str | None, typer.Option("--engine-version", help="Check for this version, without asking the interpreter.")
    ] = None,
    rate: Annotated[
        float, typer.Option("--assume", min=0.1, help="Tokens per second of one request, for the time estimate.")
    ] = 40.0,
) -> None:
    """Print the space read back: parameters, conditions, sizes, levels, requests and estimated node time."""
    from autotune import engines, preflight, reporting

    spec = read_space(space, overrides, engine)
    chosen = engines.get(spec.engine.name)
    version, remark = None, ""
    try:
        if engine_version is not None:
            version = preflight.assumed_version(engine_version)
        else:
            version = preflight.installed_version(spec, chosen, tuner_python=sys.executable)
    except ServingEnvironmentError as error:
        remark = f"{error.message}; the engine's own rules were not applied"
    counts = preflight.count(spec, chosen, version)
    typer.echo(reporting.space_summary(spec, counts, version=version, tokens_per_second=rate))
    if remark:
        typer.echo(f"\nnot checked: {remark}", err=True)
    if version is not None:
        preflight.refuse_impossible(spec, chosen, version)
