"""Every error that the program raises on purpose.

    AutotuneError
    ├── InputError                exit 2: the user can mend it
    │   ├── SpaceFileError        faults of a space file, all of them, with file:line:column
    │   ├── ServingEnvironmentError   no interpreter, no engine in it, no model, no GPU
    │   └── RunFolderError        no such study, a study of another space, a locked one
    ├── StudyStopped              exit 1: what is recorded is safe, the study cannot go on
    ├── Interrupted               exit 130: Ctrl-C or SIGTERM; the trial was ended cleanly
    └── TrialError                one trial's failure; the trial runner turns it into data
        ├── ServerDied            the process ended while it was needed
        ├── ServerStuck           alive, and no progress for longer than is patient
        ├── WrongServer           something else answers on the port
        ├── ServerLeftovers       processes or GPU memory remain after stopping
        ├── NodeBusy              another's process or memory is on the trial's GPUs before the launch
        ├── LevelRefused          a concurrency level that cannot be measured, with the arithmetic
        └── LoadFailed            the client could not carry out the plan
            └── NoTokens          requests are in flight, and no token comes

A message says which rule was broken and the values that broke it; the hint says what to type next.
"""

from __future__ import annotations

from dataclasses import dataclass


class AutotuneError(Exception):
    """Root of the tree. `hint` is one line on what to do, or empty."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class InputError(AutotuneError):
    exit_code = 2


@dataclass(frozen=True)
class Fault:
    """One fault of a space file. `line` and `column` count from 1; 0 means the file as a whole."""

    file: str
    line: int
    column: int
    rule: str
    value: str = ""
    hint: str = ""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}:{self.column}: " if self.line else f"{self.file}: "
        shown = f"{where}{self.rule}"
        if self.value:
            shown += f", but got {self.value}"
        return shown + (f"\n    hint: {self.hint}" if self.hint else "")


class SpaceFileError(InputError):
    """`faults` holds all that is wrong with the file, in the order of the file."""

    def __init__(self, faults: tuple[Fault, ...]) -> None:
        count = f"{len(faults)} fault{'s' if len(faults) != 1 else ''}"
        super().__init__("\n".join(str(fault) for fault in faults) + f"\n{count}; nothing was started")
        self.faults = faults


class ServingEnvironmentError(InputError):
    pass


class RunFolderError(InputError):
    pass


class StudyStopped(AutotuneError):
    pass


class Interrupted(AutotuneError):
    exit_code = 130


class TrialError(AutotuneError):
    pass


class ServerDied(TrialError):
    """`exit_status` as subprocess gives it: negative for a signal; None where it could not be read."""

    def __init__(self, message: str, *, exit_status: int | None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.exit_status = exit_status


class ServerStuck(TrialError):
    pass


class WrongServer(TrialError):
    pass


class ServerLeftovers(TrialError):
    pass


class NodeBusy(TrialError):
    pass


class LevelRefused(TrialError):
    pass


class LoadFailed(TrialError):
    pass


class NoTokens(LoadFailed):
    pass
