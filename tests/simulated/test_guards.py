"""Each guard that a simulated node can provoke, through the whole program: what it does to the level and the trial."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from programs import autotune, small_space, trials

SPACE = """\
study: guarded
engine:
  name: simulated
  model: imaginary/model
  args: {tp-size: 8, max-running-requests: 64, stream-interval: 4, decode-log-interval: 2,
         speculative-draft-model-path: imaginary/draft, ARGS}
  node: {speed: SPEED, startup_s: 10, seed: 3, faults: FAULTS}
baseline: {BASELINE}
parameters: {PARAMETERS}
workload: {prompts: coding, max_tokens: TOKENS, min_requests: 20, concurrency: {LEVEL: 1}}
objective: {metric: weighted_throughput}
budget: {trials: BUDGET}
"""


def run(folder: Path, faults: dict[str, Any] | None = None, **values: str) -> tuple[int, dict[str, Any], str]:
    """Status, the last trial, and all that was said. The baseline alone unless PARAMETERS are given."""
    given = {"FAULTS": json.dumps(faults or {}), "ARGS": "", "BASELINE": "", "PARAMETERS": "", "LEVEL": "4"}
    given |= {"BUDGET": "1", "TOKENS": "64", "SPEED": "100", **values}
    text = SPACE
    for name, value in given.items():
        text = text.replace(name, value)
    done = autotune("run", "--space", str(small_space(folder, text)), "--no-mlflow", cwd=folder)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, trials(folder)[-1], done.stdout + done.stderr


def found(trial: dict[str, Any]) -> dict[str, str]:
    """Effect by guard, of the first level and of the trial."""
    return {f["guard"]: f["effect"] for f in [*trial["measurements"][0]["findings"], *trial["findings"]]}


MACHINE = {"client_busy", "node_cpu", "pause"}
"""What these tests cannot help: the machine that they run on."""


def test_a_level_that_nothing_speaks_against_has_no_finding_and_the_logs_figures(tmp_path: Path) -> None:
    status, trial, _said = run(tmp_path)
    assert status == 0
    assert set(found(trial)) <= MACHINE
    (level,) = trial["measurements"]
    assert level["server"]["lines"] >= 3
    assert level["server"]["eager_share"] == 0.0
    assert 2 < level["server"]["running"] <= 4
    assert level["answer_tokens"] == 64


def test_batches_above_the_largest_graph_mark_the_level_and_the_report_says_so(tmp_path: Path) -> None:
    status, trial, said = run(tmp_path, BASELINE="cuda_graph_max_bs: 4", LEVEL="8")
    assert status == 0, said
    assert found(trial)["graph_ceiling"] == "mark"
    assert found(trial)["eager_steps"] == "mark"
    assert trial["measurements"][0]["server"]["eager_share"] > 0.2
    assert trial["score"] is not None
    assert "mark eager_steps, level 8:" in said
    report = (tmp_path / "runs" / "latest" / "report.md").read_text()
    assert "## What the guards found" in report
    assert "| eager_steps |" in report


def test_requests_that_wait_in_the_servers_queue_mark_the_level(tmp_path: Path) -> None:
    status, trial, said = run(tmp_path, ARGS="max-total-tokens: 1700", LEVEL="16")
    assert status == 0, said
    assert found(trial)["queue"] == "mark"
    assert trial["measurements"][0]["server"]["queued"] > 0.8


def test_a_window_too_short_for_a_full_server_is_marked(tmp_path: Path) -> None:
    values = {"ARGS": "max-total-tokens: 6000", "LEVEL": "16", "SPEED": "10", "TOKENS": "512, level_seconds: 20"}
    status, trial, said = run(tmp_path, **values)
    assert status == 0, said
    (level,) = trial["measurements"]
    (short,) = [one for one in level["findings"] if one["guard"] == "short_window"]
    assert short["effect"] == "mark"
    assert short["values"]["window_s"] == level["window_s"]
    assert short["values"]["request_s"] > level["window_s"] / 2
    assert level["output_throughput"] is not None


def test_somebody_elses_requests_void_the_level_and_fail_the_trial_by_circumstance(tmp_path: Path) -> None:
    status, trial, _said = run(tmp_path, {"foreign_requests": 3}, SPEED="25")  # a stop of the machine hides few lines
    assert status == 1
    assert trial["state"] == "failed"
    assert trial["failure"]["reason"] == "level_void"
    assert "it serves somebody else too" in trial["failure"]["message"]
    assert trial["attempts"] == 2
    assert trial["score"] is None
    (level,) = trial["measurements"]
    assert level["output_throughput"] is None
    assert level["ttft_ms"] is None
    (void,) = [f for f in level["findings"] if f["effect"] == "void"]
    assert void["values"]["output_throughput"] > 0


def test_answers_shorter_than_asked_for_void_the_level(tmp_path: Path) -> None:
    status, trial, _said = run(tmp_path, {"short_rate": 0.5})
    assert status == 1
    assert trial["failure"]["reason"] == "wrong_answers"
    assert "64.0 were asked for" in trial["failure"]["message"]


def test_answers_that_loop_mark_the_level(tmp_path: Path) -> None:
    _status, trial, _said = run(tmp_path, {"looping_rate": 1.0})
    assert found(trial)["repetition"] == "mark"
    assert trial["measurements"][0]["looping_share"] == 1.0
    assert trial["score"] is not None


def test_a_server_that_is_another_after_the_last_level_fails_the_trial(tmp_path: Path) -> None:
    status, trial, _said = run(tmp_path, {"serve_as": "another", "serve_as_after_requests": 20})
    assert status == 1
    assert trial["failure"]["reason"] == "wrong_server"
    assert "after the last level the port answers as another" in trial["failure"]["message"]
    assert trial["measurements"] != []
    assert trial["score"] is None


SPECULATING = {
    "BASELINE": "speculative_algorithm: unset",
    "PARAMETERS": "speculative_algorithm: [unset, EAGLE3]",
    "ARGS": "speculative-num-steps: 2, speculative-eagle-topk: 1",
}


def test_a_speculation_that_changes_greedy_text_is_void_also_after_a_resume(tmp_path: Path) -> None:
    _status, baseline, _said = run(tmp_path, {"broken_verification": True}, **SPECULATING)
    assert baseline["state"] == "complete"
    assert baseline["findings"] == []
    done = autotune("run", "--no-mlflow", "--resume", "latest", "--trials", "2", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    trial = trials(tmp_path)[-1]
    assert trial["configuration"] == {"speculative_algorithm": "EAGLE3"}
    assert trial["failure"]["reason"] == "wrong_answers"
    assert "greedy text leaves the baseline's within its first quarter on " in trial["failure"]["message"]
    assert (trial["state"], trial["score"], trial["attempts"]) == ("infeasible", None, 2)
    assert [found["guard"] for found in trial["findings"]] == ["text"]


def test_a_speculation_that_keeps_the_text_is_let_be(tmp_path: Path) -> None:
    _status, trial, _said = run(tmp_path, **SPECULATING, BUDGET="2")
    assert trial["state"] == "complete"
    assert trial["findings"] == []
    texts = json.loads((tmp_path / "runs" / "latest" / "trials" / "0001" / "texts.json").read_text())
    assert len(texts) == 1
    assert len(texts[0]) >= 8


def test_text_is_not_held_against_a_server_that_accepts_drafts_by_decree(tmp_path: Path) -> None:
    pretending = dict(SPECULATING)
    pretending["PARAMETERS"] += (
        ", SGLANG_SIMULATE_ACC_LEN: {env: true, values: [2.0], when: speculative_algorithm != unset}"
    )
    status, _last, said = run(tmp_path, {"broken_verification": True}, **pretending, BUDGET="2")
    assert status == 0, said
    trial = trials(tmp_path)[1]
    assert (trial["pretences"], trial["state"]) == (["SGLANG_SIMULATE_ACC_LEN=2.0"], "complete")
    assert trial["findings"] == []
    assert not (tmp_path / "runs" / "latest" / "trials" / "0001" / "texts.json").exists()


def test_a_level_in_which_the_server_stood_still_is_measured_again_and_the_second_time_stands(tmp_path: Path) -> None:
    # four seconds of the wall, so that a machine that stops for half of one does not hide it
    status, trial, said = run(tmp_path, {"pause_after_requests": 14, "pause_s": 100}, SPEED="25")
    assert status == 0, said
    assert set(found(trial)) <= MACHINE
    (level,) = trial["measurements"]
    (remark,) = [remark for remark in level["remarks"] if remark.startswith("measured twice: ")]
    first = float(remark.split(" and gave ")[1].split(" tok/s")[0])
    assert "no stream had anything for " in remark
    assert first < 0.8 * level["output_throughput"]["value"]


def bench(node: Any, folder: Path) -> Any:
    options = ("--concurrency", "4", "--max-tokens", "32", "--json")
    return autotune("bench", "--url", f"http://127.0.0.1:{node.port}", *options, cwd=folder)


def test_bench_has_the_same_guards(launch: Any, tmp_path: Path) -> None:
    node = launch("--max-running-requests", "2", speed=20, startup_s=1.0, faults={"short_rate": 1.0})
    done = bench(node, tmp_path)
    assert done.returncode == 0, done.stderr
    (level,) = json.loads(done.stdout)["levels"]
    effects = {found["guard"]: found["effect"] for found in level["findings"]}
    assert (effects["request_cap"], effects["answer_length"]) == ("mark", "void")
    assert level["output_throughput"] is None
    assert "mark: the server runs 2 requests at once: the other 2 wait in line" in done.stderr
    assert "void: answers had 16.0 tokens on average, and 32.0 were asked for" in done.stderr


def test_bench_says_when_another_server_answers_after_the_last_level(launch: Any, tmp_path: Path) -> None:
    node = launch(speed=20, startup_s=1.0, faults={"serve_as": "another", "serve_as_after_requests": 5})
    done = bench(node, tmp_path)
    assert done.returncode == 1
    assert "and as another after the last" in done.stderr
