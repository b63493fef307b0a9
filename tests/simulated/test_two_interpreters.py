"""Two serving environments in one study: scripts that answer the version probe and start the simulated node."""

import json
import sys
from pathlib import Path

import pytest
from programs import autotune, processes_naming, small_space, trials

SPACE = """\
study: two-environments
engine:
  name: sglang
  model: imaginary/model
  python: [{a}, {b}]
  args: {{device: cpu, tp-size: 8, max-running-requests: 64}}
  env: {{AUTOTUNE_SIMULATED_NODE: '{{"speed": 200, "startup_s": 5, "seed": 3}}'}}
parameters:
  stream_interval: [2, 4]
  cuda_graph_max_bs: {{values: [64, 128], when: 'engine_python == "{b}"'}}
workload: {{prompts: coding, max_tokens: 32, min_requests: 8, concurrency: {{1: 1, 4: 1}}}}
budget: {{trials: 2, confirm: off}}
known_good: [{{engine_python: {b}, cuda_graph_max_bs: 128, stream_interval: 2}}]
"""


def interpreter(path: Path, version: str) -> Path:
    answer = json.dumps({"sglang": version, "python": "3.12.0", "torch": f"2.9+{path.name}"})
    path.write_text(
        f"#!/bin/sh\nif [ \"$1\" = -c ]; then echo '{answer}'; exit; fi\n"
        f'shift 2\nexec {sys.executable} -m autotune.simulated_node "$@"\n'
    )
    path.chmod(0o755)
    return path


@pytest.fixture
def space(tmp_path: Path) -> Path:
    a, b = interpreter(tmp_path / "a", "0.5.9"), interpreter(tmp_path / "b", "0.5.10")
    return small_space(tmp_path, SPACE.format(a=a, b=b))


def test_every_trial_runs_on_its_own_interpreter_and_is_recorded_with_that_one_s_version(
    space: Path, tmp_path: Path
) -> None:
    done = autotune("run", "--space", str(space), "--no-mlflow", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    baseline, other = trials(tmp_path)
    for trial, name, version in ((baseline, "a", "0.5.9"), (other, "b", "0.5.10")):
        assert trial["state"] == "complete", trial["failure"]
        assert trial["configuration"]["engine_python"] == str(tmp_path / name)
        assert trial["command"]["argv"][0] == str(tmp_path / name)
        assert trial["provenance"]["engine_version"] == version
        assert trial["provenance"]["node"]["torch"] == f"2.9+{name}"
    assert "cuda_graph_max_bs" not in baseline["configuration"]
    assert processes_naming(str(tmp_path)) == []


def test_check_shows_both_versions_and_starts_nothing(space: Path, tmp_path: Path) -> None:
    done = autotune("check", "--space", str(space), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"sglang 0.5.9   {tmp_path / 'a'}" in done.stdout
    assert f"sglang 0.5.10   {tmp_path / 'b'}" in done.stdout
    assert "6 valid of 6 combinations" in done.stdout


def test_the_interpreters_may_come_from_the_command_line(space: Path, tmp_path: Path) -> None:
    one = ("--set", f"engine.python={tmp_path / 'b'}", "--set", "parameters.cuda_graph_max_bs=[64, 128]")
    done = autotune("check", "--space", str(space), *one, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "sglang 0.5.10\n" in done.stdout
    assert "4 valid of 4 combinations" in done.stdout
    both = ("--set", f"engine.python=[{tmp_path / 'b'}, {tmp_path / 'a'}]")
    done = autotune("check", "--space", str(space), *one, *both, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.index("sglang 0.5.10 ") < done.stdout.index("sglang 0.5.9 ")


def test_an_interpreter_that_known_good_names_and_nobody_lists_is_refused(space: Path, tmp_path: Path) -> None:
    done = autotune("check", "--space", str(space), "--set", f"engine.python={tmp_path / 'a'}", cwd=tmp_path)
    assert done.returncode == 2
    assert "known_good.0.engine_python must be an interpreter of engine.python" in done.stderr


def test_a_simulated_node_has_one_environment(space: Path, tmp_path: Path) -> None:
    changes = ("--set", "engine.env={}", "--set", "known_good=[]")
    done = autotune("check", "--space", str(space), "--engine", "simulated", *changes, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "simulated 0.5.9\n" in done.stdout
    assert "engine_python  " not in done.stdout
