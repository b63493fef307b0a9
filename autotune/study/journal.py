"""The study in Optuna's journal file, for Optuna's own tools, and the lock that keeps a study to one process.

trials.jsonl is the truth; the journal mirrors it. Each trial that is launched is asked here before and told after,
so a tuner that is killed leaves one RUNNING trial: it is told FAIL when the study is opened next. Opening also adds
what the recorded results have and the journal lacks. If the two contradict each other, or the journal cannot be read,
it is set aside as `<name>.old` and made anew. A journal that cannot be written is given up with a note, and caught up
when the study is opened next: it never costs a trial.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import filelock
import optuna
from optuna.exceptions import OptunaError
from optuna.samplers import RandomSampler
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import Trial, TrialState

from autotune.domain import trial as words
from autotune.errors import RunFolderError
from autotune.study.ledger import Ledger
from autotune.study.optuna_space import OptunaSpace, attributes, intermediate, outcome


class Journal:
    """Use `open_journal`, which holds the lock."""

    def __init__(self, path: Path, name: str, ledger: Ledger, note: Callable[[str], None]) -> None:
        self._ledger = ledger
        self._space = OptunaSpace(ledger.space)
        self._note = note
        self._study: optuna.Study | None = None
        self._running: Trial | None = None
        with self._writing():
            _mend(path)
            self._study = self._opened(path, name)

    def ask(self, request: words.TrialRequest) -> None:
        """Enters the trial as RUNNING."""
        with self._writing():
            if self._study is not None:
                parameters = self._space.parameters(self._ledger.point(request.configuration)) or {}
                self._study.enqueue_trial(parameters, user_attrs=attributes(request))
                self._running = self._study.ask(self._space.distributions(parameters))

    def tell(self, result: words.TrialResult) -> None:
        """Ends the trial that was asked last."""
        with self._writing():
            if self._study is None or self._running is None:
                return
            state, value, constraints = outcome(result)
            for key, violation in constraints.items():
                self._running.set_constraint(key, violation)
            for step, bound in intermediate(result).items():
                self._running.report(bound, step)
            # Optuna takes a pruned trial's value from its last report, and will not be told it.
            self._study.tell(self._running, None if state is TrialState.PRUNED else value, state=state)
            self._running = None

    def abandon(self) -> None:
        """The trial asked last came to nothing: FAIL."""
        with self._writing():
            if self._study is not None and self._running is not None:
                self._study.tell(self._running, state=TrialState.FAIL)
                self._running = None

    def _opened(self, path: Path, name: str) -> optuna.Study:
        missing: list[words.TrialResult] | None
        try:
            study = _load(path, name)
            missing = self._missing(study)
        except (
            OptunaError,
            ValueError,
            LookupError,
            TypeError,
            AssertionError,
        ) as error:  # a damaged file raises these
            missing = None
            self._note(f"the Optuna journal {path} cannot be read ({error}): made anew from the recorded trials")
        else:
            if missing is None:
                self._note(f"the Optuna journal {path} contradicts the recorded trials: made anew from them")
        if missing is None:
            path.replace(path.with_name(path.name + ".old"))
            study = _load(path, name)
            missing = list(self._ledger.results)
        for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING, TrialState.WAITING)):
            if trial.state is TrialState.WAITING:  # killed between being queued and being asked for
                study.ask()
            study.tell(trial.number, state=TrialState.FAIL)
        for result in missing:
            study.add_trial(self._space.frozen(self._ledger.point(result.configuration), result))
        return study

    def _missing(self, study: optuna.Study) -> list[words.TrialResult] | None:
        """Results that the journal lacks; None if it holds one that was never recorded so. What is FAIL is not
        compared: it taught nothing."""
        told = {
            trial.user_attrs.get("number"): (trial.user_attrs.get("digest"), trial.state, trial.value)
            for trial in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.PRUNED))
        }
        recorded: dict[int | None, tuple[str, TrialState, float | None]] = {}
        for result in self._ledger.results:
            state, value, _constraints = outcome(result)
            if state is not TrialState.FAIL:
                recorded[result.number] = (result.configuration.digest, state, value)
        if any(recorded.get(number) != entry for number, entry in told.items()):
            return None
        return [result for result in self._ledger.results if result.number in recorded and result.number not in told]

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._study = self._running = None
            self._note(f"the Optuna journal cannot be written ({error}); it is caught up when the study is resumed")


@contextmanager
def open_journal(path: Path, name: str, ledger: Ledger, note: Callable[[str], None]) -> Iterator[Journal]:
    """Holds the study for this process until the end. Raises RunFolderError if another process holds it.

    The lock is `<path>.study.lock`; `<path>.lock` is Optuna's own, taken for each write.
    """
    lock = filelock.FileLock(path.with_name(path.name + ".study.lock"))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(blocking=False)
    except filelock.Timeout:
        raise RunFolderError(
            f"another autotune is running this study ({path.parent})",
            hint="wait until it ends, or stop it with Ctrl-C and type the command again",
        ) from None
    except OSError as error:
        raise RunFolderError(
            f"the run folder must be writable, but {path.parent} is not: {error}",
            hint="check the folder's owner and the free space of its disk",
        ) from error
    try:
        yield Journal(path, name, ledger, note)
    finally:
        lock.release()


def _load(path: Path, name: str) -> optuna.Study:
    storage = JournalStorage(JournalFileBackend(str(path)))
    # Configurations come from the search; a sampler that thinks would only cost time when a trial is entered.
    return optuna.create_study(
        storage=storage, study_name=name, direction="maximize", sampler=RandomSampler(), load_if_exists=True
    )


def _mend(path: Path) -> None:
    """After a kill in the middle of a write: the torn last line would spoil the next one, and a lock left behind would
    stop the first write for half a minute. Only called while the study's own lock is held."""
    path.with_name(path.name + ".lock").unlink(missing_ok=True)
    if not path.exists():
        return
    with path.open("rb+") as file:
        content = file.read()
        if content and not content.endswith(b"\n"):
            file.truncate(content.rfind(b"\n") + 1)
