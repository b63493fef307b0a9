from __future__ import annotations

from pathlib import Path

import pytest

from autotune.domain.trial import LaunchCommand
from autotune.launch.environment import allowed, complete_environment

TMPDIR = Path("/tmp/at-1")


def completed(shell: dict[str, str], **chosen: str) -> LaunchCommand:
    return complete_environment(LaunchCommand(("server",), chosen, chosen), shell, tmpdir=TMPDIR)


@pytest.mark.parametrize("name", ["PATH", "HOME", "LC_ALL", "CUDA_VISIBLE_DEVICES", "HF_HOME", "LD_LIBRARY_PATH"])
def test_what_finds_programs_devices_and_models_is_kept(name: str) -> None:
    command = completed({name: "x"})
    assert command.environment[name] == "x"
    assert command.dropped == ()


@pytest.mark.parametrize(
    "name",
    [
        "NCCL_ALGO",
        "SGLANG_ENABLE_SPEC_V2",
        "SGL_X",
        "CUDA_LAUNCH_BLOCKING",
        "TORCHINDUCTOR_X",
        "PYTORCH_CUDA_ALLOC_CONF",
        "FLASHINFER_X",
        "TRITON_CACHE_DIR",
        "VLLM_X",
        "OMP_NUM_THREADS",
        "MKL_X",
        "PYTHONPATH",
        "LD_PRELOAD",
        "HF_TOKEN",
        "https_proxy",
    ],
)
def test_what_a_server_would_read_is_dropped_and_named(name: str) -> None:
    command = completed({name: "secret"})
    assert name not in command.environment
    assert command.dropped == (name,)
    assert "secret" not in repr(command)


def test_what_no_server_reads_is_dropped_without_a_word() -> None:
    command = completed({"EDITOR": "vi", "PS1": "$"})
    assert command.dropped == ()
    assert dict(command.environment) == {"TMPDIR": str(TMPDIR), "PYTHONUNBUFFERED": "1"}


def test_the_space_wins_over_the_shell_and_the_defaults() -> None:
    command = completed(
        {"CUDA_VISIBLE_DEVICES": "0", "NCCL_ALGO": "Ring"},
        CUDA_VISIBLE_DEVICES="1",
        NCCL_ALGO="Tree",
        PYTHONUNBUFFERED="0",
    )
    assert command.environment["CUDA_VISIBLE_DEVICES"] == "1"
    assert command.environment["NCCL_ALGO"] == "Tree"
    assert command.environment["PYTHONUNBUFFERED"] == "0"
    assert command.dropped == ()


def test_tmpdir_is_the_trials_own_and_argv_is_untouched() -> None:
    command = completed({"TMPDIR": "/var/tmp"})
    assert command.environment["TMPDIR"] == str(TMPDIR)
    assert command.argv == ("server",)


def test_dropped_names_are_sorted_and_keep_what_was_known_before() -> None:
    before = LaunchCommand(("server",), dropped=("NCCL_PROTO",))
    after = complete_environment(before, {"OMP_X": "1", "NCCL_ALGO": "Ring"}, tmpdir=TMPDIR)
    assert after.dropped == ("NCCL_ALGO", "NCCL_PROTO", "OMP_X")


def test_the_allow_list_lets_nothing_else_through() -> None:
    assert allowed({"PATH": "p", "LC_TIME": "C", "NCCL_ALGO": "Ring", "AWS_SECRET": "s"}) == {
        "PATH": "p",
        "LC_TIME": "C",
    }
