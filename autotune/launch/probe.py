"""Short programs that are asked one thing: a serving interpreter for its version, say."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

from autotune.errors import ServingEnvironmentError
from autotune.launch.environment import allowed
from autotune.launch.one_shot import run_to_end

_EDIT_HINT = "check engine.python in the space file, or --set engine.python=PATH"


def probe(argv: Sequence[str], *, timeout_s: float = 60.0) -> str:
    """Its stdout. It gets the same allow-list of the environment as a server, and no stdin.

    Raises ServingEnvironmentError if it cannot be started, fails, or is not done after `timeout_s`.
    """
    program = argv[0]
    try:
        said = run_to_end(argv, allowed(os.environ), timeout_s=timeout_s)
    except OSError as error:
        raise ServingEnvironmentError(f"cannot start {program}: {error.strerror}", hint=_EDIT_HINT) from error
    except subprocess.TimeoutExpired as error:
        raise ServingEnvironmentError(
            f"{program} gave no answer within {timeout_s:g} s", hint=f"try it yourself: {program} --version"
        ) from error
    if said.status != 0:
        lines = said.stderr.strip().splitlines()
        last = lines[-1].strip() if lines else "nothing on stderr"
        raise ServingEnvironmentError(f"{program} failed with status {said.status}: {last}", hint=_EDIT_HINT)
    return said.stdout
