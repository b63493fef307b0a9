"""`autotune bench`: the measuring alone, against a server that already runs."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.errors import InputError

if TYPE_CHECKING:
    from autotune.client_test import ClientLevel, ClientTest
    from autotune.domain.measurement import Measurement

Url = Annotated[str | None, typer.Option("--url", metavar="URL", help="The server: http://host:port.")]
Concurrency = Annotated[str, typer.Option("--concurrency", help="Levels: requests kept in flight, with commas.")]
Rate = Annotated[
    str | None, typer.Option("--rate", help="Instead of levels: requests a second (Poisson arrivals), with commas.")
]
Requests = Annotated[int | None, typer.Option("--requests", min=1, help="Per level; 5 for each slot if left out.")]
MaxTokens = Annotated[int, typer.Option("--max-tokens", min=1, help="Tokens of each answer.")]
Prompts = Annotated[str, typer.Option("--prompts", help="`coding`, or a .jsonl file of your own.")]
Endpoint = Annotated[str, typer.Option("--endpoint", help="generate, chat or completions.")]
Model = Annotated[str | None, typer.Option("--model", help="The served name; the server's own if left out.")]
KeyVariable = Annotated[
    str | None, typer.Option("--api-key-env", metavar="NAME", help="The environment variable that holds the API key.")
]
Seed = Annotated[int | None, typer.Option("--seed", help="Of the order of prompts; fresh ones each time if left out.")]
Precision = Annotated[
    str | None, typer.Option("--precision", help="Measure a level until its interval is so narrow: 2%, or 0.02.")
]
LevelSeconds = Annotated[
    float | None, typer.Option("--level-seconds", min=0.001, help="Bound on a level's window, on the node's clock.")
]
SelfTest = Annotated[bool, typer.Option("--self-test", help="Test the client itself at these levels, first or alone.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, and nothing else there.")]


def bench(
    url: Url = None,
    concurrency: Concurrency = "1,8,64",
    rate: Rate = None,
    requests: Requests = None,
    max_tokens: MaxTokens = 512,
    prompts: Prompts = "coding",
    endpoint: Endpoint = "generate",
    model: Model = None,
    api_key_env: KeyVariable = None,
    seed: Seed = None,
    precision: Precision = None,
    level_seconds: LevelSeconds = None,
    self_test: SelfTest = False,
    as_json: Json = False,
) -> None:
    """Measure a server that already runs, as a study would: one line for each level, or one JSON object."""
    from autotune.bench import BenchPlan
    from autotune.bench import bench as measure_server
    from autotune.reporting import level_line

    if url is None and not self_test:
        raise InputError("either --url URL or --self-test must be given", hint="autotune bench --url http://host:port")
    levels = tuple(int(level) for level in _numbers(concurrency, "--concurrency", whole=True))
    key = _key(api_key_env)
    client = _test_client(levels, endpoint, quiet=as_json) if self_test else None
    if url is None:
        if as_json and client is not None:
            typer.echo(json.dumps({"self_test": _test_summary(client)}, allow_nan=False))
        return
    plan = BenchPlan(
        url=url,
        concurrency=levels,
        rates=() if rate is None else _numbers(rate, "--rate", whole=False),
        requests=requests,
        max_tokens=max_tokens,
        prompts=prompts,
        endpoint=endpoint,
        model=model,
        api_key=key,
        seed=seed,
        precision=None if precision is None else _share(precision),
        level_seconds=level_seconds,
    )

    def show(measurement: Measurement) -> None:
        typer.echo(level_line(measurement), err=as_json)
        for remark in (*measurement.remarks, *(f"{found.effect}: {found.text}" for found in measurement.findings)):
            typer.echo(f"  {remark}", err=True)

    result = measure_server(plan, on_level=show, client=client)
    if as_json:
        tested = {} if client is None else {"self_test": _test_summary(client)}
        typer.echo(json.dumps({**result.summary(), **tested}, allow_nan=False))
    elif result.simulated:
        typer.echo("SIMULATED: this server is a simulated node; its figures say nothing of a real one")


def _numbers(text: str, option: str, *, whole: bool) -> tuple[float, ...]:
    """Numbers with commas between them, each once, in their order."""
    try:
        numbers = [int(part) if whole else float(part) for part in text.split(",")]
    except ValueError:
        example = "1,8,64" if whole else "2,4.5"
        raise InputError(f"{option} takes numbers with commas, but got {text!r}", hint=f"{option} {example}") from None
    if min(numbers) <= 0:
        raise InputError(f"{option} takes numbers above 0, but got {text!r}")
    return tuple(dict.fromkeys(numbers))


def _share(text: str) -> float:
    number, percent = text.strip().removesuffix("%"), text.strip().endswith("%")
    try:
        share = float(number) / (100.0 if percent else 1.0)
    except ValueError:
        share = 0.0
    if not 0.001 <= share <= 0.5:
        raise InputError(f"--precision takes 0.1% to 50%, but got {text!r}", hint="--precision 2%")
    return share


def _key(variable: str | None) -> str | None:
    """Read from the environment alone: a key on a command line is seen by every user of the machine."""
    if variable is None:
        return None
    key = os.environ.get(variable, "")
    if not key:
        raise InputError(f"--api-key-env names a variable that is not set: {variable}")
    if not key.isascii() or not key.isprintable():
        raise InputError(f"the key in {variable} holds characters that no header can carry")
    return key


def _test_client(levels: tuple[int, ...], endpoint: str, *, quiet: bool) -> ClientTest:
    from autotune import engines
    from autotune.bench import DIALECT, test_line
    from autotune.client_test import run_client_test

    def show(level: ClientLevel) -> None:
        shown = test_line(level.true_rate, level.delivered, level.concurrency, level.lag_p99_s, level.cpu_share)
        typer.echo(shown, err=quiet)

    wire = engines.get(DIALECT).wire_for(endpoint, "reference")
    typer.echo("the client against a reference server:", err=True)
    test = run_client_test(levels, wire, tuner_python=sys.executable, on_level=show)
    largest = test.largest_rate
    found = "no rate" if largest is None else f"up to {largest:,.0f} tok/s"
    typer.echo(f"delivered within 0.5 %: {found}", err=quiet)
    return test


def _test_summary(client: ClientTest) -> dict[str, object]:
    from dataclasses import asdict

    return {"largest_rate": client.largest_rate, "levels": [asdict(level) for level in client.levels]}
