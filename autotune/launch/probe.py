"""Short programs that are asked one thing: a serving interpreter for its version, say."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence

from autotune.errors import ServingEnvironmentError
from autotune.launch.environment import allowed

_EDIT_HINT = "check engine.python in the space file, or --set engine.python=PATH"


def probe(argv: Sequence[str], *, timeout_s: float = 60.0) -> str:
    """Its stdout. It gets the same allow-list of the environment as a server, and no stdin.

    Raises ServingEnvironmentError if it cannot be started, fails, or is not done after `timeout_s`.
    """
    program = argv[0]
    try:
        child = subprocess.Popen(
            list(argv),
            env=allowed(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise ServingEnvironmentError(f"cannot start {program}: {error.strerror}", hint=_EDIT_HINT) from error
    with child:
        try:
            stdout, stderr = child.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired as error:
            raise ServingEnvironmentError(
                f"{program} gave no answer within {timeout_s:g} s", hint=f"try it yourself: {program} --version"
            ) from error
        finally:
            _end_group(child)
    if child.returncode != 0:
        lines = stderr.decode(errors="replace").strip().splitlines()
        said = lines[-1].strip() if lines else "nothing on stderr"
        raise ServingEnvironmentError(f"{program} failed with status {child.returncode}: {said}", hint=_EDIT_HINT)
    return stdout.decode(errors="replace")


def _end_group(child: subprocess.Popen[bytes]) -> None:
    """Also what it started: a grandchild could hold the pipes open."""
    if child.returncode is None:
        os.killpg(child.pid, signal.SIGKILL)
