"""Lines on stderr in the form that SGLang 0.5.9 writes them."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

from autotune.simulated_node.plan import ServingPlan
from autotune.simulated_node.scheduler import DecodeReport

READY = "The server is fired up and ready to roll!"


def log(message: str, rank: str = "") -> None:
    """`rank` is the tag of the process that SGLang would have written it: TP0 for the scheduler."""
    stamp = time.strftime("%Y-%m-%d %H:%M:%S")
    raw(f"[{stamp}{' ' + rank if rank else ''}] {message}")


def raw(text: str) -> None:
    """One write for each line, so that lines of the child never cut into it."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def server_args_line(values: Mapping[str, Any]) -> str:
    return f"server_args=ServerArgs({', '.join(f'{name}={value!r}' for name, value in values.items())})"


def decode_line(report: DecodeReport, plan: ServingPlan) -> str:
    parts = [
        f"Decode batch, #running-req: {report.running}",
        f"#token: {report.context_tokens}",
        f"token usage: {report.context_tokens / max(1, plan.kv_capacity_tokens):.2f}",
    ]
    if report.accept_length is not None and plan.tree is not None:
        parts.append(f"accept len: {report.accept_length:.2f}")
        parts.append(f"accept rate: {report.accept_length / plan.tree.draft_tokens:.2f}")
    parts.append(f"cuda graph: {report.graph}")
    parts.append(f"gen throughput (token/s): {report.throughput:.2f}")
    parts.append(f"#queue-req: {report.queued}")
    return ", ".join(parts)


def scheduler_traceback(error: str) -> str:
    """How SGLang reports an exception of a scheduler process, around the error's own text."""
    return "\n".join(
        (
            "Scheduler hit an exception: Traceback (most recent call last):",
            '  File "sglang/srt/managers/scheduler.py", in run_scheduler_process (simulated)',
            error,
        )
    )
