"""What this machine can tell of the command's interpreter: whether it is here, and which SGLang it has."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from autotune.domain.study import EngineSpec
from autotune.drafting.invocation import Invocation
from autotune.engines import get
from autotune.errors import ServingEnvironmentError
from autotune.launch import probe


@dataclass(frozen=True)
class Found:
    """The interpreter's path and its version of SGLang; None where it is not here, or has none."""

    python: str | None = None
    version: str | None = None


def interpreter_of(call: Invocation) -> Found:
    """Asks the interpreter for the versions of its packages; imports nothing of them. A bare `python3` of this machine
    that has no SGLang is not the one that serves."""
    if call.image:
        return Found()
    path = call.python if "/" in call.python else shutil.which(call.python)
    if path is None or not Path(path).is_file():
        return Found()
    engine = get("sglang")
    try:
        told = probe(engine.version_argv(EngineSpec("sglang", path, "model"), sys.executable))
        return Found(path, engine.parse_version(told).text)
    except ServingEnvironmentError:
        return Found(path if path == call.python else None)
