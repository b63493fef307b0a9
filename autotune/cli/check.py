"""`autotune check`: the space as it is read, and what a study of it would cost. Starts no server."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli.options import EngineName, Overrides, Space, read_space
from autotune.domain.workload import ASSUMED_TOKENS_PER_SECOND
from autotune.errors import InputError, ServingEnvironmentError

if TYPE_CHECKING:
    from autotune.domain.engine import Engine
    from autotune.domain.serving import Serving
    from autotune.domain.study import StudySpec
    from autotune.domain.trial import Hardware


def check(
    space: Space,
    engine: EngineName = None,
    overrides: Overrides = None,
    engine_versions: Annotated[
        list[str] | None,
        typer.Option(
            "--engine-version",
            metavar="VERSION",
            help="Check for this version, without asking the interpreter; may be repeated: what each would launch.",
        ),
    ] = None,
    gpu: Annotated[
        str | None,
        typer.Option("--gpu", metavar="ARCH:COUNT:LINK", help="Check for other GPUs than this node's: sm120:8:pcie."),
    ] = None,
    rate: Annotated[
        float, typer.Option("--assume", min=0.1, help="Tokens per second of one request, for the time estimate.")
    ] = ASSUMED_TOKENS_PER_SECOND,
) -> None:
    """Print the space read back: parameters, conditions, sizes, levels, requests and estimated node time."""
    from autotune import engines, preflight, reporting
    from autotune.launch import node_hardware

    spec = read_space(space, overrides, engine)
    chosen = engines.get(spec.engine.name)
    own = None if chosen.simulated else node_hardware()
    hardware = preflight.assumed_hardware(gpu) if gpu is not None else own
    if engine_versions and len(engine_versions) > 1:
        _compare(spec, chosen, engine_versions, hardware)
        return
    serving, remark = None, ""
    try:
        if engine_versions:
            serving = _assumed(spec, chosen, engine_versions[0], hardware)
        else:
            versions = preflight.installed_versions(spec, chosen, tuner_python=sys.executable)
            serving = preflight.serving_of(spec, chosen, versions, hardware)
    except ServingEnvironmentError as error:
        remark = f"{error.message}; the engine's own rules were not applied"
    counts = preflight.count(spec, serving)
    known = serving.versions if serving is not None else {}
    typer.echo(reporting.space_summary(spec, counts, versions=known, tokens_per_second=rate))
    if remark:
        typer.echo(f"\nnot checked: {remark}", err=True)
    _judge_prompts(spec, rate)
    if serving is not None:
        _judge(spec, serving, ask_parser=not engine_versions)


def _assumed(spec: StudySpec, engine: Engine, version: str, hardware: Hardware | None) -> Serving:
    from autotune import preflight

    assumed = preflight.assumed_version(version)
    return preflight.serving_of(spec, engine, {p or "": assumed for p in spec.engine.interpreters}, hardware)


def _judge_prompts(spec: StudySpec, tokens_per_second: float) -> None:
    """The file of prompts may be on the node that the study will run on, and not here."""
    from autotune import preflight

    try:
        for warning in preflight.prompt_warnings(spec, tokens_per_second):
            typer.echo(f"\nwarning: {warning}", err=True)
    except InputError as error:
        typer.echo(f"\nnot checked: {error.message}", err=True)


def _judge(spec: StudySpec, serving: Serving, *, ask_parser: bool) -> None:
    """Warnings on stderr; then raises InputError with every misfit."""
    from autotune import preflight

    for warning in (*preflight.draft_warnings(spec, serving), *preflight.baseline_remarks(spec, serving)):
        typer.echo(f"\nwarning: {warning}", err=True)
    preflight.refuse_misfits(spec, serving)
    refused, unasked = preflight.disproved_by_parser(spec, serving) if ask_parser else ((), ())
    for reason in unasked:
        typer.echo(f"\nnot asked: {reason}", err=True)
    try:
        preflight.refuse_impossible(spec, serving)
    except InputError as error:
        raise InputError("\n".join((error.message, *refused)), hint=error.hint) from error
    if refused:
        raise InputError("\n".join(refused), hint="correct the name or the value in the space file")


def _compare(spec: StudySpec, engine: Engine, versions: list[str], hardware: Hardware | None) -> None:
    """What each version would launch, and what it refuses, side by side. Misfits are shown, and exit is 0: one file
    for several versions need not fit each of them whole."""
    from autotune import preflight, reporting

    entries = []
    for text in versions:
        serving = _assumed(spec, engine, text, hardware)
        misfits = ""
        try:
            preflight.refuse_impossible(spec, serving)
        except InputError as error:
            misfits = error.message
        entries.append(
            reporting.VersionEntry(
                version=text,
                commands=preflight.named_commands(spec, serving, tuner_python=sys.executable),
                counts=preflight.count(spec, serving, limit=_COMPARED),
                misfits=tuple(misfits.splitlines()),
            )
        )
    typer.echo(reporting.version_comparison(spec, entries, hardware))


_COMPARED = 10_000
"""Grid points that are counted for each of several versions."""
