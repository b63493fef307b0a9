"""Exit status 2, before anything is launched, with the next thing to type and no traceback."""

import stat
from pathlib import Path

import pytest
from programs import SMALL_SPACE, autotune, small_space

REAL = SMALL_SPACE.replace("name: simulated", "name: sglang\n  python: PYTHON").replace("  node: {", "  # node: {")


def assert_refused(folder: Path, text: str, *expected: str, arguments: tuple[str, ...] = ()) -> None:
    done = autotune("run", "--space", str(small_space(folder, text)), "--no-mlflow", *arguments, cwd=folder)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    for part in expected:
        assert part in done.stderr
    assert not (folder / "runs").exists(), "nothing was started"


def test_no_such_interpreter(tmp_path: Path) -> None:
    assert_refused(tmp_path, REAL.replace("PYTHON", "/no/such/python"), "/no/such/python", "--engine simulated")


def test_an_interpreter_without_sglang(tmp_path: Path) -> None:
    import sys

    text = REAL.replace("PYTHON", sys.executable)
    assert_refused(tmp_path, text, "sglang", "hint:")


def test_a_model_folder_without_a_config_and_no_gpu(tmp_path: Path) -> None:
    fake = tmp_path / "python"
    fake.write_text('#!/bin/sh\necho \'{"sglang": "0.5.23"}\'\n')
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    model = tmp_path / "model"
    model.mkdir()
    text = REAL.replace("PYTHON", str(fake)).replace("imaginary/model", str(model))
    assert_refused(tmp_path, text, "config.json", "--set engine.model=")
    (model / "config.json").write_text("{}")
    assert_refused(tmp_path, text, "GPU", "--engine simulated")


def test_faults_of_the_space_file_come_all_at_once_with_their_lines(tmp_path: Path) -> None:
    text = SMALL_SPACE.replace("cuda_graph_max_bs: [32, 128]", "cuda_graph_max_bs: {low: 9, high: 2}").replace(
        "budget: {trials: 5, confirm: off}", "budgets: {trials: 5, confirm: off}"
    )
    assert_refused(tmp_path, text, "small.yaml:14:", "small.yaml:22:", "budget")


def test_a_level_above_the_servers_own_cap_is_refused_with_the_arithmetic(tmp_path: Path) -> None:
    assert_refused(tmp_path, SMALL_SPACE, "64 < 100", arguments=("--set", "workload.concurrency={1: 1, 100: 1}"))


def test_more_requests_than_distinct_prompts_is_refused(tmp_path: Path) -> None:
    prompts = tmp_path / "mine.jsonl"
    prompts.write_text("".join(f'{{"prompt": "write function number {n}"}}\n' for n in range(20)))
    assert_refused(tmp_path, SMALL_SPACE.replace("prompts: coding", f"prompts: {prompts}"), "no prompt is sent twice")


@pytest.mark.parametrize("arguments", [(), ("--space", "a.yaml", "--resume", "latest")])
def test_a_study_is_either_new_or_resumed(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = autotune("run", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert "--space" in done.stderr


def test_no_study_recorded_yet(tmp_path: Path) -> None:
    done = autotune("report", cwd=tmp_path)
    assert done.returncode == 2
    assert "hint:" in done.stderr
