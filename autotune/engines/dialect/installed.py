"""Which SGLang an interpreter has: the program that prints it, and the reading of what it prints."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from autotune.domain.trial import EngineVersion
from autotune.engines.dialect.flag_table import known_releases, release_of, table_for
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
