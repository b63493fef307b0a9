"""MLflow as a mirror of the run folder: written as the study runs, caught up when it could not be.

There is one way to write: compare what the folder holds with what MLflow holds, and write what is missing. A trial
that finishes, a study that is gone on with and `autotune sync` all do just that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.domain.study import StudyResult, StudySpec
from autotune.domain.trial import TrialResult
from autotune.errors import AutotuneError
from autotune.recording.recorder import NoMirror, Recorder
from autotune.recording.run_content import experiment_tags, study_note, trial_content, trial_key
from autotune.recording.run_folder import RunFolder
from autotune.recording.tracking import default_tracking, quiet_mlflow

if TYPE_CHECKING:
    from autotune.recording.mlflow_mirror import MlflowStudy

_ERRORS = (AutotuneError, ImportError, OSError, RuntimeError, ValueError, TypeError, LookupError, AttributeError)
"""What another version of MLflow, a broken installation or a store that is away may raise."""


@dataclass(frozen=True)
class SyncReport:
    """Trials written now, and trials that were there before. `problem` is why not all could be, else empty."""

    written: int
    present: int
    uri: str
    problem: str = ""


class MlflowMirror:
    """A Recorder (see there). After a failure it warns, stays silent until the study ends, and tries once more."""

    def __init__(
        self,
        tracking_uri: str,
        artifact_root: Path,
        folder: RunFolder,
        spec: StudySpec,
        warn: Callable[[str], None] = lambda _message: None,
    ) -> None:
        self._link = _Link(tracking_uri, artifact_root, folder, spec)
        self._warn = warn
        self._away = False
        self._warned = False

    def study_started(self, spec: StudySpec, folder: RunFolder) -> None:
        self._link.spec, self._link.folder = spec, folder
        self._attempt(None)

    def trial_finished(self, result: TrialResult) -> None:
        if not self._away:
            self._attempt(None)

    def study_finished(self, result: StudyResult, note: str) -> None:
        self._attempt(note)

    def _attempt(self, note: str | None) -> None:
        try:
            self._link.catch_up(note)
            self._away = False
        except _failures() as error:
            self._away = True
            if not self._warned:
                self._warned = True
                self._warn(f"MLflow cannot be written ({_shown(error)}); the study goes on, `autotune sync` catches up")


def mirror_for(
    mlruns: Path | None, folder: RunFolder, spec: StudySpec, warn: Callable[[str], None]
) -> tuple[Recorder, str | None]:
    """The recorder of a study, and the URI of its store. `mlruns` None, or a folder that cannot be made: no MLflow."""
    if mlruns is None:
        return NoMirror(), None
    try:
        uri, artifacts = default_tracking(mlruns)
    except OSError as error:
        warn(f"MLflow's folder {mlruns} cannot be made ({error.strerror}); `autotune sync` catches up")
        return NoMirror(), None
    return MlflowMirror(uri, artifacts, folder, spec, warn=warn), uri


def sync(
    folder: RunFolder, spec: StudySpec, *, uri: str, artifact_root: Path, note: str, warn: Callable[[str], None]
) -> SyncReport:
    """Writes the trials that MLflow lacks, and the note; a second call writes nothing. Does not raise."""
    link = _Link(uri, artifact_root, folder, spec)
    problem = ""
    try:
        link.catch_up(note)
    except _failures() as error:
        problem = _shown(error)
        warn(f"MLflow cannot be written ({problem}); try again with `autotune sync`")
    return SyncReport(link.written, link.present, uri, problem)


def experiment_id(uri: str, name: str) -> str | None:
    """MLflow's identity of the study whose run folder is `name`; None if it has none, or cannot be asked."""
    try:
        quiet_mlflow()
        from autotune.recording.mlflow_mirror import find_experiment

        return find_experiment(uri, name)
    except _failures():
        return None


class _Link:
    """One run folder and its experiment. `done` are the keys that are known to be written."""

    def __init__(self, uri: str, artifact_root: Path, folder: RunFolder, spec: StudySpec) -> None:
        self.folder, self.spec = folder, spec
        self.written = self.present = 0
        self._uri, self._artifact_root = uri, artifact_root
        self._study: MlflowStudy | None = None
        self._done: set[tuple[str, str]] = set()

    def catch_up(self, note: str | None) -> None:
        """`note` None: a plain table of the trials. Raises what `_failures` lists; it can be called again then."""
        try:
            study = self._study or self._open()
            result = StudyResult(self.spec, self.folder.trials())
            for trial in result.trials:
                key = trial_key({"trial": str(trial.number), "started_at": trial.started_at})
                if key not in self._done:
                    study.write(trial_content(trial, result, self.folder))
                    self._done.add(key)
                    self.written += 1
            tags = experiment_tags(self.spec, result.trials, self.folder)
            study.describe(tags, study_note(result, self.folder) if note is None else note)
        except _failures():
            self._study = None  # what is there is looked at afresh next time
            raise

    def _open(self) -> MlflowStudy:
        quiet_mlflow()
        from autotune.recording.mlflow_mirror import MlflowStudy

        study = MlflowStudy(self._uri, self._artifact_root, self.folder.path.name)
        self._done = study.present()
        self.present = len(self._done)
        self._study = study
        return study


def _failures() -> tuple[type[Exception], ...]:
    try:
        from autotune.recording.mlflow_mirror import FAILURES
    except _ERRORS:
        return _ERRORS
    return _ERRORS + FAILURES


def _shown(error: Exception) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0] if text else 'no message'}"[:300]
