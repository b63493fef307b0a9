"""The run folder of a study: `trials.jsonl` is the truth, everything else is beside it.

runs/kimi-eagle3-20260131-235959/
    run.json          what this folder is (schema, study, simulated, when)
    study.yaml        the space file as resolved
    trials.jsonl      one line per finished trial, only ever appended to
    prompts.json      how many prompts have been given out
    journal.log       Optuna's
    trials/0007/      server.log, server_info.json, command.json, records-C10.jsonl.gz, texts.json
    report.md
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from autotune import __version__
from autotune.domain.level import in_file_name
from autotune.domain.measurement import LevelRun
from autotune.domain.study import StudySpec
from autotune.domain.trial import TrialResult
from autotune.errors import RunFolderError
from autotune.recording import folder_names
from autotune.recording.codec import decode_trial, encode_trial
from autotune.recording.files import stopping_the_study, write_whole
from autotune.recording.request_records import encode_level
from autotune.recording.secrets import mask_text, mask_yaml

SCHEMA_VERSION = 1
MARKER = "run.json"


@dataclass(frozen=True)
class RunFolder:
    """`created_at` is ISO 8601, UTC. Everything written here is written whole; secrets are masked (secrets.py).

    Whatever writes raises StudyStopped if the disk is full or the folder is not writable.
    """

    path: Path
    study: str
    simulated: bool
    created_at: str

    @classmethod
    def create(
        cls, root: Path, spec: StudySpec, study_yaml: str, *, simulated: bool, now: datetime | None = None
    ) -> RunFolder:
        """A new folder `root`/<study>[-simulated]-<local time>[-n], and `root`/latest pointing at it."""
        moment = now or datetime.now().astimezone()
        with stopping_the_study(root, lambda: "nothing was started"):
            root.mkdir(parents=True, exist_ok=True)
            path = folder_names.reserve(root, spec.name, moment, simulated=simulated)
            marker = {
                "schema_version": SCHEMA_VERSION,
                "study": spec.name,
                "simulated": simulated,
                "created_at": moment.astimezone(UTC).isoformat(timespec="microseconds"),
                "autotune": __version__,
            }
            write_whole(path / "study.yaml", mask_yaml(study_yaml).encode())
            write_whole(path / MARKER, _document(marker))
            folder_names.point_latest(root, path)
        return cls.open(path)

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Raises RunFolderError if `path` is not a run folder, or is one of a newer schema."""
        path = path.resolve()
        try:
            marker = json.loads((path / MARKER).read_bytes())
            version, study = marker["schema_version"], marker["study"]
            simulated, created_at = marker["simulated"], marker["created_at"]
        except FileNotFoundError:
            raise RunFolderError(
                f"a run folder must hold {MARKER}, but {path} does not", hint="`autotune studies` lists what is there"
            ) from None
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise RunFolderError(f"{path / MARKER} must describe a run folder, but cannot be read: {error}") from error
        if version > SCHEMA_VERSION:
            raise RunFolderError(
                f"{path}: this version reads run folders of schema {SCHEMA_VERSION}, but got {version}",
                hint="upgrade autotune, or use the version that recorded the study",
            )
        return cls(path, study, simulated, created_at)

    @classmethod
    def all(cls, root: Path) -> tuple[RunFolder, ...]:
        """Oldest first. Empty if there is no such folder; what is not a run folder is passed over."""
        if not root.is_dir():
            return ()
        found = [cls.open(path) for path in root.iterdir() if not path.is_symlink() and (path / MARKER).is_file()]
        return tuple(sorted(found, key=lambda folder: (folder.created_at, folder.path.name)))

    @classmethod
    def find(cls, root: Path, name_or_path: str | None) -> RunFolder:
        """By path, by name, or by the start of a name that only one has; None is the newest."""
        if name_or_path is not None:
            for path in (root / name_or_path, Path(name_or_path)):
                if (path / MARKER).is_file():
                    return cls.open(path)
        folders = cls.all(root)
        if not folders:
            raise RunFolderError(
                f"{root} must hold a study, but there is none", hint="start one: autotune run --space FILE"
            )
        if name_or_path is None:
            return folders[-1]
        fitting = [folder for folder in folders if folder.path.name.startswith(name_or_path)]
        if len(fitting) == 1:
            return fitting[0]
        names = ", ".join(folder.path.name for folder in (fitting or folders)[-5:])
        problem = f"{len(fitting)} studies begin so" if fitting else "no study begins so"
        raise RunFolderError(
            f"one study in {root} must begin with {name_or_path!r}, but {problem}", hint=f"the newest of them: {names}"
        )

    @property
    def journal_path(self) -> Path:
        return self.path / "journal.log"

    @property
    def trials_path(self) -> Path:
        return self.path / "trials.jsonl"

    def study_yaml(self) -> str:
        """As resolved when the study began; a secret in it reads `'***'`."""
        return self._read("study.yaml").decode()

    @contextmanager
    def hold(self) -> Iterator[None]:
        """One writer a study: raises RunFolderError if another process holds it. The lock dies with its process."""
        from filelock import FileLock, Timeout

        lock = FileLock(self.path / ".lock", timeout=0)
        with self._writing(self.path):
            try:
                lock.acquire()
            except Timeout:
                raise RunFolderError(
                    f"{self.path.name} must have one writer, but another autotune is running it",
                    hint="wait for it, or stop it; without --resume a new study is begun",
                ) from None
        try:
            yield
        finally:
            lock.release()

    def append(self, result: TrialResult) -> TrialResult:
        """Adds one line to trials.jsonl and flushes it to the disk; returns the trial as stored.

        What a kill left half-written at the end of the file is cut off first, and the trial says so in a remark.
        """
        with self._writing(self.trials_path):
            if cut := self._cut_half_written():
                remark = f"{cut} bytes of a half-written record before this one were cut off"
                result = replace(result, remarks=(*result.remarks, remark))
            data = encode_trial(result)
            if data["command"] is not None:
                write_whole(self.trial_folder(result.number) / "command.json", _document(data["command"]))
            line = json.dumps(data, separators=(",", ":"), allow_nan=False).encode() + b"\n"
            with self.trials_path.open("ab") as file:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        return decode_trial(data)

    def trials(self) -> tuple[TrialResult, ...]:
        """In the order in which they ran. A half-written last line is passed over; any other damage raises
        RunFolderError with the line."""
        data = self._read("trials.jsonl") if self.trials_path.exists() else b""
        whole = data[: data.rfind(b"\n") + 1]
        found = []
        for number, line in enumerate(whole.splitlines(), start=1):
            try:
                found.append(decode_trial(json.loads(line)))
            except (ValueError, TypeError) as error:
                raise RunFolderError(
                    f"{self.trials_path}:{number}: must be the record of a trial, but cannot be read: {error}",
                    hint="put that line aside (the trial is then run again), and try again",
                ) from error
            except RunFolderError as error:
                raise RunFolderError(f"{self.trials_path}:{number}: {error.message}", hint=error.hint) from error
        return tuple(found)

    def trial_folder(self, number: int) -> Path:
        """trials/0007, made if it is not there."""
        path = self.path / "trials" / f"{number:04d}"
        with self._writing(path):
            path.mkdir(parents=True, exist_ok=True)
        return path

    def write_server_info(self, number: int, attempt: int, text: str) -> None:
        """`attempt` counts from 1; a second one has a file of its own, as its log has."""
        self._write(self.trial_folder(number) / folder_names.attempt_file("server_info.json", attempt), mask_text(text))

    def write_records(self, number: int, run: LevelRun) -> Path:
        """See `read_records`. A later attempt replaces an earlier one's."""
        path = self.trial_folder(number) / f"records-{in_file_name(run.level)}.jsonl.gz"
        with self._writing(path):
            write_whole(path, encode_level(run))
        return path

    def write_texts(self, number: int, texts: Sequence[Mapping[str, str]]) -> None:
        """What a trial answered to the prompts of the text check: text by prompt, once for each time it was asked."""
        self._write(self.trial_folder(number) / "texts.json", json.dumps([dict(asked) for asked in texts], indent=1))

    def read_texts(self, number: int) -> tuple[dict[str, str], ...]:
        """Empty where the trial has none, or none that can be read: they are a yardstick, and no figure."""
        try:
            data = json.loads((self.path / "trials" / f"{number:04d}" / "texts.json").read_text("utf-8"))
            return tuple({str(prompt): str(text) for prompt, text in asked.items()} for asked in data)
        except (OSError, ValueError, AttributeError, TypeError):
            return ()

    def write_report(self, name: str, text: str) -> Path:
        """`name` is that of a file, with no folder."""
        if Path(name).name != name:
            raise ValueError(f"a report's name must be that of a file, but got {name!r}")
        self._write(self.path / name, text)
        return self.path / name

    def prompts_used(self, *, held_out: bool = False) -> int:
        """How many prompts the study has given out, whether or not they were sent: of those for the search, or of those
        held out for the confirmation."""
        if not (self.path / "prompts.json").exists():
            return 0
        try:
            used = json.loads(self._read("prompts.json"))
            return int(used.get("held_out_used", 0) if held_out else used["prompts_used"])
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise RunFolderError(
                f"{self.path / 'prompts.json'} must say how many prompts were used, but cannot be read: {error}",
                hint="a study that sends prompts twice measures the cache: begin a new one",
            ) from error

    def note_prompts(self, total: int, *, held_out: bool = False) -> None:
        """To be called before they are sent, so that a killed study repeats none. Never goes down."""
        used = {False: self.prompts_used(), True: self.prompts_used(held_out=True)}
        used[held_out] = max(total, used[held_out])
        data = {"schema_version": SCHEMA_VERSION, "prompts_used": used[False], "held_out_used": used[True]}
        with self._writing(self.path / "prompts.json"):
            write_whole(self.path / "prompts.json", _document(data))

    def _cut_half_written(self) -> int:
        """Bytes cut off the end of trials.jsonl: what follows the last newline."""
        if not self.trials_path.exists():
            return 0
        data = self.trials_path.read_bytes()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            os.truncate(self.trials_path, whole)
        return len(data) - whole

    def _read(self, name: str) -> bytes:
        try:
            return (self.path / name).read_bytes()
        except OSError as error:
            raise RunFolderError(f"{self.path / name} must be readable, but got: {error.strerror or error}") from error

    def _write(self, path: Path, text: str) -> None:
        with self._writing(path):
            write_whole(path, text.encode())

    def _writing(self, path: Path) -> AbstractContextManager[None]:
        return stopping_the_study(path, self._what_is_safe)

    def _what_is_safe(self) -> str:
        try:
            count = self.trials_path.read_bytes().count(b"\n")
        except OSError:
            return f"no trial of {self.path} is recorded yet"
        return f"{count} trial{' is' if count == 1 else 's are'} safe in {self.trials_path}"


def _document(data: Any) -> bytes:
    return (json.dumps(data, indent=2, allow_nan=False) + "\n").encode()
