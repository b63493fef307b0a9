"""`autotune run --warm-start`: on the simulated node, from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from programs import autotune, small_space


def study_folders(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / "runs").iterdir() if not path.is_symlink())


def records(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "trials.jsonl").read_text().splitlines()]


def test_a_warm_start_tries_the_earlier_best_first_and_a_resumed_one_knows_the_same(tmp_path: Path) -> None:
    space = str(small_space(tmp_path))
    assert autotune("run", "--space", space, "--no-mlflow", "--trials", "4", cwd=tmp_path).returncode == 0
    (first,) = study_folders(tmp_path)
    warm = ("--no-mlflow", "--warm-start", str(first / "trials.jsonl"))
    done = autotune("run", "--space", space, "--trials", "1", *warm, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (
        f"warm start from {first.name} (same node, same versions, same model and arguments, same traffic)"
        in done.stderr
    )
    second = next(path for path in study_folders(tmp_path) if path != first)
    known = json.loads((second / "warm_start.json").read_text())
    for path in sorted(first.rglob("*"), reverse=True):  # what it took is in its own folder
        path.rmdir() if path.is_dir() else path.unlink()
    resumed = autotune("run", "--resume", second.name, "--trials", "2", "--no-mlflow", cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    trials = records(second)
    assert [trial["origin"] for trial in trials] == ["baseline", "known_good"]
    assert trials[1]["configuration"] == known["known_good"][0]["configuration"]
    assert trials[0]["provenance"]["tuner"]["warm_start"] == first.name  # type: ignore[index]
    assert f"known\\_good (trial {known['known_good'][0]['trial']} of {first.name})".replace("\\", "") in (
        second / "report.md"
    ).read_text().replace("\\", "")


REFUSED = [
    (("--warm-start", "."), "a run folder must hold run.json"),
    (("--warm-start", "nothing-like-it"), "must hold a study, but there is none"),
    (("--resume", "latest", "--warm-start", "x"), "cannot add to it"),
]


@pytest.mark.parametrize(("options", "said"), REFUSED)
def test_what_is_no_run_folder_is_refused_with_a_hint(tmp_path: Path, options: tuple[str, ...], said: str) -> None:
    space = () if "--resume" in options else ("--space", str(small_space(tmp_path)))
    done = autotune("run", *space, "--no-mlflow", *options, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert "hint:" in done.stderr


def test_a_study_of_another_engine_is_refused_before_anything_is_asked_of_the_node(tmp_path: Path) -> None:
    space = str(small_space(tmp_path))
    assert autotune("run", "--space", space, "--no-mlflow", "--trials", "1", cwd=tmp_path).returncode == 0
    (first,) = study_folders(tmp_path)
    other = ("--engine", "sglang", "--set", "engine.python=/nowhere/python", "--warm-start", first.name)
    done = autotune("run", "--space", space, "--no-mlflow", *other, cwd=tmp_path)
    assert done.returncode == 2
    assert f"of the engine sglang, but {first.name} is one of simulated" in done.stderr
