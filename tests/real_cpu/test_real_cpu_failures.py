"""A real SGLang made to fail in every way that needs no GPU: each has its right name, with SGLang's own words."""

import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from programs import processes_naming, small_space, start_autotune, trials

from autotune import engines
from autotune.domain.trial import Failure, FailureReason, LaunchCommand
from autotune.errors import TrialError
from autotune.launch import (
    Control,
    Readiness,
    await_ready,
    complete_environment,
    free_port,
    oom_kills,
    short_tmpdir,
    start,
)
from autotune.trial_runner.failures import Scene, explain

pytestmark = pytest.mark.real_cpu
KIT = Path(os.environ.get("AUTOTUNE_REAL_CPU", "/nonexistent"))
MODELS = KIT / "models"
ENGINE = engines.get("sglang")
SMALL = ("--device", "cpu", "--max-total-tokens", "4096", "--max-running-requests", "8")
PLAIN = ("--attention-backend", "torch_native")
EAGLE = ("--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path")
TREE = ("--speculative-num-steps", "1", "--speculative-eagle-topk", "2", "--speculative-num-draft-tokens")
TINY8, DRAFT = str(MODELS / "tiny8"), str(MODELS / "tiny8-eagle3")


def failure_of(folder: Path, *arguments: str, port: int | None = None, start_s: float = 600) -> Failure:
    """Launches SGLang as a trial does, and explains what becomes of it."""
    port = port or free_port()
    argv = (str(KIT / "venv/bin/python"), "-m", "sglang.launch_server", *SMALL)
    place = ("--host", "127.0.0.1", "--port", str(port), "--served-model-name", "mine")
    environment = {"OMP_NUM_THREADS": "1", "SGLANG_USE_CPU_ENGINE": "1"}
    tmpdir = short_tmpdir()
    asked = LaunchCommand((*argv, *place, *arguments), environment, environment)
    command = complete_environment(asked, os.environ, tmpdir=tmpdir)
    ends = ENGINE.endpoints
    readiness = Readiness(ends.ready_line, ends.health, ends.identity, "mine", ENGINE.served_names)
    with (
        start(command, log_path=folder / "server.log", tmpdir=tmpdir) as server,
        Control("127.0.0.1", port) as control,
        pytest.raises(TrialError) as raised,
    ):
        await_ready(server, control, readiness, silence_s=200, start_s=start_s)
    scene = Scene(server.exit_status(), server.log(), False, server.killed_by_kernel())
    return explain(raised.value, ENGINE, scene)


def model_without(folder: Path, *names: str) -> str:
    """tiny8 with some of its files left out."""
    for path in (MODELS / "tiny8").iterdir():
        if path.name not in names:
            (folder / path.name).symlink_to(path)
    return str(folder)


@pytest.mark.parametrize(
    ("arguments", "reason", "evidence"),
    [
        (("--attention-backend", "fa9"), FailureReason.ARGUMENT_REJECTED, "invalid choice: 'fa9'"),
        ((*PLAIN, "--bogus-flag", "1"), FailureReason.ARGUMENT_REJECTED, "unrecognized arguments: --bogus-flag"),
        ((*PLAIN, *EAGLE, DRAFT, *TREE[:2]), FailureReason.INVALID_COMBINATION, "'NoneType' and 'int'"),
        ((*PLAIN, *EAGLE, DRAFT, *TREE, "8"), FailureReason.INVALID_COMBINATION, "selected index k out of range"),
        (("--attention-backend", "fa3"), FailureReason.UNSUPPORTED_HARDWARE, "FlashAttention v3 Backend requires SM"),
        (("--attention-backend", "flashinfer"), FailureReason.MISSING_DEPENDENCY, "flashinfer_python"),
        ((*PLAIN, *EAGLE, TINY8, *TREE, "3"), FailureReason.MODEL_MISMATCH, "hot_token_id"),
    ],
    ids=["value", "flag", "topk-missing", "tree-too-large", "fa3", "flashinfer", "draft-of-another-kind"],
)
def test_what_sglang_refuses_of_its_arguments(
    tmp_path: Path, arguments: tuple[str, ...], reason: FailureReason, evidence: str
) -> None:
    failure = failure_of(tmp_path, "--model-path", TINY8, *arguments)
    assert failure.reason is reason, failure
    assert evidence in failure.evidence
    assert failure.hint


@pytest.mark.parametrize(
    ("target", "evidence"), [("tiny", "Expected hidden_size to be 64"), ("smollm2", "context_length (8192)")]
)
def test_a_draft_of_another_model(tmp_path: Path, target: str, evidence: str) -> None:
    failure = failure_of(tmp_path, "--model-path", str(MODELS / target), *PLAIN, *EAGLE, DRAFT, *TREE, "3")
    assert failure.reason is FailureReason.MODEL_MISMATCH, failure
    assert evidence in failure.evidence


@pytest.mark.parametrize(
    ("missing", "evidence"),
    [
        (("model.safetensors",), "Cannot find any model weights"),
        (("config.json",), "Unrecognized model"),
        (("tokenizer.json", "tokenizer_config.json"), "backend tokenizer"),
    ],
    ids=["weights", "config", "tokenizer"],
)
def test_files_that_the_model_lacks(tmp_path: Path, missing: tuple[str, ...], evidence: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    failure = failure_of(tmp_path, "--model-path", model_without(folder, *missing), *PLAIN)
    assert failure.reason is FailureReason.MODEL_UNREADABLE, failure
    assert evidence in failure.evidence


def test_a_model_folder_that_is_not_there(tmp_path: Path) -> None:
    failure = failure_of(tmp_path, "--model-path", str(tmp_path / "no" / "model"), *PLAIN)
    assert failure.reason is FailureReason.MODEL_NOT_FOUND, failure


def test_a_port_that_was_taken_meanwhile(tmp_path: Path) -> None:
    """SGLang says so after the load, and then waits for two minutes for itself before it ends."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        failure = failure_of(tmp_path, "--model-path", TINY8, *PLAIN, port=taken.getsockname()[1], start_s=90)
    assert failure.reason is FailureReason.PORT_TAKEN, failure
    assert "address already in use" in failure.evidence


SPACE = """\
study: failing
engine:
  name: sglang
  python: {kit}/venv/bin/python
  model: {kit}/models/tiny8
  args: {{device: cpu, max-total-tokens: 8192, max-running-requests: 8, decode-log-interval: 1}}
  env: {{OMP_NUM_THREADS: "1", SGLANG_USE_CPU_ENGINE: "1"}}
baseline: {{attention_backend: torch_native}}
parameters: {{attention_backend: [torch_native]}}
workload: {{prompts: coding, max_tokens: 256, min_requests: 400, concurrency: {{4: 1}}}}
limits: {{request_patience_s: 20}}
objective: {{metric: weighted_throughput}}
budget: {{trials: 1}}
"""


def served_trial(folder: Path, wanted: int | None) -> dict[str, Any]:
    """Runs a study, and sends `wanted` to the scheduler of each server once it is under load."""
    space = small_space(folder, SPACE.format(kit=KIT))
    tuner = start_autotune("run", "--space", str(space), "--no-mlflow", cwd=folder)
    struck: set[int] = set()
    try:
        deadline = time.monotonic() + 600
        while tuner.poll() is None:
            assert time.monotonic() < deadline, "the study does not end"
            if wanted is not None and under_load(folder, len(struck)):
                for scheduler in schedulers(tuner.pid) - struck:
                    os.kill(scheduler, wanted)
                    struck.add(scheduler)
            time.sleep(0.2)
    finally:
        if tuner.poll() is None:
            tuner.send_signal(signal.SIGTERM)
        tuner.communicate(timeout=60)
    assert processes_naming(str(folder)) == []
    return trials(folder)[0]


def under_load(folder: Path, struck: int) -> bool:
    """Whether the server that comes after those that were struck is running four requests at once."""
    paths = {path.resolve() for path in folder.glob("runs/*/trials/*/server*.log")}  # runs/latest is a link
    found = sorted(paths, key=lambda path: path.stat().st_ctime)
    return any("#running-req: 4" in path.read_text(errors="replace") for path in found[struck:])


def schedulers(tuner: int) -> set[int]:
    found = psutil.Process(tuner).children(recursive=True)
    return {process.pid for process in found if "sglang::schedul" in process.name()}


def test_a_scheduler_that_is_killed_under_load(tmp_path: Path) -> None:
    trial = served_trial(tmp_path, signal.SIGKILL)
    assert trial["failure"]["reason"] == "died_serving", trial["failure"]
    assert "crashed with exit code -9" in trial["failure"]["evidence"]
    assert trial["attempts"] == 2
    assert trial["state"] == "infeasible"


def test_a_scheduler_that_hangs_under_load(tmp_path: Path) -> None:
    trial = served_trial(tmp_path, signal.SIGSTOP)
    assert trial["failure"]["reason"] in ("stuck_serving", "stuck_but_healthy"), trial["failure"]
    assert trial["failure"]["evidence"]


@pytest.fixture
def narrow_group() -> Iterator[Path]:
    """A memory control group of 1000 MiB below our own: less than a server takes to start."""
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    own = next((line.split(":", 2)[2] for line in lines if line.split(":")[1] == "memory"), None)
    if own is None:
        pytest.skip("no memory control group of version 1 to make a smaller one in")
    group = Path("/sys/fs/cgroup/memory") / own.lstrip("/") / f"autotune-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    try:
        (group / "memory.limit_in_bytes").write_text(str(1000 * 2**20))
        yield group
    finally:
        home = group.parent / "cgroup.procs"
        for pid in (group / "cgroup.procs").read_text().split():
            home.write_text(pid)
        group.rmdir()


def test_a_server_that_the_kernels_oom_killer_ended(tmp_path: Path, narrow_group: Path) -> None:
    home = narrow_group.parent / "cgroup.procs"
    (narrow_group / "cgroup.procs").write_text(str(os.getpid()))
    try:
        before = oom_kills()
        failure = failure_of(tmp_path, "--model-path", TINY8, *PLAIN)
        assert before is not None
        assert (oom_kills() or 0) > before
    finally:
        home.write_text(str(os.getpid()))
    assert failure.reason is FailureReason.KILLED_BY_KERNEL, failure
