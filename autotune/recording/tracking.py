"""Where MLflow's store is, and how its pages are served. Imports no MLflow."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

_LEAN = {
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # else seven processes of a job runner that nothing here uses
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
}


def default_tracking(mlruns: Path) -> tuple[str, Path]:
    """The store's URI and the folder of artifacts, both absolute and inside `mlruns`; makes it (raises OSError).

    The database is a SQLite file, made when it is first written. MLFLOW_TRACKING_URI, where set, replaces its URI.
    """
    folder = mlruns.resolve()
    uri = os.environ.get("MLFLOW_TRACKING_URI", "").strip()
    if not uri:
        folder.mkdir(parents=True, exist_ok=True)
        uri = f"sqlite:///{folder / 'mlflow.db'}"
    return uri, folder / "artifacts"


def ui_command(
    python: str, uri: str, artifact_root: Path, *, host: str = "127.0.0.1", port: int = 5000
) -> tuple[tuple[str, ...], dict[str, str]]:
    """argv, and what to add to the environment: one worker and no job runner (6 s to start, against 20)."""
    argv = (
        *(python, "-m", "mlflow", "server"),
        *("--backend-store-uri", uri),
        *("--artifacts-destination", str(artifact_root)),
        *("--host", host),
        *("--port", str(port)),
        *("--workers", "1"),
    )
    return argv, dict(_LEAN)


def ui_url(host: str, port: int, experiment_id: str | None = None) -> str:
    """The page of runs; without the last part MLflow opens its pages for generative AI, which show none."""
    where = f"experiments/{experiment_id}/runs" if experiment_id is not None else "experiments"
    return f"http://{host}:{port}/#/{where}?workflowType=machine_learning"


def ui_available() -> bool:
    """Whether MLflow's server is installed: mlflow-skinny has its code, but neither flask nor the pages."""
    if importlib.util.find_spec("flask") is None:
        return False
    package = importlib.util.find_spec("mlflow")  # finds it without importing it
    folders = package.submodule_search_locations if package is not None else None
    return any((Path(folder) / "server" / "js" / "build").is_dir() for folder in folders or ())


def quiet_mlflow() -> None:
    """To be called before MLflow is imported: no telemetry, and a server that is away is not waited for."""
    for name, value in _LEAN.items():
        os.environ.setdefault(name, value)
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
