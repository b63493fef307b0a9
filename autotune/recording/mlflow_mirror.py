"""All that speaks MLflow. Imports it, so nobody imports this module at start: see mirror.py.

One experiment a study, named as its run folder; one top-level run a trial (nested runs fold away in MLflow's pages
and empty their charts).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from warnings import catch_warnings, filterwarnings

from alembic.util.exc import CommandError
from filelock import FileLock
from mlflow import MlflowClient
from mlflow.entities import Metric, Param, Run
from mlflow.exceptions import MlflowException
from sqlalchemy.exc import SQLAlchemyError

from autotune.recording.run_content import NOTE_TAG, RunContent, trial_key

FAILURES: tuple[type[Exception], ...] = (MlflowException, SQLAlchemyError, CommandError)
"""What MLflow and the libraries under it raise of their own, beside Python's errors."""

_SQLITE = "sqlite:///"
_LOCK_PATIENCE_S = 60.0
_PAGE = 1000
_ENDED = frozenset({"FINISHED", "FAILED", "KILLED"})
_NOTE_LENGTH = 19_000  # MLflow's own bound on a tag of an experiment is 20000 characters


class MlflowStudy:
    """The experiment of one study. Every method may raise what is in FAILURES, and OSError."""

    def __init__(self, uri: str, artifact_root: Path, name: str) -> None:
        self._client = open_client(uri)
        self._experiment = self._ensure(uri, artifact_root, name)

    def present(self) -> set[tuple[str, str]]:
        """Keys of the trials that are wholly written. A run that a kill left unfinished is deleted on the way."""
        found = set()
        for run in self._runs():
            if run.info.status in _ENDED:
                found.add(trial_key(run.data.tags))
            elif "trial" in run.data.tags:
                self._client.delete_run(run.info.run_id)
        return found

    def write(self, content: RunContent) -> None:
        """One trial: the run, its figures in one batch, its artifacts; it ends last, which marks it as whole."""
        run = self._client.create_run(
            self._experiment, start_time=content.start_ms, run_name=content.name, tags=dict(content.tags)
        )
        identity = run.info.run_id
        params = [Param(name, value) for name, value in content.params.items()]
        metrics = [Metric(name, value, content.end_ms, step) for name, value, step in content.metrics]
        self._client.log_batch(identity, metrics=metrics, params=params)
        for name, text in content.texts.items():
            self._client.log_text(identity, text, name)
        self._client.set_terminated(identity, content.status, end_time=content.end_ms)

    def describe(self, tags: Mapping[str, str], note: str) -> None:
        for name, value in {**tags, NOTE_TAG: _fitting(note)}.items():
            self._client.set_experiment_tag(self._experiment, name, value)

    def _ensure(self, uri: str, artifact_root: Path, name: str) -> str:
        """A server keeps artifacts where it likes; beside a database they need a place of their own."""
        found = self._client.get_experiment_by_name(name)
        if found is None:
            location = None if uri.startswith(("http:", "https:")) else artifact_root.resolve().as_uri()
            return str(self._client.create_experiment(name, artifact_location=location))
        if found.lifecycle_stage == "deleted":
            self._client.restore_experiment(found.experiment_id)
        return str(found.experiment_id)

    def _runs(self) -> Iterator[Run]:
        token: str | None = None
        while True:
            page = self._client.search_runs([self._experiment], max_results=_PAGE, page_token=token)
            yield from page
            token = page.token
            if not token:
                return


def _fitting(note: str) -> str:
    """Whole lines, as many as MLflow takes."""
    if len(note) <= _NOTE_LENGTH:
        return note
    kept = note[:_NOTE_LENGTH].rpartition("\n")[0]
    left_out = len(note.splitlines()) - len(kept.splitlines())
    return f"{kept}\n\n({left_out} more lines stand in the run folder's report.md)"


def open_client(uri: str) -> MlflowClient:
    """Two processes that both make the database's tables fail, so a SQLite file is opened one at a time."""
    for noisy in ("mlflow", "alembic"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    path = sqlite_path(uri)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
    lock = nullcontext() if path is None else FileLock(f"{path}.lock", timeout=_LOCK_PATIENCE_S)
    with lock, _known_warnings():
        return MlflowClient(uri)


def find_experiment(uri: str, name: str) -> str | None:
    path = sqlite_path(uri)
    if path is not None and not path.is_file():
        return None
    found = open_client(uri).get_experiment_by_name(name)
    return None if found is None else str(found.experiment_id)


def sqlite_path(uri: str) -> Path | None:
    """The file of a `sqlite:///` URI (absolute ones have four slashes); None for any other store."""
    return Path(uri.removeprefix(_SQLITE)) if uri.startswith(_SQLITE) else None


@contextmanager
def _known_warnings() -> Iterator[None]:
    """MLflow 3.17 maps its tables with an option that SQLAlchemy 2.1 has deprecated."""
    with catch_warnings():
        filterwarnings("ignore", message=r"The ``noload`` loader strategy is deprecated", category=DeprecationWarning)
        yield
