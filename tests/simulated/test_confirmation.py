"""The confirmation of a whole study on the simulated node: fresh servers, held-out prompts, resumed half-way."""

from __future__ import annotations

import gzip
import json
import signal
import time
from collections.abc import Callable
from pathlib import Path

from programs import SMALL_SPACE, autotune, processes_naming, small_space, start_autotune, trials

SPACE = SMALL_SPACE.replace(
    "budget: {trials: 5, confirm: off}", "budget: {trials: 4, confirm: {finalists: 1, rounds: 3}}"
)


def prompts_of(folder: Path, origin: str) -> list[str]:
    found: list[str] = []
    for trial in trials(folder):
        if (trial["origin"] == "confirmation") is (origin == "confirmation"):
            for path in folder.glob(f"runs/*-2*/trials/{trial['number']:04d}/records-*.jsonl.gz"):
                lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
                found += [line["prompt"] for line in lines if "prompt" in line]
    return found


def test_a_confirmation_interrupted_half_way_goes_on_with_fresh_servers_and_unseen_prompts(tmp_path: Path) -> None:
    space = str(small_space(tmp_path, SPACE))
    running = start_autotune("run", "--space", space, "--no-mlflow", cwd=tmp_path)
    wait_for(lambda: confirmed(tmp_path) >= 2)
    running.send_signal(signal.SIGINT)
    _stdout, stderr = running.communicate(timeout=60)
    assert running.returncode == 130, stderr
    assert "--resume" in stderr
    assert processes_naming(str(tmp_path)) == []

    resumed = autotune("run", "--resume", "latest", "--no-mlflow", "--json", cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    summary = json.loads(resumed.stdout.splitlines()[-1])
    runs = [t for t in trials(tmp_path) if t["origin"] == "confirmation" and t["state"] == "complete"]
    (best,) = {t["replicate"]["finalists"][0] for t in runs}
    assert [t["replicate"]["confirms"] for t in runs] == [None, best, best, None, None, best]
    assert [t["replicate"]["round"] for t in runs] == [1, 1, 2, 2, 3, 3]
    assert all(t["duplicate_of"] is None and t["measurements"] for t in runs)
    assert len({served_name(t) for t in runs}) == 6, "a server of its own for each run"

    confirmation = summary["confirmation"]
    assert (confirmation["rounds"], confirmation["baseline_servers"]) == (3, 3)
    assert confirmation["outcome"] in ("winner", "none")
    assert "held-out prompts" in summary["verdict"]
    report = autotune("report", "--json", cwd=tmp_path)
    assert json.loads(report.stdout)["confirmation"] == confirmation, "a pure function of what is recorded"

    search, held_out = prompts_of(tmp_path, "search"), prompts_of(tmp_path, "confirmation")
    assert len(search) > 100
    assert len(held_out) > 100
    assert len(set(held_out)) == len(held_out)
    assert not set(search) & set(held_out)


def confirmed(folder: Path) -> int:
    if not list(folder.glob("runs/*/trials.jsonl")):
        return 0
    return sum(t["origin"] == "confirmation" for t in trials(folder))


def served_name(trial: dict[str, object]) -> str:
    command = trial["command"]
    assert isinstance(command, dict)
    argv = command["argv"]
    return str(argv[argv.index("--served-model-name") + 1])


def wait_for(condition: Callable[[], bool], seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition never held"
        time.sleep(0.05)
