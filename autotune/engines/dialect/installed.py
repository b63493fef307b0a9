"""Which SGLang an interpreter has: the program that prints it, and the reading of what it prints."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from autotune.domain.trial import EngineVersion
from autotune.engines.dialect.flag_table import FlagTable, known_releases, read_table, release_of, table_for
from autotune.errors import ServingEnvironmentError

# Package metadata only: importing sglang takes half a minute, and fails where a GPU library is missing.
# Entries of sys.path that are empty stand for the working directory, which belongs to the tuner.
VERSION_PROGRAM = """\
import json, platform, sys
sys.path = [entry for entry in sys.path if entry]
from importlib import metadata
names = {"sglang": "sglang", "torch": "torch", "sgl-kernel": "kernels", "sglang-kernel": "kernels",
         "flashinfer-python": "flashinfer", "transformers": "transformers"}
prefixes = {"nvidia-nccl": "nccl", "nvidia-cuda-runtime": "cuda"}
found = {"sglang": None, "python": platform.python_version()}
for distribution in metadata.distributions():
    name = (distribution.metadata["Name"] or "").lower().replace("_", "-")
    key = names.get(name) or next((k for prefix, k in prefixes.items() if name.startswith(prefix)), None)
    if key and not found.get(key):
        found[key] = distribution.version
print(json.dumps(found))
"""

# Builds the parser that the server itself uses, and prints it in the shape of a flag table. Imports sglang, hence slow.
FLAGS_PROGRAM = """\
import argparse, json, sys
sys.path = [entry for entry in sys.path if entry]
from importlib import metadata
from sglang.srt.server_args import ServerArgs
parser = argparse.ArgumentParser()
ServerArgs.add_cli_args(parser)
flags = {}
for action in parser._actions:
    words = [word for word in action.option_strings if word.startswith("--") and not word.startswith("--no-")]
    words += [word for word in action.option_strings if word.startswith("--no-") and not words]
    if not words or words[0] == "--help":
        continue
    kind = {int: "int", float: "float"}.get(action.type, "text")
    if isinstance(action, argparse.BooleanOptionalAction):
        kind = "toggle"
    elif action.nargs == 0:
        kind = "switch"
    elif action.nargs in ("+", "*") or isinstance(action.nargs, int):
        kind += "s"
    flags[words[0]] = {"kind": kind, "aliases": words[1:]}
    if action.choices and kind not in ("switch", "toggle"):
        flags[words[0]]["choices"] = [str(choice) for choice in action.choices]
print(json.dumps({"sglang": metadata.version("sglang"), "version": metadata.version("sglang"), "flags": flags}))
"""


def parse_flags(stdout: str) -> FlagTable:
    """`stdout` of FLAGS_PROGRAM: the installed parser as a table. Raises ServingEnvironmentError for anything else."""
    found = _last_object(stdout)
    try:
        table = read_table(found or {})
    except (KeyError, TypeError, AttributeError) as error:
        raise ServingEnvironmentError(
            f"the serving interpreter must print its parser's flags, but it printed {stdout.strip()[:200]!r}",
            hint="the table of this version stands in for it",
        ) from error
    return table


def parse_version(stdout: str) -> EngineVersion:
    """`stdout` of VERSION_PROGRAM; lines before its own (an interpreter's wrapper may print) are passed over.

    details: whatever of python, torch, nccl, cuda, kernels, flashinfer, transformers is installed, and
    `flag_table` where this very version's flags are not known and an older version's stand in for them.
    """
    found = _last_object(stdout)
    if found is None:
        raise ServingEnvironmentError(
            f"the serving interpreter must print its packages' versions, but it printed {stdout.strip()[:200]!r}",
            hint="run engine.python by hand: it must be a Python of 3.10 or newer",
        )
    text = found.get("sglang")
    if not isinstance(text, str) or not text:
        raise ServingEnvironmentError(
            f"no sglang in this interpreter (Python {found.get('python', 'unknown')})",
            hint="set engine.python to the interpreter of the environment in which sglang is installed: "
            "--set engine.python=/path/to/venv/bin/python",
        )
    release, oldest = release_of(text), known_releases()[0]
    if not release or release < oldest:
        raise ServingEnvironmentError(
            f"sglang must be {_dotted(oldest)} or newer, but this interpreter has {text}",
            hint="older versions have other flags and endpoints; set engine.python to a newer environment",
        )
    details = {key: str(value) for key, value in found.items() if key != "sglang" and value}
    if release not in known_releases():
        details["flag_table"] = table_for(release).version
    return EngineVersion(text=text, release=release, details=details)


def _last_object(stdout: str) -> Mapping[str, Any] | None:
    for line in reversed(stdout.splitlines()):
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict) and "sglang" in found:
            return found
    return None


def _dotted(release: tuple[int, ...]) -> str:
    return ".".join(str(part) for part in release)
