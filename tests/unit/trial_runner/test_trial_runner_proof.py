"""Proving NCCL's settings: what is asked, what is kept, what an answer comes to. No process: `ask` is a function."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from builders import command, space, spec

from autotune import engines
from autotune.domain.configuration import Configuration
from autotune.domain.study import EngineSpec
from autotune.domain.trial import FailureReason, LaunchCommand
from autotune.launch.collectives import AllReduceAnswer, AllReduceProbe, MessageTime
from autotune.trial_runner.proof import Prover, judge

ENGINE = engines.get("sglang")
LOG = (Path(__file__).parent.parent / "engines" / "samples" / "nccl_ring_ll_2_28.log").read_text()
TIMES = (MessageTime(8192, 9.1, 8.9, 9.6), MessageTime(8388608, 120.0, 118.0, 125.0))
MEASURED = AllReduceAnswer("measured", times=TIMES, versions={"torch": "2.11.0", "nccl": "2.28.9"})
HUNG = AllReduceAnswer("communication", "hung: not done 60 s after the ranks were up (stage: all-reduce)")
KEY = {"assignment": {"NCCL_PROTO": "LL"}, "python": "p", "gpus": [0, 1], "visible": None}


class Asked:
    """Answers as it is told, and keeps what it was asked."""

    def __init__(self, answer: AllReduceAnswer, log: str = LOG) -> None:
        self.answer, self.log, self.probes = answer, log, list[AllReduceProbe]()

    def __call__(self, probe: AllReduceProbe) -> AllReduceAnswer:
        self.probes.append(probe)
        probe.log_path.write_text(self.log)
        return self.answer


def launch(**chosen: str) -> LaunchCommand:
    base = command()
    return replace(base, environment=chosen, chosen=chosen)


def prover(folder: Path, asked: Asked, **overrides: object) -> Prover:
    return Prover(spec(**overrides), ENGINE, folder, asked)


def test_an_assignment_is_asked_once_in_the_trials_own_environment(tmp_path: Path) -> None:
    asked = Asked(MEASURED)
    proving = prover(tmp_path, asked)
    shell = {"PATH": "/bin", "NCCL_ALGO": "Tree", "CUDA_VISIBLE_DEVICES": "2,3"}
    first = proving.prove(launch(NCCL_PROTO="LL"), shell)
    assert proving.prove(launch(NCCL_PROTO="LL"), shell) is first
    proving.prove(launch(NCCL_PROTO="Simple"), shell)
    proving.prove(launch(), shell)
    assert len(asked.probes) == 3
    environment = asked.probes[0].environment
    assert environment["NCCL_PROTO"] == "LL"
    assert environment["CUDA_VISIBLE_DEVICES"] == "2,3"
    assert environment["NCCL_NVLS_ENABLE"] == "0"
    assert environment["NCCL_CUMEM_ENABLE"] == "0"
    assert "NCCL_ALGO" not in environment  # the shell's
    assert "NCCL_DEBUG" not in environment  # the probe's own first pass adds it
    assert asked.probes[0].gpus == tuple(range(8))
    assert asked.probes[0].python == "/opt/sglang/bin/python"


def test_what_the_space_chose_stands_over_what_the_server_would_set(tmp_path: Path) -> None:
    asked = Asked(MEASURED)
    prover(tmp_path, asked).prove(launch(NCCL_CUMEM_ENABLE="1"), {})
    assert asked.probes[0].environment["NCCL_CUMEM_ENABLE"] == "1"


@pytest.mark.parametrize("answer", [MEASURED, HUNG])
def test_a_study_that_goes_on_finds_the_proof_in_its_folder(tmp_path: Path, answer: AllReduceAnswer) -> None:
    first = prover(tmp_path, Asked(answer)).prove(launch(NCCL_PROTO="LL"), {})
    later = Asked(answer)
    assert prover(tmp_path, later).prove(launch(NCCL_PROTO="LL"), {}) == first
    assert later.probes == []


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema_version": 99}', '{"schema_version": 1}'])
def test_a_record_that_cannot_be_read_is_made_again(tmp_path: Path, text: str) -> None:
    asked = Asked(MEASURED)
    prover(tmp_path, asked).prove(launch(), {})
    (record,) = (tmp_path / "nccl").glob("*.json")
    record.write_text(text)
    prover(tmp_path, asked).prove(launch(), {})
    assert len(asked.probes) == 2
    assert json.loads(record.read_text())["key"]["gpus"] == list(range(8))


def test_what_could_not_be_asked_is_remarked_and_asked_again_by_the_next_start(tmp_path: Path) -> None:
    asked = Asked(AllReduceAnswer("unavailable", "only 1 are visible (stage: setup)"), log="")
    proving = prover(tmp_path, asked)
    for _ in range(2):
        found = proving.prove(launch(NCCL_PROTO="LL"), {})
        assert found.failure is None
        assert found.proof == {}
        assert "only 1 are visible" in found.remarks[0]
    assert len(asked.probes) == 1
    prover(tmp_path, asked).prove(launch(NCCL_PROTO="LL"), {})
    assert len(asked.probes) == 2


@pytest.mark.parametrize(
    ("overrides", "due"),
    [
        ({}, True),
        ({"space": space(parameters=())}, False),
        ({"space": space(parameters=()), "baseline": Configuration({"NCCL_ALGO": None})}, True),
        (
            {
                "space": space(parameters=()),
                "engine": EngineSpec("sglang", "/opt/sglang/bin/python", "/m", env={"NCCL_BUFFSIZE": "1048576"}),
            },
            True,
        ),
    ],
    ids=["searched", "left_alone", "baseline", "fixed"],
)
def test_proofs_are_due_where_the_study_names_nccl(tmp_path: Path, overrides: dict[str, object], due: bool) -> None:
    assert prover(tmp_path, Asked(MEASURED), **overrides).is_due(launch()) is due


def test_nothing_is_due_on_one_gpu_on_the_cpu_or_on_a_simulated_node(tmp_path: Path) -> None:
    proving = prover(tmp_path, Asked(MEASURED))
    one = replace(command(), argv=("python", "-m", "sglang.launch_server", "--tp-size", "1"))
    assert not proving.is_due(one)
    assert not proving.is_due(command("--device", "cpu"))
    simulated = Prover(spec(), engines.get("simulated"), tmp_path, Asked(MEASURED))
    assert not simulated.is_due(command())


def test_a_proof_says_what_nccl_read_and_chose_and_what_it_took() -> None:
    found = judge(MEASURED, LOG, KEY, where="nccl/abc")
    assert found.failure is None
    assert found.remarks == ()
    assert found.proof["set.NCCL_PROTO"] == found.proof["read.NCCL_PROTO"] == "LL"
    assert found.proof["nccl"] == "2.28.9+cuda13.0"
    assert found.proof["channels"] == "4"
    assert found.proof["via"].startswith("P2P/CUMEM")
    assert found.proof["allreduce_us.8192"] == "9.10"
    assert found.proof["allreduce_us.8388608.p90"] == "125.00"
    assert found.proof["chosen.8192"] == "RING LL x2"
    assert found.proof["gpus"] == "0,1"


def test_a_setting_that_nccl_does_not_confirm_is_remarked() -> None:
    key = {**KEY, "assignment": {"NCCL_P2P_LEVEL": "NODE"}}
    found = judge(MEASURED, LOG.replace("NCCL_P2P_LEVEL", "NCCL_OTHER"), key, where="nccl/abc")
    assert found.remarks == ("NCCL_P2P_LEVEL was set to NODE, and NCCL did not say it read it",)
    assert "read.NCCL_P2P_LEVEL" not in found.proof


def test_a_hang_is_a_failed_communication_with_nccls_last_line_as_evidence() -> None:
    found = judge(HUNG, LOG, KEY, where="nccl/abc")
    assert found.failure is not None
    assert found.failure.reason is FailureReason.COMMUNICATION_FAILED
    assert "NCCL_PROTO=LL" in found.failure.message
    assert "hung" in found.failure.message
    assert "8388608 Bytes" in found.failure.evidence
    assert "no model was loaded" in found.failure.hint


def test_a_hang_with_nothing_set_is_the_nodes_own() -> None:
    found = judge(HUNG, "", {**KEY, "assignment": {}}, where="nccl/abc")
    assert found.failure is not None
    assert "no NCCL_* set" in found.failure.message
    assert "NCCL_P2P_DISABLE" in found.failure.hint
    assert "hung" in found.failure.evidence
