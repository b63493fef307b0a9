"""`autotune init` and then `autotune check`, as a person types them."""

import subprocess
from pathlib import Path

import pytest
from programs import autotune

SERVE = "python3 -m sglang.launch_server --model-path /models/kimi-k2.5-int4"
BASELINE = (
    f"{SERVE} --tp 8 --trust-remote-code --cuda-graph-max-bs 128 --disable-custom-all-reduce "
    "--attention-backend flashinfer --enable-flashinfer-allreduce-fusion"
)
CHAIN = (
    f"SGLANG_ENABLE_SPEC_V2=True NCCL_PROTO=LL NCCL_ALGO=Ring NCCL_P2P_LEVEL=SYS {BASELINE} "
    "--speculative-algorithm EAGLE3 --speculative-draft-model-path /models/k2.5-eagle3 --speculative-num-steps 2 "
    "--speculative-eagle-topk 1 --speculative-num-draft-tokens 3 --max-running-requests 48"
)
NODE = ("--gpu", "sm120:8:pcie")


def init(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return autotune("init", *arguments, cwd=folder)


@pytest.mark.parametrize(
    ("command", "version", "gpu"),
    [
        (BASELINE, "0.5.9", "sm120:8:pcie"),
        (CHAIN, "0.5.9", "sm120:8:pcie"),
        (CHAIN, "0.5.13", "sm120:8:pcie"),
        ("sglang serve /models/m --tp 8 --speculative-algorithm EAGLE3 --speculative-draft-model-path /d", "0.5.23",
         "sm100:8:nvswitch"),
        (f"{SERVE} --max-running-requests 2", "0.5.23", "sm90"),
    ],
)  # fmt: skip
def test_check_accepts_what_init_writes(tmp_path: Path, command: str, version: str, gpu: str) -> None:
    written = init(tmp_path, "--from-command", command, "--engine-version", version, "--gpu", gpu, "-o", "my.yaml")
    assert written.returncode == 0, written.stderr
    assert "will be refused" not in written.stderr
    checked = autotune("check", "--space", "my.yaml", "--engine-version", version, cwd=tmp_path)
    assert checked.returncode == 0, checked.stderr
    assert f"sglang {version}" in checked.stdout


def test_the_file_says_what_was_assumed_and_why_each_dimension_is_there(tmp_path: Path) -> None:
    done = init(tmp_path, "--from-command", BASELINE, *NODE)
    assert done.returncode == 0, done.stderr
    assert "SGLang 0.5.19 was assumed" in done.stderr
    lines = done.stdout.splitlines()
    for index, line in enumerate(lines):
        if line.startswith("  NCCL_") and "values:" in line:
            assert lines[index - 1].lstrip().startswith("#"), line


def test_the_interpreter_of_the_command_tells_the_version(tmp_path: Path) -> None:
    python = tmp_path / "python3"
    python.write_text('#!/bin/sh\necho \'{"sglang": "0.5.15.post1"}\'\n')
    python.chmod(0o755)
    done = init(tmp_path, "--from-command", f"{python} -m sglang.launch_server --model-path /m", "--gpu", "sm90")
    assert done.returncode == 0, done.stderr
    assert "SGLang 0.5.15.post1 (as its interpreter says)" in done.stdout
    assert f"python: {python}" in done.stdout


def test_a_file_is_read_and_an_existing_one_is_not_overwritten(tmp_path: Path) -> None:
    script = tmp_path / "start.sh"
    script.write_text(f"#!/bin/bash\nset -e\nexport NCCL_PROTO=LL\nexec {SERVE} \\\n  --tp-size 8\n")
    assert init(tmp_path, "--from-file", str(script), *NODE, "--study", "mine", "-o", "out.yaml").returncode == 0
    before = (tmp_path / "out.yaml").read_text()
    assert "study: mine" in before
    assert "NCCL_PROTO: LL" in before
    again = init(tmp_path, "--from-file", str(script), "-o", "out.yaml")
    assert again.returncode == 2
    assert "out.yaml exists" in again.stderr
    assert (tmp_path / "out.yaml").read_text() == before


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "give the command in one way"),
        (("--from-command", "x", "--from-file", "y"), "give the command in one way"),
        (("--from-file", "nowhere.sh"), "nowhere.sh"),
        (("--from-command", f"{SERVE} --tp '8"), "the command:1:74: every quote must be closed"),
        (("--from-command", "python train.py"), "none was found"),
        (("--from-command", f"{SERVE}; {SERVE}"), "it holds 2"),
        (("--from-command", f"{SERVE} --max-runing-requests 8"), "did you mean --max-running-requests"),
        (("--from-command", SERVE, "--engine-version", "0.4"), "must be 0.5.9 or newer"),
        (("--from-command", SERVE, "--engine-version", "new"), "numbers with dots"),
        (("--from-command", SERVE, "--gpu", "h200"), "--gpu must be"),
    ],
)
def test_bad_input_ends_with_status_2_the_place_and_no_traceback(
    tmp_path: Path, arguments: tuple[str, ...], why: str
) -> None:
    done = init(tmp_path, *arguments)
    assert done.returncode == 2, done.stderr
    assert why in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_standard_input_is_read(tmp_path: Path) -> None:
    import sys

    done = subprocess.run(
        [sys.executable, "-m", "autotune", "init", "--from-file", "-", *NODE],
        input=f"{SERVE} --tp-size 8",
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "model: /models/kimi-k2.5-int4" in done.stdout
