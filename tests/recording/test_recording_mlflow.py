"""A real MLflow on a SQLite file: what it holds after a study, after a kill, and after `sync`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from builders import command, spec, study_result, trial

from autotune.domain.study import StudySpec
from autotune.domain.trial import TrialState
from autotune.recording import MlflowMirror, RunFolder, SyncReport, default_tracking, experiment_id, sync, ui_available


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """One database for all tests of this file (making one takes seconds), in a folder with a space in its name."""
    folder = tmp_path_factory.mktemp("ml runs")
    return f"sqlite:///{folder}/mlflow.db", folder / "artifacts"


@pytest.fixture
def study(request: pytest.FixtureRequest) -> StudySpec:
    """Each test has a study, and so an experiment, of its own."""
    return spec(name=str(request.node.name)[:80])


@pytest.fixture
def folder(study: StudySpec, tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path / "runs", study, "", simulated=True)


def synced(folder: RunFolder, study: StudySpec, store: tuple[str, Path]) -> SyncReport:
    warnings: list[str] = []
    report = sync(folder, study, uri=store[0], artifact_root=store[1], note="# Note", warn=warnings.append)
    assert warnings == []
    return report


def client_of(store: tuple[str, Path]):  # type: ignore[no-untyped-def]  # MLflow is imported by the test that asks
    from autotune.recording.mlflow_mirror import open_client

    return open_client(store[0])


def runs_of(folder: RunFolder, store: tuple[str, Path]):  # type: ignore[no-untyped-def]
    experiment = experiment_id(store[0], folder.path.name)
    return client_of(store).search_runs([experiment], order_by=["tags.trial"])


def test_a_mirrored_study_is_in_mlflow_as_it_ran(folder: RunFolder, study: StudySpec, store: tuple[str, Path]) -> None:
    warnings: list[str] = []
    mirror = MlflowMirror(*store, folder, study, warnings.append)
    mirror.study_started(study, folder)
    results = (trial(0), trial(1, 356.31), trial(2, None), trial(3, state=TrialState.INTERRUPTED, score=None))
    for result in results:
        (folder.trial_folder(result.number) / "server.log").write_text("ready\n")
        mirror.trial_finished(folder.append(result))
    mirror.study_finished(study_result(*results, spec=study), "# How it ended")
    assert warnings == []

    runs = runs_of(folder, store)
    assert [run.info.status for run in runs] == ["FINISHED", "FINISHED", "FAILED", "KILLED"]
    best = runs[1]
    assert best.data.metrics["speedup_vs_baseline"] == pytest.approx(1.07)
    assert best.data.params["speculative_algorithm"] == "EAGLE3"
    assert best.data.tags["simulated"] == "true"
    assert best.info.end_time - best.info.start_time == 300_000
    curve = client_of(store).get_metric_history(best.info.run_id, "output_throughput")
    assert [point.step for point in curve] == [1, 10]
    names = {item.path for item in client_of(store).list_artifacts(best.info.run_id)}
    assert names == {"launch_command.json", "server.log"}
    assert best.info.artifact_uri.startswith(store[1].as_uri())


def test_the_experiment_is_described(folder: RunFolder, study: StudySpec, store: tuple[str, Path]) -> None:
    folder.append(trial(0))
    synced(folder, study, store)
    experiment = client_of(store).get_experiment(experiment_id(store[0], folder.path.name))
    assert experiment.name == folder.path.name
    assert experiment.tags["mlflow.note.content"] == "# Note"
    assert experiment.tags["simulated"] == "true"
    assert experiment.tags["engine_version"] == "0.5.23"


def test_sync_writes_what_is_missing_and_the_second_time_nothing(
    folder: RunFolder, study: StudySpec, store: tuple[str, Path]
) -> None:
    folder.append(trial(0))
    MlflowMirror(*store, folder, study).study_started(study, folder)
    folder.append(trial(1))
    folder.append(trial(2, None))
    assert synced(folder, study, store) == SyncReport(written=2, present=1, uri=store[0])
    assert synced(folder, study, store) == SyncReport(written=0, present=3, uri=store[0])
    assert len(runs_of(folder, store)) == 3


def test_a_run_that_a_kill_left_unfinished_is_written_again(
    folder: RunFolder, study: StudySpec, store: tuple[str, Path]
) -> None:
    result = folder.append(trial(0))
    synced(folder, study, store)
    (run,) = runs_of(folder, store)
    client_of(store).update_run(run.info.run_id, status="RUNNING")
    assert synced(folder, study, store).written == 1
    (again,) = runs_of(folder, store)
    assert again.info.status == "FINISHED"
    assert again.data.metrics["objective"] == result.score.estimate.value  # type: ignore[union-attr]


def test_a_study_deleted_in_the_pages_comes_back_with_sync(
    folder: RunFolder, study: StudySpec, store: tuple[str, Path]
) -> None:
    folder.append(trial(0))
    synced(folder, study, store)
    client_of(store).delete_experiment(experiment_id(store[0], folder.path.name))
    synced(folder, study, store)
    assert [run.info.lifecycle_stage for run in runs_of(folder, store)] == ["active"]


def test_no_secret_reaches_the_store(folder: RunFolder, study: StudySpec, store: tuple[str, Path]) -> None:
    key = "s3cr3t-value"
    (folder.trial_folder(0) / "server.log").write_text(f"ServerArgs(api_key='{key}')\n")
    folder.append(trial(0, command=command("--api-key", key, environment={"HF_TOKEN": key})))
    synced(folder, study, store)
    (run,) = runs_of(folder, store)
    written = [*store[1].joinpath(run.info.run_id).rglob("*"), Path(store[0].removeprefix("sqlite:///"))]
    assert {path.name for path in written} >= {"server.log", "launch_command.json", "mlflow.db"}
    assert [path.name for path in written if path.is_file() and key.encode() in path.read_bytes()] == []


def test_a_long_note_is_cut_at_a_line(folder: RunFolder, study: StudySpec, store: tuple[str, Path]) -> None:
    note = "# Note\n" + "| a row of the table |\n" * 2000
    report = sync(folder, study, uri=store[0], artifact_root=store[1], note=note, warn=pytest.fail)
    assert report.problem == ""
    experiment = client_of(store).get_experiment(experiment_id(store[0], folder.path.name))
    kept = experiment.tags["mlflow.note.content"].splitlines()
    assert set(kept[1:-2]) == {"| a row of the table |"}
    assert kept[-1] == f"({2001 - (len(kept) - 2)} more lines stand in the run folder's report.md)"


def test_a_mirror_whose_store_comes_back_catches_up_when_the_study_ends(
    folder: RunFolder, study: StudySpec, tmp_path: Path
) -> None:
    warnings: list[str] = []
    blocker = tmp_path / "mlruns"
    blocker.write_text("a file where the folder should be")
    uri = f"sqlite:///{blocker}/mlflow.db"
    mirror = MlflowMirror(uri, blocker / "artifacts", folder, study, warnings.append)
    mirror.study_started(study, folder)
    mirror.trial_finished(folder.append(trial(0)))
    blocker.unlink()
    mirror.study_finished(study_result(trial(0), spec=study), "")
    assert len(warnings) == 1
    assert len(runs_of(folder, (uri, blocker / "artifacts"))) == 1


def test_asking_for_an_experiment_makes_no_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    uri, _artifacts = default_tracking(tmp_path)
    assert experiment_id(uri, "nothing") is None
    assert list(tmp_path.iterdir()) == []


def test_importing_the_room_imports_no_mlflow() -> None:
    program = "import sys, autotune.recording as r; r.ui_available(); print('mlflow' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "False"


def test_the_pages_are_said_to_be_there_only_with_all_of_mlflow() -> None:
    import importlib.metadata

    installed = {str(found.metadata["Name"]).lower() for found in importlib.metadata.distributions()}
    assert ui_available() is ("mlflow" in installed)
