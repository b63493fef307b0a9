"""What MLflow is told of a trial's stand to the SLO."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from builders import estimate, measurement, spec, study_result, trial

from autotune.domain.slo import Slo, SloCheck
from autotune.domain.trial import TrialResult
from autotune.recording import RunFolder
from autotune.recording.run_content import RunContent, trial_content

KEPT = SloCheck("tpot_p95_ms", 1, 30.0, 15.0, -0.5, 100, 14.0, 16.0)
BROKEN = SloCheck("ttft_p95_ms", 10, 500.0, 812.0, 0.624, 100, 700.0, 900.0)
UNSEEN = SloCheck("e2e_p99_s", 10, 20.0, None, None, 0)


def content(tmp_path: Path, found: TrialResult) -> RunContent:
    study = replace(study_result(trial(0), found), spec=spec(slo=Slo({"ttft_p95_ms": 500.0})))
    folder = RunFolder.create(tmp_path, study.spec, "study: kimi-eagle3\n", simulated=False)
    return trial_content(found, study, folder)


def test_violations_are_metrics_by_figure_and_level_and_their_sum_is_one(tmp_path: Path) -> None:
    metrics = content(tmp_path, trial(1, slo=(KEPT, BROKEN))).metrics
    assert {m for m in metrics if m[0].startswith("slo_violation")} == {
        ("slo_violation", 0.624, 0),
        ("slo_violation.tpot_p95_ms", -0.5, 1),
        ("slo_violation.ttft_p95_ms", 0.624, 10),
    }


def test_a_figure_that_was_not_seen_has_no_metric_and_stands_in_the_tag(tmp_path: Path) -> None:
    found = content(tmp_path, trial(1, slo=(UNSEEN,)))
    assert not any(name == "slo_violation.e2e_p99_s" for name, _value, _step in found.metrics)
    assert found.tags["slo"] == "e2e_p99_s at level 10: not seen, and 20 is the bound"


def test_the_tag_and_the_note_say_what_is_broken(tmp_path: Path) -> None:
    found = content(tmp_path, trial(1, slo=(KEPT, BROKEN)))
    assert found.tags["slo"] == "ttft_p95_ms at level 10: 812 > 500"
    assert "**breaks the SLO**: ttft_p95_ms at level 10: 812 > 500" in found.tags["mlflow.note.content"]
    assert content(tmp_path, trial(1, slo=(KEPT,))).tags["slo"] == "kept"


def test_a_study_without_an_slo_says_nothing_of_it(tmp_path: Path) -> None:
    found = content(tmp_path, trial(1))
    assert "slo" not in found.tags
    assert not any(name.startswith("slo") for name, _value, _step in found.metrics)


def test_goodput_is_a_metric_of_its_level(tmp_path: Path) -> None:
    seen = measurement(10, good_share=estimate(0.9, 0.05), goodput=estimate(2.5, 0.1))
    metrics = content(tmp_path, trial(1, measurements=(seen,))).metrics
    assert ("good_share", 0.9, 10) in metrics
    assert ("goodput", 2.5, 10) in metrics
