"""Has the serving interpreter time its own all-reduces, before a model is loaded: what hangs there costs seconds."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from autotune.launch.one_shot import run_to_end

PROGRAM = Path(__file__).with_name("allreduce_probe.py")
SIZES = tuple(8192 << step for step in range(11))
"""8 KiB to 8 MiB: what decoding sums, batch x draft tokens x hidden x 2 bytes."""

COMMUNICATION_S = 60.0
SETUP_S = 180.0
"""Importing torch from a cold disk and making a CUDA context: slow, and no fault of a setting."""

_MARGIN_S = 30.0
_MESSAGE_LENGTH = 2000


@dataclass(frozen=True)
class AllReduceProbe:
    """`python` and `environment` are those of the server. `gpus`: positions among the visible ones, one a rank.

    `sizes` in bytes. `timeout_s` bounds the communication of both passes together, not torch's import.
    """

    python: str
    environment: Mapping[str, str]
    gpus: tuple[int, ...]
    log_path: Path
    sizes: tuple[int, ...] = SIZES
    timeout_s: float = COMMUNICATION_S
    setup_s: float = SETUP_S
    backend: Literal["nccl", "gloo"] = "nccl"
    repeats: int | None = None


@dataclass(frozen=True)
class MessageTime:
    """Microseconds for one all-reduce of `size` bytes, of the slowest rank."""

    size: int
    median_us: float
    p10_us: float
    p90_us: float


@dataclass(frozen=True)
class AllReduceAnswer:
    """`outcome` as allreduce_probe.py words it; `measured` where every size was summed rightly and timed."""

    outcome: Literal["measured", "communication", "unavailable"]
    message: str = ""
    times: tuple[MessageTime, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)


def time_allreduce(probe: AllReduceProbe) -> AllReduceAnswer:
    """Runs the program; its ranks are in its process group, and nothing of it is left when this returns, or raises.

    Whatever goes wrong is an answer. `probe.log_path` holds what the ranks and NCCL wrote.
    """
    probe.log_path.write_bytes(b"")
    # Both passes may wait for their devices; the program's own two deadlines come first.
    limit_s = probe.timeout_s + 2 * probe.setup_s + _MARGIN_S
    try:
        said = run_to_end(_argv(probe), probe.environment, timeout_s=limit_s)
    except OSError as error:
        return AllReduceAnswer("unavailable", f"cannot start {probe.python}: {error.strerror}")
    except subprocess.TimeoutExpired:
        return AllReduceAnswer("unavailable", f"the probe gave no answer within {limit_s:.0f} s")
    return read_answer(said.stdout, said.stderr)


def read_answer(stdout: str, stderr: str = "") -> AllReduceAnswer:
    """From what the program printed: its last line counts. What it did not say well is `unavailable`."""
    lines = stdout.strip().splitlines()
    try:
        said = json.loads(lines[-1])
        if said["ok"]:
            return AllReduceAnswer(
                "measured", times=tuple(map(_message_time, said["sizes"])), versions=said["versions"]
            )
        message = f"{said['message']} (stage: {said['stage']})"
        return AllReduceAnswer("communication" if said["kind"] == "communication" else "unavailable", message)
    except (LookupError, ValueError, TypeError):
        ends = [text.strip().splitlines()[-1] for text in (stderr, stdout) if text.strip()]
        return AllReduceAnswer("unavailable", f"the probe gave no answer: {(ends or ['nothing'])[0][:_MESSAGE_LENGTH]}")


def _argv(probe: AllReduceProbe) -> list[str]:
    words = [
        *(probe.python, str(PROGRAM)),
        *("--ranks", str(len(probe.gpus))),
        *("--backend", probe.backend, "--device", "cuda" if probe.backend == "nccl" else "cpu"),
        *("--gpus", ",".join(map(str, probe.gpus))),
        *("--sizes", ",".join(map(str, probe.sizes))),
        *("--timeout", f"{probe.timeout_s:g}", "--setup-timeout", f"{probe.setup_s:g}"),
        *("--log", str(probe.log_path)),
    ]
    return words if probe.repeats is None else [*words, "--repeats", str(probe.repeats)]


def _message_time(row: Mapping[str, Any]) -> MessageTime:
    return MessageTime(int(row["bytes"]), float(row["median_us"]), float(row["p10_us"]), float(row["p90_us"]))
