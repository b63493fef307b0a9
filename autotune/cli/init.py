"""`autotune init`: a space file from a command that works."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from autotune.errors import InputError

_STDIN = "-"


def init(
    command: Annotated[
        str | None,
        typer.Option("--from-command", metavar="CMD", help="The command that starts the server, quoted; `-`: stdin."),
    ] = None,
    file: Annotated[
        str | None,
        typer.Option("--from-file", metavar="FILE", help="A script, a compose file or a manifest; `-`: stdin."),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A new file; stdout where left out.")] = None,
    engine_version: Annotated[
        str | None,
        typer.Option("--engine-version", help="SGLang's version; else the command's interpreter or image tells it."),
    ] = None,
    gpu: Annotated[
        str | None, typer.Option("--gpu", help="ARCH:COUNT:LINK, such as sm120:8:pcie; else this machine's GPUs.")
    ] = None,
    study: Annotated[str, typer.Option("--study", help="The study's name; else the model's.")] = "",
) -> None:
    """Write a commented space file from a command that works: its baseline, and what is worth searching there."""
    from autotune import drafting, preflight
    from autotune.launch import node_hardware

    text, source = _text(command, file)
    call = drafting.read(text, source)
    found = drafting.interpreter_of(call)
    version, told_by = found.version, "as its interpreter says"
    if engine_version is not None:
        version, told_by = preflight.assumed_version(engine_version).text, "--engine-version"
    elif call.image_version is not None:
        version, told_by = call.image_version, "the image's tag"
    hardware = node_hardware() if gpu is None else drafting.parse_hardware(gpu)
    request = drafting.Request(call, version, told_by, hardware, found.python, study)
    draft = drafting.make(request)
    for note in draft.notes:
        typer.echo(f"note: {note}", err=True)
    if output is None:
        typer.echo(draft.text, nl=False)
        return
    try:
        with output.open("x", encoding="utf-8") as stream:
            stream.write(draft.text)
    except FileExistsError as error:
        raise InputError(f"--output must be a new file, but {output} exists") from error
    except OSError as error:
        raise InputError(f"--output must be writable, but {output}: {error.strerror}") from error
    typer.echo(f"wrote {output}; next: autotune check --space {output}", err=True)


def _text(command: str | None, file: str | None) -> tuple[str, str]:
    """The text, and what faults call it."""
    if (command is None) == (file is None):
        raise InputError("give the command in one way", hint="--from-command '…', or --from-file FILE (`-`: stdin)")
    if _STDIN in (command, file):
        return sys.stdin.read(), "stdin"
    if command is not None:
        return command, "the command"
    path = Path(file or "")
    try:
        return path.read_text(encoding="utf-8"), str(path)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--from-file must be readable text, but {path}: {error}") from error
