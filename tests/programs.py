"""Runs the program as its users do: a process, a space file, what it prints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil

SMALL_SPACE = """\
study: small
engine:
  name: simulated
  model: imaginary/model
  args: {tp-size: 8, max-running-requests: 64, stream-interval: 4, enable-flashinfer-allreduce-fusion: true,
         speculative-draft-model-path: imaginary/draft}
  node: {speed: 200, startup_s: 30, seed: 3}
baseline: {speculative_algorithm: unset, cuda_graph_max_bs: 128, NCCL_PROTO: unset}
parameters:
  speculative_algorithm: [unset, EAGLE3]
  speculative_num_steps: {values: [1, 2], when: speculative_algorithm != unset}
  speculative_eagle_topk: {values: [1], when: speculative_algorithm != unset}
  spec_v2: {values: [true], when: speculative_algorithm != unset}
  cuda_graph_max_bs: [32, 128]
  NCCL_PROTO: {env: true, values: [unset, LL]}
workload:
  prompts: coding
  max_tokens: 64
  min_requests: 8
  concurrency: {1: 1, 8: 2}
objective: {metric: weighted_throughput}
budget: {trials: 5, confirm: off}
"""


def environment(**more: str) -> dict[str, str]:
    return {**{k: v for k, v in os.environ.items() if not k.startswith(("NCCL_", "SGLANG_"))}, **more}


def autotune(*arguments: str, cwd: Path, timeout: float = 100, **more: str) -> subprocess.CompletedProcess[str]:
    """Runs to the end; the caller looks at returncode, stdout and stderr."""
    return subprocess.run(
        [sys.executable, "-m", "autotune", *arguments],
        cwd=cwd,
        env=environment(**more),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def start_autotune(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
    """In a session of its own, so that signals of the test reach the tuner alone."""
    return subprocess.Popen(
        [sys.executable, "-m", "autotune", *arguments],
        cwd=cwd,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def small_space(folder: Path, text: str = SMALL_SPACE) -> Path:
    path = folder / "small.yaml"
    path.write_text(text)
    return path


def trials(folder: Path) -> list[dict[str, Any]]:
    """The recorded trials of the only study under `folder`/runs."""
    (path,) = [p for p in (folder / "runs").glob("*/trials.jsonl") if not p.parent.is_symlink()]
    return [json.loads(line) for line in path.read_text().splitlines()]


def processes_naming(text: str) -> list[str]:
    """Command lines of live processes that mention `text` (a tmp_path: only ours do)."""
    found = []
    for process in psutil.process_iter(["cmdline", "environ", "status"]):
        info = process.info
        if info["status"] == psutil.STATUS_ZOMBIE or process.pid == os.getpid():
            continue
        if any(text in part for part in [*(info["cmdline"] or []), *(info["environ"] or {}).values()]):
            found.append(" ".join(info["cmdline"] or []))
    return found
