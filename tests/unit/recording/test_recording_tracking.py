"""Where MLflow's store is, and how its pages are served."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.recording import default_tracking, ui_command, ui_url


@pytest.fixture(autouse=True)
def no_tracking_uri(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


def test_the_store_is_absolute_and_its_folder_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    uri, artifacts = default_tracking(Path("mlruns"))
    assert uri == f"sqlite:///{tmp_path.resolve()}/mlruns/mlflow.db"
    assert artifacts == tmp_path.resolve() / "mlruns" / "artifacts"
    assert (tmp_path / "mlruns").is_dir()


def test_a_tracking_uri_of_the_shell_wins_and_makes_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://tracking:5000")
    uri, _artifacts = default_tracking(tmp_path / "store")
    assert uri == "http://tracking:5000"
    assert not (tmp_path / "store").exists()


def test_the_pages_are_served_lean_and_to_this_machine_only(tmp_path: Path) -> None:
    argv, environment = ui_command("/venv/bin/python", "sqlite:////p/mlruns/mlflow.db", tmp_path, port=5055)
    assert argv[:4] == ("/venv/bin/python", "-m", "mlflow", "server")
    options = dict(zip(argv[4::2], argv[5::2], strict=True))
    assert options == {
        "--backend-store-uri": "sqlite:////p/mlruns/mlflow.db",
        "--artifacts-destination": str(tmp_path),
        "--host": "127.0.0.1",
        "--port": "5055",
        "--workers": "1",
    }
    assert environment["MLFLOW_SERVER_ENABLE_JOB_EXECUTION"] == "false"
    assert environment["MLFLOW_DISABLE_TELEMETRY"] == "true"


@pytest.mark.parametrize(
    ("experiment", "page"),
    [
        ("7", "http://127.0.0.1:5000/#/experiments/7/runs?workflowType=machine_learning"),
        (None, "http://127.0.0.1:5000/#/experiments?workflowType=machine_learning"),
    ],
)
def test_the_address_opens_the_pages_of_runs(experiment: str | None, page: str) -> None:
    assert ui_url("127.0.0.1", 5000, experiment) == page
