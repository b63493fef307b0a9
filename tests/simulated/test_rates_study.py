"""A study in an open loop: levels are rates, the objective is goodput, and the SLO rules out what falls behind."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from programs import autotune, small_space, trials

from autotune.domain.level import Rate
from autotune.recording import read_records

SPACE = """\
study: arriving
engine:
  name: simulated
  model: imaginary/model
  args: {tp-size: 8}
  node: {name: nvlink-x8, speed: 20, startup_s: 2, seed: 3}
baseline: {max_running_requests: 1}
parameters:
  max_running_requests: [1, 64]
workload: {prompts: coding, max_tokens: 32, rates: {2: 1, 8: 2}}
objective: {metric: weighted_goodput}
slo: {ttft_ms: 2000, 8 req/s: {good_share: 0.5}}
budget: {trials: 2, baseline_every: unset, confirm: off}
"""
"""By the node's law one request of 32 tokens takes about 0.2 s alone: one at a time is less than 8 a second, and 64 at
a time are more."""


def run(folder: Path, *more: str) -> "subprocess.CompletedProcess[str]":
    return autotune("run", "--space", str(small_space(folder, SPACE)), *more, cwd=folder)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One trial; then the study is gone on with, until it ends."""
    folder = tmp_path_factory.mktemp("rates")
    first = run(folder, "--trials", "1")
    assert first.returncode == 0, first.stderr
    more = autotune("run", "--resume", "latest", "--trials", "2", cwd=folder)
    assert more.returncode == 0, more.stderr
    (folder / "said.txt").write_text(more.stdout + more.stderr)
    return folder


def data(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(autotune("report", "--json", cwd=folder).stdout)
    return found


def test_the_study_ends_in_a_verdict_for_what_sustains_the_rates(finished: Path) -> None:
    said = (finished / "said.txt").read_text()
    assert "rate 8/s | C=" in said
    verdict = next(line for line in said.splitlines() if line.startswith("verdict: "))
    assert "trial 1 is the best that keeps to the SLO" in verdict
    found = data(finished)
    assert found["best"]["trial"] == 1
    assert [(one["rate"], one["trial"]) for one in found["best_per_level"]][-1] == (8.0, 1)
    assert found["front"] == []
    assert found["slo"]["breaking"]["0"][0]["rate"] == 8.0


def test_every_trial_measured_both_rates_and_its_score_is_their_goodput(finished: Path) -> None:
    baseline, wide = trials(finished)
    assert [m["rate"] for m in wide["measurements"]] == [2.0, 8.0]
    goodput = {str(Rate(m["rate"])): m["goodput"]["value"] for m in wide["measurements"]}
    assert wide["score"]["per_level"] == pytest.approx(goodput)
    assert wide["score"]["estimate"]["value"] == pytest.approx((goodput["2 req/s"] + 2 * goodput["8 req/s"]) / 3)
    assert goodput["8 req/s"] == pytest.approx(8.0, rel=0.2)
    assert baseline["score"]["estimate"]["value"] < 0.8 * wide["score"]["estimate"]["value"]


def test_a_rate_above_what_the_server_sustains_is_a_finding_and_no_failure(finished: Path) -> None:
    baseline, wide = trials(finished)
    assert [t["state"] for t in (baseline, wide)] == ["complete", "complete"]
    found = {f["guard"]: f["level"] for f in baseline["measurements"][1]["findings"]}
    assert found["rate_not_sustained"] == "8 req/s"
    (check,) = baseline["slo"]
    assert (check["level"], check["figure"], check["sustained"]) == ("8 req/s", "good_share", False)
    assert "rate_not_sustained" not in {f["guard"] for f in wide["measurements"][1]["findings"]}


def test_the_requests_of_each_rate_are_read_again(finished: Path) -> None:
    folder = finished / "runs" / "latest" / "trials" / "0001"
    read = {path.name: read_records(path) for path in folder.glob("records-*")}
    assert read.keys() == {"records-R2.jsonl.gz", "records-R8.jsonl.gz"}
    run_at = read["records-R8.jsonl.gz"]
    assert run_at.level == Rate(8.0)
    assert sum(not record.warmup for record in run_at.records) >= 60
    prompts = [record.prompt for level in read.values() for record in level.records]
    assert len(set(prompts)) == len(prompts)


def test_the_report_is_of_rates_and_the_best_at_one_is_exported(finished: Path) -> None:
    report = (finished / "runs" / "latest" / "report.md").read_text()
    assert "Goodput at rates, good requests/s (95 % intervals)." in report
    assert "not sustained" in report
    exported = autotune("export", "--rate", "8", cwd=finished)
    assert "--max-running-requests 64" in exported.stdout
    assert "highest goodput at 8 req/s" in exported.stdout
    assert "it has no 5 req/s" in autotune("export", "--rate", "5", cwd=finished).stderr
    assert "give one of them" in autotune("export", "--rate", "8", "--level", "8", cwd=finished).stderr


def test_mlflow_has_figures_at_each_rate_and_nothing_is_left_to_sync(finished: Path) -> None:
    synced = autotune("sync", cwd=finished)
    assert "0 trials written, 2 already there" in synced.stdout, synced.stdout + synced.stderr


def test_check_says_what_a_study_of_rates_costs(tmp_path: Path) -> None:
    shown = autotune("check", "--space", str(small_space(tmp_path, SPACE)), cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "8 req/s            2        60" in shown.stdout
    assert "8 req/s: good_share ≥ 0.5, good: ttft_ms ≤ 2000" in shown.stdout


def test_levels_and_rates_are_measured_in_one_study(tmp_path: Path) -> None:
    both = ("--set", "workload.concurrency={1: 1}", "--set", "workload.rates={8: 1}", "--trials", "1")
    done = run(tmp_path, *both, "--set", "baseline.max_running_requests=64", "--no-mlflow", "--json")
    assert done.returncode == 0, done.stderr
    (only,) = trials(tmp_path)
    assert only["score"]["per_level"].keys() == {"1", "8 req/s"}
    assert [m["rate"] for m in only["measurements"]] == [None, 8.0]
