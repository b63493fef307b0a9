"""A call and a node to a space file that `autotune check` accepts."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from autotune.domain.trial import EngineVersion, Hardware
from autotune.drafting import facts, writing
from autotune.drafting.arguments import Arguments, place
from autotune.drafting.choosing import Choice, choose
from autotune.drafting.invocation import Invocation
from autotune.engines import get
from autotune.engines.dialect.flag_table import known_releases, release_of, table_for
from autotune.errors import InputError
from autotune.spacefile import load_text

_UNFIT_FOR_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Request:
    """`version` None: not known, and the newest one that takes the command is assumed. `python`: the interpreter's
    path where it was found. `study` empty: named after the model."""

    call: Invocation
    version: str | None = None
    version_source: str = ""
    hardware: Hardware | None = None
    python: str | None = None
    study: str = ""


@dataclass(frozen=True)
class Draft:
    """`text` loads as a space file. `notes` is for stderr: what was left out or assumed, and what will be refused."""

    text: str
    notes: tuple[str, ...]


def make(request: Request) -> Draft:
    """Raises InputError where the command does not fit the version, or has no model."""
    call = request.call
    text, arguments, assumed = _placed(request)
    release = release_of(text)
    choice = choose(call, arguments, table_for(release), release, request.hardware)
    _require(choice, call, arguments)
    said = f"assumed: {assumed}" if assumed else request.version_source
    head = [
        f"Written by `autotune init` from a command for SGLang {text} ({said}).",
        f"Node: {facts.shown(request.hardware)}.",
    ]
    if call.around:
        head.append(f"Around the server, and not part of a launch: {' '.join(call.around)}")
    python, remark = _python(request)
    written = writing.write(
        choice, study=request.study or _study(choice.model), python=python, python_remark=remark, head=head
    )
    notes = [f"SGLang {text} was assumed: {assumed}"] if assumed else []
    notes += writing.notes(choice.left)
    ranks, gpus = facts.number(choice.facts["tp"]) or 1, request.hardware.gpu_count if request.hardware else 0
    if 0 < gpus < ranks:
        notes.append(f"the command wants {ranks} GPUs (tensor parallelism), and the node has {gpus}")
    return Draft(written, (*notes, *_refusals(written, text, request)))


def _placed(request: Request) -> tuple[str, Arguments, str]:
    """The version, the arguments on it, and why it was assumed (empty where it was not)."""
    call, words = request.call, request.call.words
    if request.version is not None:
        release = release_of(request.version)
        oldest = table_for(known_releases()[0])
        if not release or release < known_releases()[0]:
            raise InputError(f"sglang must be {oldest.version} or newer, but the command is for {request.version}")
        table = table_for(release)
        return request.version, place(words, table, positional_model=call.positional_model), ""
    first: InputError | None = None
    for release in reversed(known_releases()):
        table = table_for(release)
        try:
            arguments = place(words, table, positional_model=call.positional_model)
        except InputError as error:
            first = first or error
            continue
        newest = release == known_releases()[-1]
        why = "the newest that is known" if newest else "the newest that takes these flags"
        return table.version, arguments, f"{why}; --engine-version says otherwise"
    assert first is not None
    raise first


def _require(choice: Choice, call: Invocation, arguments: Arguments) -> None:
    if not choice.model:
        unknown = next((one for one in choice.left if one.what.startswith("--model")), None)
        why = f": {unknown.what}: {unknown.why}" if unknown else ""
        raise InputError(
            f"the command must name its model with --model-path, but it does not{why}",
            hint="add --model-path, or set the variable in the text",
        )
    nodes = facts.number(arguments.value("--nnodes")) or 1
    if nodes > 1:
        raise InputError(f"one node is tuned at a time, but the command ({call.place}) is for {nodes} (--nnodes)")


def _python(request: Request) -> tuple[str, str]:
    if request.python:
        return request.python, ""
    if request.call.image:
        return request.call.python, "the container's interpreter: run autotune inside the container"
    if request.call.python.startswith("/"):
        return request.call.python, "not found on this machine"
    return request.call.python, "write the path of the serving environment's interpreter"


def _study(model: str) -> str:
    name = _UNFIT_FOR_NAMES.sub("-", PurePosixPath(model).name).strip("-._").lower()
    return name[:60] or "study"


def _refusals(written: str, version: str, request: Request) -> list[str]:
    """What the engine has against the command itself: it will not be launched, and `check` will say the same."""
    spec = load_text(written, "the draft")
    asked = replace(
        EngineVersion(version, release_of(version)), hardware=request.hardware, largest_level=max(spec.workload.closed)
    )
    found = get("sglang").problems(spec.engine, asked, spec.baseline)
    return [f"the command itself will be refused: {one}" for one in found if not getattr(one, "bearable", False)]
