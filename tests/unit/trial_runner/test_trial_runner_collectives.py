"""A setting that hangs NCCL ends its trial before anything is launched."""

from pathlib import Path

from builders import configuration, provenance, spec

from autotune import engines
from autotune.domain.serving import Serving
from autotune.domain.trial import EngineVersion, FailureReason, Origin, TrialRequest, TrialResult, TrialState
from autotune.launch.collectives import AllReduceAnswer, AllReduceProbe
from autotune.load import prompt_source
from autotune.recording import RunFolder
from autotune.recording.codec import decode_trial, encode_trial
from autotune.trial_runner import TrialRunner, TrialSite

PYTHON = "/opt/sglang/bin/python"


def hangs(probe: AllReduceProbe) -> AllReduceAnswer:
    probe.log_path.write_text("n:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC\n")
    return AllReduceAnswer("communication", "hung: not done 60 s after the ranks were up (stage: all-reduce)")


def evaluate(folder: Path) -> TrialResult:
    studied = spec()
    serving = Serving(engines.get("sglang"), studied.engine, {PYTHON: EngineVersion("0.5.23", (0, 5, 23))})
    shell = {"PATH": "/bin", "NCCL_ALGO": "Tree", "SGLANG_SIMULATE_ACC_LEN": "5"}
    run = RunFolder.create(folder, studied, "study: s\n", simulated=False)
    prompts = prompt_source("coding", seed=0)
    site = TrialSite(studied, serving, provenance(), run, prompts, "/tuner/python", shell, ask_allreduce=hangs)
    return TrialRunner(site).evaluate(TrialRequest(3, configuration(NCCL_PROTO="LL"), Origin.GREEDY))


def test_a_hanging_value_is_infeasible_without_a_launch_and_keeps_nccls_last_line(tmp_path: Path) -> None:
    result = evaluate(tmp_path)
    assert result.state is TrialState.INFEASIBLE
    assert result.attempts == 1
    assert result.failure is not None
    assert result.failure.reason is FailureReason.COMMUNICATION_FAILED
    assert "via P2P/IPC" in result.failure.evidence
    assert "NCCL_PROTO=LL" in result.failure.message
    assert result.score is None
    assert result.measurements == ()
    assert list(tmp_path.rglob("server.log")) == []
    assert [path.suffix for path in sorted(tmp_path.glob("*/nccl/*"))] != []


def test_its_record_says_what_would_have_run_and_what_the_shell_had(tmp_path: Path) -> None:
    result = evaluate(tmp_path)
    assert result.command is not None
    assert result.command.chosen == {"NCCL_PROTO": "LL"}
    assert set(result.command.dropped) == {"NCCL_ALGO", "SGLANG_SIMULATE_ACC_LEN"}
    assert result.pretences == ()
    assert decode_trial(encode_trial(result)) == result
