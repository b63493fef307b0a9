"""A server that misbehaves costs its trial, with the right reason, and never the study."""

import json
from pathlib import Path
from typing import Any

import pytest
from programs import autotune, processes_naming, small_space, trials

BASELINE_ONLY = """\
study: faulty
engine:
  name: simulated
  model: imaginary/model
  args: {tp-size: 8, max-running-requests: 64, stream-interval: 4}
  node: {speed: 200, startup_s: 10, faults: FAULTS}
baseline: {}
parameters: {}
workload: {prompts: coding, max_tokens: 32, min_requests: 8, concurrency: {4: 1}}
objective: {metric: weighted_throughput}
budget: {trials: 1}
limits: {silence_s: 4000, start_s: 6000, request_patience_s: 1200, stop_grace_s: 2}
"""


def run_faulty(folder: Path, faults: dict[str, Any], *more: str) -> tuple[int, dict[str, Any], str]:
    path = small_space(folder, BASELINE_ONLY.replace("FAULTS", json.dumps(faults)))
    done = autotune("run", "--space", str(path), "--no-mlflow", *more, cwd=folder)
    assert processes_naming(str(folder)) == []
    return done.returncode, trials(folder)[-1], done.stderr


@pytest.mark.parametrize(
    ("faults", "reasons"),
    [
        ({"die_at_start": "oom"}, {"out_of_memory_capture"}),
        ({"die_at_start": "exception"}, {"died_starting"}),
        ({"die_after_requests": 6}, {"engine_bug"}),
        ({"hang_after_requests": 6}, {"stuck_but_healthy"}),
        ({"hang_at_start": True}, {"stuck_starting"}),
        ({"serve_as": "another-model"}, {"wrong_server"}),
        ({"error_rate": 0.5}, {"requests_failed"}),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_misbehaving_server_fails_its_trial_with_its_reason(
    tmp_path: Path, faults: dict[str, Any], reasons: set[str]
) -> None:
    status, trial, stderr = run_faulty(tmp_path, faults)
    assert trial["failure"]["reason"] in reasons, trial["failure"]
    assert trial["score"] is None
    assert trial["failure"]["evidence"] or trial["failure"]["message"]
    assert status == 1, "without a baseline there is nothing to compare with"
    assert "Traceback" not in stderr


def test_a_server_that_ignores_sigterm_is_killed_and_the_trial_counts(tmp_path: Path) -> None:
    status, trial, stderr = run_faulty(tmp_path, {"ignore_sigterm": True, "orphan": True})
    assert status == 0, stderr
    assert trial["state"] == "complete"
    assert any("killed" in remark for remark in trial["remarks"])


REFUSED = """\
study: refused
engine:
  name: simulated
  model: imaginary/model
  args: {tp-size: 8, max-running-requests: 64, stream-interval: 4}
  node: {speed: 200, startup_s: 10}
baseline: {attention_backend: flashinfer}
parameters:
  attention_backend: [flashinfer, fa3]
workload: {prompts: coding, max_tokens: 32, min_requests: 8, concurrency: {4: 1}}
objective: {metric: weighted_throughput}
budget: {trials: 9, confirm: off}
"""


def test_a_configuration_that_the_server_refuses_is_infeasible_and_the_study_goes_on(tmp_path: Path) -> None:
    done = autotune("run", "--space", str(small_space(tmp_path, REFUSED)), "--no-mlflow", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    baseline, refused = trials(tmp_path)
    assert baseline["state"] == "complete"
    assert refused["state"] == "infeasible"
    assert refused["failure"]["reason"] == "unsupported_hardware"
    assert "FlashAttention v3" in refused["failure"]["evidence"]
    assert json.loads(done.stdout)["best"]["trial"] == 0
