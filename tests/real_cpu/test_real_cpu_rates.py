"""A study in an open loop, beside a closed one, on a real SGLang on the CPU."""

import os
from pathlib import Path

import pytest
from programs import autotune, small_space, trials

from autotune.domain.level import Rate
from autotune.recording import read_records

pytestmark = pytest.mark.real_cpu
KIT = Path(os.environ.get("AUTOTUNE_REAL_CPU", "/nonexistent"))

SPACE = f"""\
study: arriving
engine:
  name: sglang
  python: {KIT}/venv/bin/python
  model: {KIT}/models/tiny8
  args: {{device: cpu, max-total-tokens: 8192, max-running-requests: 8, random-seed: 1}}
  env: {{OMP_NUM_THREADS: "1", SGLANG_USE_CPU_ENGINE: "1"}}
parameters:
  attention_backend: [torch_native]
baseline: {{attention_backend: torch_native}}
workload: {{prompts: coding, max_tokens: 8, concurrency: {{1: 1}}, rates: {{2: 1}}}}
objective: {{metric: weighted_goodput}}
slo: {{e2e_s: 60}}
budget: {{trials: 1, confirm: off}}
"""


def test_a_study_measures_a_level_and_a_rate_of_one_server(tmp_path: Path) -> None:
    done = autotune("run", "--space", str(small_space(tmp_path, SPACE)), "--no-mlflow", cwd=tmp_path, timeout=1200)
    assert done.returncode == 0, done.stderr
    (trial,) = trials(tmp_path)
    level, rate = trial["measurements"]
    assert (level["concurrency"], level["rate"], rate["rate"]) == (1, None, 2.0)
    assert rate["requests_ok"] == rate["requests_total"] >= 60
    assert rate["goodput"]["value"] == pytest.approx(2.0 * rate["good_share"]["value"], rel=0.01)
    (path,) = (tmp_path / "runs" / "latest" / "trials" / "0000").glob("records-R2.*")
    run = read_records(path)
    assert run.level == Rate(2.0)
    assert run.window is not None
    sent = [record.sent_s for record in run.records if run.window[0] <= record.sent_s < run.window[1]]
    # 60 arrivals of a Poisson process
    assert len(sent) / (run.window[1] - run.window[0]) == pytest.approx(2.0, rel=0.5)
