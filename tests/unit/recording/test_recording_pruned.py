"""A trial that was stopped early, on the disk and in MLflow."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from builders import estimate, measurement, spec, study_result, trial

from autotune.domain.pruning import Bound
from autotune.domain.trial import TrialResult, TrialState
from autotune.recording import RunFolder, decode_trial, encode_trial
from autotune.recording.run_content import RunContent, study_note, trial_content

BOUND = Bound("weighted_throughput", 280.5, estimate(356.6, 1.0), 1, (10,), {1: 88.0})


def pruned() -> TrialResult:
    made = trial(2, measurements=(measurement(10, 300.0),), score=None, bound=BOUND, remarks=(str(BOUND),))
    return replace(made, state=TrialState.PRUNED)


def content(tmp_path: Path) -> RunContent:
    study = study_result(trial(0), trial(1, 356.6), pruned())
    return trial_content(pruned(), study, RunFolder.create(tmp_path, spec(), "", simulated=False))


def test_a_stopped_trial_is_read_back_as_it_was_written() -> None:
    assert decode_trial(json.loads(json.dumps(encode_trial(pruned())))) == pruned()


def test_a_record_of_before_there_were_bounds_is_read() -> None:
    older = encode_trial(trial(1))
    del older["bound"]
    assert decode_trial(older) == trial(1)


def test_mlflow_is_told_that_it_ended_well_at_most_so_and_so(tmp_path: Path) -> None:
    found = content(tmp_path)
    assert (found.status, found.tags["state"]) == ("FINISHED", "pruned")
    assert ("objective_at_most", 280.5, 0) in found.metrics
    assert ("output_throughput", 300.0, 10) in found.metrics
    assert not any(name in ("objective", "speedup_vs_baseline") for name, _value, _step in found.metrics)


def test_the_note_says_why(tmp_path: Path) -> None:
    note = content(tmp_path).tags["mlflow.note.content"]
    assert "stopped after level 10: at most 280.5 tok/s, the best (trial 1) has 356.6 ± 1.0" in note


def test_the_table_of_the_study_shows_the_bound_in_place_of_the_score(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, spec(), "", simulated=False)
    note = study_note(study_result(trial(0), trial(1, 356.6), pruned()), folder)
    (row,) = [line for line in note.splitlines() if line.startswith("| 02")]
    assert "| pruned | at most 280.5 tok/s | – | – | 300 ± 1.2 |" in row
