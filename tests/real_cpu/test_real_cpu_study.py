"""One study on a real SGLang on the CPU, looked at from all sides. Its speed means nothing; all else is real."""

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from programs import autotune, environment, processes_naming, trials

from autotune.launch import free_port

pytestmark = pytest.mark.real_cpu
ROOT = Path(__file__).parent.parent.parent
KIT = Path(os.environ.get("AUTOTUNE_REAL_CPU", "/nonexistent"))


def run_smoke(folder: Path, *more: str) -> "subprocess.CompletedProcess[str]":
    return autotune(
        "run",
        *("--space", str(ROOT / "search_spaces" / "cpu_smoke.yaml"), "--json"),
        *("--set", f"engine.python={KIT}/venv/bin/python", "--set", f"engine.model={KIT}/models/tiny8"),
        *("--set", f"engine.args.speculative-draft-model-path={KIT}/models/tiny8-eagle3"),
        *more,
        cwd=folder,
        timeout=1700,
    )


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], str]:
    folder = tmp_path_factory.mktemp("smoke")
    done = run_smoke(folder)
    assert done.returncode == 0, done.stderr
    return folder, json.loads(done.stdout), done.stderr


def by(folder: Path, **values: Any) -> list[dict[str, Any]]:
    return [t for t in trials(folder) if all(t["configuration"].get(k) == v for k, v in values.items())]


def test_no_speculation_ngram_and_eagle3_are_measured_on_a_server_that_is_proven(study: Any) -> None:
    folder, _summary, _stderr = study
    for algorithm in (None, "NGRAM", "EAGLE3"):
        complete = [t for t in by(folder, speculative_algorithm=algorithm) if t["state"] == "complete"]
        assert complete, f"no complete trial of {algorithm}"
        for trial in complete:
            assert trial["resolved"]["values"]["speculative_algorithm"] == algorithm
            for measurement in trial["measurements"]:
                assert measurement["requests_ok"] == measurement["requests_total"] > 0
                assert measurement["output_throughput"]["value"] > 0
                lengths = measurement["accept_length"]
                assert lengths is None if algorithm is None else 1.0 <= lengths <= 8


def test_what_sglang_refuses_is_infeasible_with_its_own_line_as_evidence(study: Any) -> None:
    folder, _summary, _stderr = study
    refused = by(folder, attention_backend="fa3")
    assert refused
    for trial in refused:
        assert trial["state"] == "infeasible", trial["failure"]
        assert trial["score"] is None
        assert trial["failure"]["evidence"]


def test_a_draft_with_a_random_head_raises_the_alarm_and_fails_nothing(study: Any) -> None:
    folder, _summary, stderr = study
    drafted = [t for t in by(folder, speculative_algorithm="EAGLE3") if t["state"] == "complete"]
    assert drafted
    for trial in drafted:
        for measurement in trial["measurements"]:
            alarms = [found for found in measurement["findings"] if found["effect"] == "alarm"]
            assert [found["guard"] for found in alarms] == ["nothing_accepted"]
            assert alarms[0]["text"].startswith("accept length 1.0")
        assert f"ALARM: trial {trial['number']}, levels 1 and 4: accept length 1.0" in stderr
    others = [t for t in trials(folder) if t["configuration"].get("speculative_algorithm") != "EAGLE3"]
    assert not any(found["effect"] == "alarm" for t in others for m in t["measurements"] for found in m["findings"])
    assert "**ALARM**: trial" in (folder / "runs" / "latest" / "report.md").read_text()


def test_the_servers_own_log_is_read_for_every_level(study: Any) -> None:
    """A CPU has no graphs: every sampled step runs without one, and no guard speaks of that."""
    folder, _summary, _stderr = study
    for trial in (t for t in trials(folder) if t["state"] == "complete" and t["duplicate_of"] is None):
        for measurement in trial["measurements"]:
            said = measurement["server"]
            assert said["lines"] >= 10
            assert said["eager_share"] == 1.0
            assert 0.5 * measurement["concurrency"] < said["running"] <= measurement["concurrency"]
            assert said["queued"] < 1
            speculates = trial["configuration"]["speculative_algorithm"] is not None
            assert (said["accept_length"] is not None) is speculates
            guards = {found["guard"] for found in measurement["findings"]}
            assert not guards & {"eager_steps", "graph_ceiling", "queue", "running", "acceptance_disagrees"}


def test_no_right_server_is_taken_for_one_that_answers_something_else(study: Any) -> None:
    folder, _summary, _stderr = study
    assert all(t["findings"] == [] for t in trials(folder))
    assert all(t["failure"]["reason"] != "wrong_answers" for t in trials(folder) if t["failure"] is not None)


def test_nothing_is_left_running(study: Any) -> None:
    assert study
    assert processes_naming(str(KIT / "venv")) == []


def test_mlflow_has_every_trial(study: Any) -> None:
    folder, _summary, _stderr = study
    synced = autotune("sync", cwd=folder)
    assert synced.returncode == 0, synced.stderr
    assert f"0 trials written, {len(trials(folder))} already there" in synced.stdout


def test_the_exported_command_starts_that_server_again_and_it_answers(study: Any) -> None:
    folder, _summary, _stderr = study
    port = free_port()
    exported = autotune("export", "--format", "shell", "--port", str(port), "-o", "start.sh", cwd=folder)
    assert exported.returncode == 0, exported.stderr
    log = (folder / "start.log").open("wb")
    server = subprocess.Popen(["bash", "start.sh"], cwd=folder, env=environment(), stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 240
        while not (status := answers(port)):
            assert server.poll() is None, (folder / "start.log").read_text()[-2000:]
            assert time.monotonic() < deadline, status
            time.sleep(1)
        body = {"text": "def add(a, b):", "sampling_params": {"max_new_tokens": 8, "ignore_eos": True}}
        answer = httpx.post(f"http://127.0.0.1:{port}/generate", json=body, timeout=60).json()
        assert answer["meta_info"]["completion_tokens"] == 8
    finally:
        server.terminate()
        server.wait(timeout=60)
        log.close()


def answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health", timeout=30).status_code == 200
    except httpx.HTTPError:
        return False
