"""The command line: parse, call, print. `autotune VERB --help` describes each verb."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from autotune import __version__
from autotune.cli import bench, check, init, inspect_runs, interruption, run, tracking
from autotune.errors import AutotuneError, Interrupted

app = typer.Typer(
    name="autotune",
    help="Finds the launch configuration that makes an LLM server fastest on its owner's own node, and proves it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("run")(run.run)
app.command("check")(check.check)
app.command("bench")(bench.bench)
app.command("init")(init.init)
app.command("report")(inspect_runs.report)
app.command("export")(inspect_runs.export)
app.command("studies")(inspect_runs.studies)
app.command("sync")(tracking.sync)
app.command("ui")(tracking.ui)


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False) -> None:
    if version:
        typer.echo(f"autotune {__version__}")
        raise typer.Exit()


def main() -> None:
    """Exit status: 0 done, 1 the study failed, 2 the input is wrong, 130 interrupted."""
    interruption.install()
    try:
        app(standalone_mode=True)
    except AutotuneError as error:
        _show(error)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        _show(Interrupted("interrupted"))
        sys.exit(Interrupted.exit_code)
    except BrokenPipeError:  # the reader of our output has left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _show(error: AutotuneError) -> None:
    typer.echo(f"error: {error.message}", err=True)
    if error.hint:
        typer.echo(f"\nhint: {error.hint}", err=True)


if __name__ == "__main__":
    main()
