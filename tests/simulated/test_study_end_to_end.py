import json
import shlex
import signal
import subprocess
import time
from pathlib import Path

import httpx
import psutil
import pytest
from programs import autotune, environment, processes_naming, small_space, start_autotune, trials

from autotune.launch import free_port
from autotune.simulated_node.truth import steady_throughput

MEAN_PROMPT_TOKENS = 290  # of the bundled prompts, as the node counts them


def run_small(folder: Path, *more: str) -> "subprocess.CompletedProcess[str]":
    return autotune("run", "--space", str(small_space(folder)), "--no-mlflow", *more, cwd=folder)


def test_a_study_runs_to_its_verdict_and_leaves_nothing_running(tmp_path: Path) -> None:
    done = run_small(tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout.splitlines()[-1])
    assert summary["study"] == "small"
    assert summary["simulated"] is True
    assert summary["verdict"].startswith("[simulated]")
    assert summary["best"]["score"] >= summary["baseline"]["score"]
    assert summary["best"]["interval"][0] <= summary["best"]["score"] <= summary["best"]["interval"][1]
    assert len(trials(tmp_path)) == 5
    assert "SIMULATED" in (Path(tmp_path, summary["run_dir"]) / "report.md").read_text()
    assert processes_naming(str(tmp_path)) == []


def test_the_first_trial_is_the_baseline_and_every_line_of_the_table_has_the_levels_requests(tmp_path: Path) -> None:
    done = run_small(tmp_path, "--trials", "1")
    assert done.returncode == 0, done.stderr
    assert trials(tmp_path)[0]["origin"] == "baseline"
    assert "C=  1 |" in done.stderr
    assert "C=  8 |" in done.stderr
    assert "ok: 40/40" in done.stderr, "5 requests for each of 8 slots"


def test_what_was_measured_agrees_with_what_the_node_says_of_itself(tmp_path: Path) -> None:
    # Slow: at speed 25 the client's turnaround of a few milliseconds on a busy machine was 5 % of a request.
    quiet = ("engine.node.speed=5", "engine.node.startup_s=5", "engine.node.noise=0", "engine.node.launch_noise=0")
    done = run_small(tmp_path, "--trials", "1", *(word for setting in quiet for word in ("--set", setting)))
    assert done.returncode == 0, done.stderr
    (trial,) = trials(tmp_path)
    command = trial["command"]
    for measurement in trial["measurements"]:
        stated = steady_throughput(
            "rtx-pro-6000-x8",
            command["argv"][3:],
            command["environment"],
            measurement["concurrency"],
            max_tokens=64,
            prompt_tokens=MEAN_PROMPT_TOKENS,
        )
        measured = measurement["output_throughput"]["value"]
        assert measured == pytest.approx(stated, rel=0.05), measurement["concurrency"]


def test_an_interrupted_study_says_how_to_go_on_and_does(tmp_path: Path) -> None:
    running = start_autotune("run", "--space", str(small_space(tmp_path)), "--no-mlflow", cwd=tmp_path)
    wait_for(lambda: len(list(tmp_path.glob("runs/*/trials.jsonl"))) > 0 and len(trials(tmp_path)) >= 2)
    running.send_signal(signal.SIGINT)
    _stdout, stderr = running.communicate(timeout=60)
    assert running.returncode == 130, stderr
    assert "--resume" in stderr
    assert processes_naming(str(tmp_path)) == []
    before = trials(tmp_path)
    resumed = autotune("run", "--resume", "latest", "--no-mlflow", "--json", cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    after = trials(tmp_path)
    assert after[: len(before)] == before, "what was recorded stays as it was"
    finished = [t for t in after if t["state"] != "interrupted"]
    assert len(finished) == 5
    configurations = [json.dumps(t["configuration"], sort_keys=True) for t in finished]
    assert len(set(configurations)) == 5, "no configuration twice"
    assert [t["number"] for t in after] == sorted({t["number"] for t in after})


def test_a_killed_tuner_takes_its_server_with_it_and_its_study_can_be_resumed(tmp_path: Path) -> None:
    running = start_autotune(
        "run", "--space", str(small_space(tmp_path)), "--no-mlflow", "--set", "engine.node.speed=5", cwd=tmp_path
    )
    wait_for(lambda: any("simulated_node" in line for line in children_of(running.pid)))
    family = [running.pid, *(child.pid for child in psutil.Process(running.pid).children(recursive=True))]
    running.kill()
    running.communicate(timeout=30)
    wait_for(lambda: not any(psutil.pid_exists(pid) for pid in family), seconds=30)
    resumed = autotune("run", "--resume", "latest", "--no-mlflow", "--trials", "1", cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr


def test_the_exported_command_starts_the_server_again_and_it_answers(tmp_path: Path) -> None:
    assert run_small(tmp_path, "--trials", "2").returncode == 0
    port = free_port()
    script = tmp_path / "start.sh"
    exported = autotune("export", "--format", "shell", "--port", str(port), "-o", str(script), cwd=tmp_path)
    assert exported.returncode == 0, exported.stderr
    assert "imulated" in script.read_text()
    server = subprocess.Popen(
        ["bash", str(script)], env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_for(lambda: answers(port), seconds=30)
        body = {"text": "def add(a, b):", "sampling_params": {"max_new_tokens": 8, "ignore_eos": True}}
        answer = httpx.post(f"http://127.0.0.1:{port}/generate", json=body, timeout=20)
        assert answer.json()["meta_info"]["completion_tokens"] == 8
    finally:
        server.terminate()
        server.wait(timeout=20)


def test_report_studies_and_json_export_read_what_run_wrote(tmp_path: Path) -> None:
    assert run_small(tmp_path, "--trials", "2").returncode == 0
    assert "[simulated]" in autotune("studies", cwd=tmp_path).stdout
    assert "SIMULATED" in autotune("report", "--markdown", cwd=tmp_path).stdout
    exported = json.loads(autotune("export", "--format", "json", "--trial", "0", cwd=tmp_path).stdout)
    recorded = trials(tmp_path)[0]["command"]["argv"]
    assert exported["argv"][:3] == recorded[:3]
    assert exported["simulated"] is True
    env = autotune("export", "--format", "env", "--trial", "1", cwd=tmp_path).stdout
    assert all("=" in line for line in env.splitlines() if line and not line.startswith("#")), shlex.split(env)


def children_of(pid: int) -> list[str]:
    try:
        children = psutil.Process(pid).children(recursive=True)
        return [" ".join(child.cmdline()) for child in children]
    except psutil.NoSuchProcess:
        return []


def answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health", timeout=2).status_code == 200
    except httpx.HTTPError:
        return False


def wait_for(condition: "object", seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, "the condition never held"
        time.sleep(0.05)
