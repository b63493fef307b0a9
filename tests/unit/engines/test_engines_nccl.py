"""NCCL's lines, in the forms of its source (src/misc/param.cc, init.cc, enqueue.cc, transport/*.cc)."""

from pathlib import Path

import pytest

from autotune.domain.trial import LaunchCommand
from autotune.engines.dialect import nccl
from autotune.engines.dialect.nccl import Choice

SAMPLES = Path(__file__).parent / "samples"


def sample(name: str) -> str:
    return (SAMPLES / f"nccl_{name}.log").read_text()


def test_what_a_recent_nccl_read_and_chose_is_found() -> None:
    said = nccl.parse(sample("ring_ll_2_28"))
    assert said.version == "2.28.9+cuda13.0"
    assert said.settings["NCCL_PROTO"] == "LL"
    assert said.settings["NCCL_ALGO"] == "allreduce:ring"
    assert said.settings["NCCL_MAX_NCHANNELS"] == "4"  # numbers end in a full stop, words do not
    assert said.channels == 4
    assert said.transports == ("P2P/CUMEM", "P2P/CUMEM/read")
    assert said.choices == {8192: Choice("RING", "LL", 2), 8388608: Choice("RING", "LL", 4)}
    assert said.warnings == ()


def test_an_older_nccl_says_algorithm_and_protocol_by_number_and_its_version_on_a_line_of_its_own() -> None:
    said = nccl.parse(sample("shm_2_21"))
    assert said.version == "2.21.5+cuda12.4"
    assert said.transports == ("SHM/direct/direct",)
    assert said.choices == {8192: Choice("RING", "LL"), 1048576: Choice("TREE", "SIMPLE")}
    assert str(said.choices[8192]) == "RING LL"
    assert said.channels == 2


def test_pipes_of_other_kinds_are_transports_too() -> None:
    log = (
        "n:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/direct pointer\n"
        "n:1:2 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/IPC\n"
        "n:1:2 [0] NCCL INFO Channel 02/0 : 0[0] -> 1[1] [send] via NET/Socket/0\n"
        "n:1:2 [0] NCCL INFO Channel 03 : 1[2000] -> 2[3000] via direct shared memory\n"
    )
    assert nccl.parse(log).transports == ("P2P/direct pointer", "P2P/IPC", "NET/Socket/0", "direct shared memory")


@pytest.mark.parametrize("log", ["", "no word of it\n" * 3, "\x00\xff NCCL INFO \n", "NCCL INFO Channel"])
def test_a_log_without_nccl_says_nothing(log: str) -> None:
    assert nccl.parse(log) == nccl.NcclLog()


def test_what_nccl_confirms_needs_no_remark() -> None:
    asked = {"NCCL_PROTO": "ll", "NCCL_ALGO": "allreduce:ring", "NCCL_MAX_NCHANNELS": "4", "NCCL_P2P_LEVEL": "SYS"}
    assert nccl.unconfirmed(asked, nccl.parse(sample("ring_ll_2_28"))) == ()


def test_what_nccl_did_not_read_is_said_and_other_variables_are_left_alone() -> None:
    asked = {"NCCL_P2P_LEVEL": "NODE", "SGLANG_SET_CPU_AFFINITY": "1", "NCCL_DEBUG": "WARN", "NCCL_P2P_DISABLE": "0"}
    found = nccl.unconfirmed(asked, nccl.parse(sample("shm_2_21")))
    assert "NCCL_P2P_LEVEL was set to NODE, and NCCL did not say it read it" in found
    assert len(found) == 1


def test_a_value_that_nccl_read_as_another_or_called_invalid_is_said() -> None:
    log = (
        "n:1:2 [0] NCCL INFO NCCL_P2P_LEVEL set by environment to SYS\n"
        "n:1:2 [0] NCCL INFO Invalid value 1e9 for NCCL_BUFFSIZE, using default -2.\n"
    )
    found = nccl.unconfirmed({"NCCL_P2P_LEVEL": "4", "NCCL_BUFFSIZE": "1e9"}, nccl.parse(log))
    assert found == (
        "NCCL_BUFFSIZE was set to 1e9, and NCCL called that invalid",
        "NCCL_P2P_LEVEL was set to 4, and NCCL read SYS",
    )


def test_the_same_number_in_another_spelling_is_confirmed() -> None:
    log = "n:1:2 [0] NCCL INFO NCCL_BUFFSIZE set by environment to 4194304.\n"
    assert nccl.unconfirmed({"NCCL_BUFFSIZE": "0x400000"}, nccl.parse(log)) == ()


@pytest.mark.parametrize(
    ("log", "shown"),
    [
        (sample("refused_2_28"), "no algorithm/protocol available for function AllGather"),
        ("n:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC\nImportError: later\n", "via P2P/IPC"),
        ("rank 0: RuntimeError: wrong sums: 3 of 4096 elements\nNCCL INFO x\n", "wrong sums"),
        ("only this\n\n", "only this"),
        ("", ""),
    ],
)
def test_the_line_that_explains_most_is_the_evidence(log: str, shown: str) -> None:
    found = nccl.evidence(log)
    assert shown in found
    assert bool(found) == bool(shown)


@pytest.mark.parametrize(
    ("words", "gpus"),
    [
        ((), ()),
        (("--tp-size", "1"), ()),
        (("--tp-size", "2"), (0, 1)),
        (("--tensor-parallel-size=4",), (0, 1, 2, 3)),
        (("--tp", "2", "--base-gpu-id", "4", "--gpu-id-step", "2"), (4, 6)),
        (("--tp-size", "2", "--device", "cpu"), ()),
        (("--tp-size", "many"), ()),
        (("--tp-size",), ()),
    ],
)
def test_the_gpus_that_sum_tensors_are_read_from_the_command(words: tuple[str, ...], gpus: tuple[int, ...]) -> None:
    assert nccl.tensor_parallel_gpus(LaunchCommand(("python", "-m", "sglang.launch_server", *words))) == gpus


def test_an_assignment_is_nccls_own_variables_by_name() -> None:
    found = nccl.assignment({"PATH": "/bin", "NCCL_PROTO": "LL", "NCCL_ALGO": "x"})
    assert list(found) == ["NCCL_ALGO", "NCCL_PROTO"]
