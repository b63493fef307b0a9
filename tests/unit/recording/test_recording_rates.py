"""A trial at rates, written and read again; and what MLflow is told of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import estimate, level_run, measurement, spec, study_result, trial, workload

from autotune.domain.finding import Effect, Finding
from autotune.domain.level import Rate
from autotune.domain.measurement import Objective, Score
from autotune.domain.pruning import Bound
from autotune.domain.slo import SloCheck
from autotune.domain.trial import TrialResult
from autotune.errors import RunFolderError
from autotune.recording import RunFolder, read_records
from autotune.recording.codec import decode_trial, encode_trial
from autotune.recording.run_content import study_note, trial_content

RATE = Rate(0.5)
FOUND = Finding("rate_not_sustained", Effect.MARK, "in flight grew", RATE, {"rate": 0.5})
SEEN = measurement(9, rate=0.5, goodput=estimate(0.4, 0.05), findings=(FOUND,))


def at_rates(**overrides: Any) -> TrialResult:
    base = trial(
        1,
        measurements=(measurement(10), SEEN),
        score=Score("weighted_goodput", estimate(0.4, 0.05), {10: 0.3, RATE: 0.4}),
        slo=(
            SloCheck("ttft_p95_ms", RATE, 500.0, 812.0, 0.624, 100),
            SloCheck("ttft_p95_ms", 10, 500.0, 400.0, -0.2, 9),
        ),
    )
    return replace(base, **overrides)


def test_a_trial_at_rates_is_read_as_it_was_written() -> None:
    made = at_rates(bound=Bound("weighted_goodput", 0.3, estimate(0.4), 0, (10, RATE), {Rate(4.0): 1.5}))
    data = json.loads(json.dumps(encode_trial(made)))
    assert data["score"]["per_level"] == {"10": 0.3, "0.5 req/s": 0.4}
    assert [check["level"] for check in data["slo"]] == ["0.5 req/s", 10]
    assert decode_trial(data) == made


def test_a_trial_of_levels_is_written_as_it_always_was() -> None:
    data = encode_trial(trial(1, slo=(SloCheck("ttft_p95_ms", 10, 500.0, 400.0, -0.2, 9),)))
    assert data["slo"][0]["level"] == 10
    assert list(data["score"]["per_level"]) == ["1", "10"]
    del data["slo"][0]["sustained"]  # a record of before
    assert decode_trial(data).slo[0].sustained


@pytest.mark.parametrize("level", ["four", "4 rps", "-1 req/s", True, 1.5, [4]])
def test_a_level_that_is_neither_is_refused_with_its_place(level: object) -> None:
    data = encode_trial(at_rates())
    data["slo"][0]["level"] = level
    with pytest.raises(RunFolderError, match=r"trial\.slo\[0\]\.level must be"):
        decode_trial(data)


def test_the_requests_of_a_rate_have_a_file_of_its_own(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, spec(), "study: kimi-eagle3\n", simulated=False)
    paths = [folder.write_records(1, run) for run in (level_run(), level_run(rate=0.5))]
    assert [path.name for path in paths] == ["records-C2.jsonl.gz", "records-R0.5.jsonl.gz"]
    assert read_records(paths[1]).level == RATE


def test_figures_at_a_rate_have_names_of_their_own_at_thousandths_of_a_request(tmp_path: Path) -> None:
    made = at_rates()
    study = replace(
        study_result(trial(0), made),
        spec=spec(objective=Objective("weighted_goodput"), workload=workload(concurrency={10: 1.0}, rates={0.5: 1.0})),
    )
    folder = RunFolder.create(tmp_path, study.spec, "study: kimi-eagle3\n", simulated=False)
    content = trial_content(made, study, folder)
    metrics = {(name, step): value for name, value, step in content.metrics}
    assert metrics["rate.goodput", 500] == 0.4
    assert metrics["rate.slo_violation.ttft_p95_ms", 500] == 0.624
    assert ("rate.ttft_p95_ms", 500) in metrics
    assert metrics["slo_violation.ttft_p95_ms", 10] == -0.2
    assert not [name for name, _step in metrics if name == "goodput"]
    assert content.tags["findings.mark"] == "rate_not_sustained@0.5 req/s"
    assert "C=10 tok/s | 0.5 req/s good req/s" in study_note(study, folder)
