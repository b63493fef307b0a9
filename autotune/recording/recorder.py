"""What is told about a study as it runs. The run folder is written apart from this: it is the truth."""

from __future__ import annotations

from typing import Protocol

from autotune.domain.study import StudyResult, StudySpec
from autotune.domain.trial import TrialResult
from autotune.recording.run_folder import RunFolder


class Recorder(Protocol):
    """Done when tests/contracts/test_recorder_contract.py passes. No method raises: a recorder that fails warns,
    once, and the study goes on."""

    def study_started(self, spec: StudySpec, folder: RunFolder) -> None:
        """Also when a study is gone on with: what `folder` holds and the recorder does not, it catches up."""
        ...

    def trial_finished(self, result: TrialResult) -> None:
        """After `result` was appended to the run folder."""
        ...

    def study_finished(self, result: StudyResult, note: str) -> None:
        """`note` is Markdown that says how the study ended, with its table."""
        ...


class NoMirror:
    """For a study without MLflow: the run folder alone."""

    def study_started(self, spec: StudySpec, folder: RunFolder) -> None:
        pass

    def trial_finished(self, result: TrialResult) -> None:
        pass

    def study_finished(self, result: StudyResult, note: str) -> None:
        pass
