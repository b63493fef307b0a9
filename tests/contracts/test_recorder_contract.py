"""What every recorder must do, whether or not what is behind it works. A new one is done when this passes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from builders import spec, study_result, trial

from autotune.recording import MlflowMirror, NoMirror, Recorder, RunFolder


@dataclass
class Case:
    """A recorder for a folder, made anew as often as asked; `warnings` is what all of them said."""

    name: str
    make: Callable[[], Recorder]
    folder: RunFolder
    warnings: list[str] = field(default_factory=list)

    @property
    def works(self) -> bool:
        return self.name in ("none", "mlflow")


@pytest.fixture(params=["none", "mlflow", "mlflow without its store", "mlflow not installed"])
def case(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Case:
    name = str(request.param)
    folder = RunFolder.create(tmp_path / "runs", spec(), "", simulated=False)
    warnings: list[str] = []
    store = tmp_path / "mlruns"
    if name == "mlflow without its store":
        store.write_text("a file where the folder should be")
    if name == "mlflow not installed":
        monkeypatch.setitem(sys.modules, "autotune.recording.mlflow_mirror", None)

    def make() -> Recorder:
        if name == "none":
            return NoMirror()
        return MlflowMirror(f"sqlite:///{store}/mlflow.db", store / "artifacts", folder, spec(), warnings.append)

    return Case(name, make, folder, warnings)


def run_study(case: Case, recorder: Recorder) -> None:
    recorder.study_started(spec(), case.folder)
    for result in (trial(0), trial(1, 356.6), trial(2, None)):
        recorder.trial_finished(case.folder.append(result))
    recorder.study_finished(study_result(*case.folder.trials()), "# How it ended")


def test_a_whole_study_is_recorded_or_warned_of_once_and_never_raises(case: Case) -> None:
    run_study(case, case.make())
    assert len(case.warnings) == (0 if case.works else 1)


def test_a_warning_says_that_the_study_goes_on_and_how_to_catch_up(case: Case) -> None:
    run_study(case, case.make())
    assert all("the study goes on" in warning and "autotune sync" in warning for warning in case.warnings)


def test_the_run_folder_is_left_as_it_was(case: Case) -> None:
    run_study(case, case.make())
    assert case.folder.trials() == (trial(0), trial(1, 356.6), trial(2, None))


def test_a_study_can_be_gone_on_with_by_another_recorder(case: Case) -> None:
    first = case.make()
    first.study_started(spec(), case.folder)
    first.trial_finished(case.folder.append(trial(0)))
    case.warnings.clear()
    second = case.make()
    second.study_started(spec(), case.folder)
    second.trial_finished(case.folder.append(trial(1)))
    second.study_finished(study_result(trial(0), trial(1)), "")
    assert len(case.warnings) == (0 if case.works else 1)


def test_a_study_without_any_trial_can_end(case: Case) -> None:
    recorder = case.make()
    recorder.study_started(spec(), case.folder)
    recorder.study_finished(study_result(trial(0)), "")
    assert len(case.warnings) == (0 if case.works else 1)
