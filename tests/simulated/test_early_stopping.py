"""A trial that is stopped early on the simulated node: server, run folder, report, MLflow, and going on with it.

The screen stops the first trial after the baseline, whatever it shows: when a trial is to be stopped is told elsewhere
(tests/unit/study/test_study_pruning.py), and on a busy machine the simulated figures vary too much to depend on.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from programs import SMALL_SPACE

from autotune import pipeline, spacefile
from autotune.domain.configuration import Configuration
from autotune.domain.measurement import Estimate, Measurement
from autotune.domain.pruning import Bound, LevelScreen
from autotune.domain.trial import Origin, TrialState
from autotune.recording import experiment_id
from autotune.study.early_stopping.screening import Screening


@dataclass(frozen=True)
class AfterTheFirst:
    """Stops a trial once its first level is measured, the highest."""

    order: tuple[int, ...] = (8, 1)

    def bound(self, measurements: Sequence[Measurement]) -> Bound | None:
        (seen,) = measurements
        return Bound("weighted_throughput", 12.5, Estimate(70.0, 68.0, 72.0), 0, (seen.concurrency,), {1: 20.0})


def hopeless_once(self: Screening, configuration: Configuration, origin: Origin) -> LevelScreen | None:
    return AfterTheFirst() if len(self._ledger.results) == 1 and origin is Origin.GREEDY else None


def test_a_stopped_trial_keeps_what_it_measured_and_is_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Screening, "screen", hopeless_once)
    text = SMALL_SPACE.replace(
        "budget: {trials: 5, confirm: off}", "search: {strategy: greedy_tpe}\nbudget: {trials: 2}"
    )
    spec = spacefile.load_text(
        text.replace("trials: 2", "trials: 2, confirm: off, baseline_every: unset"), "small.yaml"
    )
    options = pipeline.Options(runs=tmp_path / "runs", mlruns=tmp_path / "mlruns")
    outcome = pipeline.tune(spec, options)

    _baseline, stopped = outcome.folder.trials()
    assert (stopped.state, stopped.score, stopped.failure) == (TrialState.PRUNED, None, None)
    assert [measurement.concurrency for measurement in stopped.measurements] == [8]
    assert stopped.measurements[0].output_throughput is not None
    assert "stopped after level 8: at most 12.5 tok/s, the best (trial 0) has 70.0 ± 2.0" in stopped.remarks
    records = {path.name for path in (outcome.folder.path / "trials" / "0001").iterdir()}
    assert {name for name in records if name.startswith("records")} == {"records-C8.jsonl.gz"}

    report = (outcome.folder.path / "report.md").read_text()
    assert "## Trials stopped early" in report
    assert "2 trials (1 complete, 1 pruned)" in report
    assert "Trials without figures" not in report

    from autotune.recording.mlflow_mirror import open_client

    uri = f"sqlite:///{tmp_path}/mlruns/mlflow.db"
    runs = open_client(uri).search_runs([experiment_id(uri, outcome.folder.path.name)])
    (run,) = [run for run in runs if run.data.tags["trial"] == "1"]
    assert (run.info.status, run.data.tags["state"], run.data.metrics["objective_at_most"]) == (
        "FINISHED",
        "pruned",
        12.5,
    )

    more = replace(spec, budget=replace(spec.budget, trials=3))
    again = pipeline.tune(more, replace(options, mlruns=None, folder=outcome.folder))
    trials = again.folder.trials()
    assert trials[:2] == outcome.folder.trials()[:2]
    assert len({trial.configuration for trial in trials}) == 3
    assert trials[2].state is TrialState.COMPLETE
    states = [json.loads(line)["state"] for line in (again.folder.path / "trials.jsonl").read_text().splitlines()]
    assert states == ["complete", "pruned", "complete"]


@dataclass(frozen=True)
class WhileItRuns:
    """Finds a level hopeless as long as it runs, and no trial hopeless once a level is over."""

    order: tuple[int, ...] = (8, 1)

    def bound(self, measurements: Sequence[Measurement]) -> Bound | None:
        running = measurements[-1].requests_total == 0
        return Bound("weighted_throughput", 12.5, Estimate(70.0, 68.0, 72.0), 0, (8,)) if running else None


def test_a_level_that_ended_early_in_a_trial_that_was_not_given_up_does_not_pass_for_precise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Screening, "screen", lambda _self, _configuration, _origin: WhileItRuns())
    text = SMALL_SPACE.replace("min_requests: 8", "min_requests: 8\n  precision: 0.1%")
    text = text.replace("budget: {trials: 5,", "budget: {trials: 1, baseline_every: unset,")
    spec = spacefile.load_text(text, "small.yaml")
    (trial,) = pipeline.tune(spec, pipeline.Options(runs=tmp_path / "runs", mlruns=None)).folder.trials()

    assert trial.state is TrialState.COMPLETE
    assert trial.score is not None
    for level, seen in zip(spec.plan().levels, trial.measurements, strict=True):
        assert level.most_requests is not None
        assert level.requests <= seen.requests_total < level.most_requests
        (why,) = [remark for remark in seen.remarks if remark.startswith("ended before the asked precision")]
        assert "at most 12.5 tok/s, the best (trial 0) has 70.0 ± 2.0" in why
        figure = seen.output_throughput
        assert figure is not None
        assert figure.half_width is not None
        assert figure.half_width > 0.001 * figure.value
    half = trial.score.estimate.half_width
    assert half is not None
    assert half > 0.001 * trial.score.estimate.value
