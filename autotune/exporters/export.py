"""What is exported: the recorded command under another address, with placeholders where it has secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from autotune.domain.measurement import Score
from autotune.domain.secrets import MASK, is_secret
from autotune.domain.study import StudyResult
from autotune.domain.trial import LaunchCommand, TrialResult
from autotune.errors import InputError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Word:
    """A word of the command. `secret` names the variable that a reader must set; then `text` is what stands before
    its value (`--api-key=`), mostly nothing."""

    text: str
    secret: str = ""

    @property
    def shown(self) -> str:
        return f"{self.text}${{{self.secret}}}" if self.secret else self.text


@dataclass(frozen=True)
class Export:
    """`argv` and `environment` as they are to be written; `notes` is what a reader must know first."""

    result: StudyResult
    trial: TrialResult
    argv: tuple[Word, ...]
    environment: Mapping[str, Word]
    dropped: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def simulated(self) -> bool:
        provenance = self.trial.provenance
        return self.result.simulated if provenance is None else provenance.simulated

    @property
    def secrets(self) -> tuple[str, ...]:
        words = (*self.environment.values(), *self.argv)
        return tuple(dict.fromkeys(word.secret for word in words if word.secret))

    @property
    def heading(self) -> tuple[str, ...]:
        """Lines for a comment: what this is, and where it comes from."""
        trial, provenance = self.trial, self.trial.provenance
        lines = [
            f"Launch command of trial {trial.number} of study {self.result.spec.name}, as it ran.",
            f"configuration: {trial.configuration} (digest {trial.configuration.digest})",
        ]
        if trial.score is not None:
            lines.append(f"score: {_with_interval(trial.score)} ({trial.score.metric}, 95 % interval)")
        else:
            lines.append(f"score: none, this trial is {trial.state.value}")
        lines += self._confirmed()
        if provenance is not None:
            lines.append(f"engine: {provenance.engine} {provenance.engine_version}")
        if self.simulated:
            rate = f" (clock rate {provenance.clock_rate:g})" if provenance is not None else ""
            lines.append(f"SIMULATED: measured on a simulated node{rate}, not on a real one")
        if trial.pretences:
            lines.append(f"ACCEPTANCE SIMULATED: draft tokens are accepted by decree ({', '.join(trial.pretences)})")
        if self.secrets:
            lines.append(f"secrets are left out: set {', '.join(self.secrets)}")
        return (*lines, *self.notes)

    def _confirmed(self) -> list[str]:
        found = self.result.confirmation
        if found is None or self.trial.number not in (f.trial for f in found.finalists):
            return []
        finalist = next(f for f in found.finalists if f.trial == self.trial.number)
        if finalist.gain is None or finalist.gain.half_width is None:
            return []
        gain = f"{(finalist.gain.value - 1) * 100:+.1f} % ± {finalist.gain.half_width * 100:.1f}"
        word = "confirmed" if finalist.verdict == "better" else "not confirmed"
        return [f"{word}: {gain} against the baseline ({finalist.servers} fresh servers, held-out prompts)"]


def prepare(result: StudyResult, trial: TrialResult, *, host: str, port: int, note: str = "") -> Export:
    """Raises InputError as `render` says."""
    command = trial.command
    if command is None:
        known = ", ".join(str(other.number) for other in result.trials if other.command is not None) or "none"
        raise InputError(
            f"only a trial that was launched can be exported, but trial {trial.number} has no launch command",
            hint=f"trials with a command: {known}",
        )
    names = (*command.chosen, *command.dropped)
    if wrong := [name for name in names if not _NAME.fullmatch(name)]:
        raise InputError(
            f"a variable's name must be letters, digits and underscores, but got {wrong[0]!r}",
            hint="rename it in the space file",
        )
    replaced = {"--host": host, "--port": str(port), "--served-model-name": result.spec.name}
    argv, absent = _addressed(command, replaced)
    return Export(
        result,
        trial,
        argv=_without_secrets(argv),
        environment={name: _variable(name, value) for name, value in sorted(command.chosen.items())},
        dropped=tuple(name for name in command.dropped if name not in command.chosen),
        notes=(
            *([note] if note else []),
            *(f"breaks the SLO: {check}" for check in trial.broken),
            *(f"{flag} was not given in the command that ran, and is not set here" for flag in absent),
        ),
    )


def _addressed(command: LaunchCommand, replaced: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """argv with the values of these flags replaced, `--flag value` and `--flag=value` alike; and the flags that it
    does not have."""
    argv, absent = list(command.argv), dict.fromkeys(replaced)
    for index, word in enumerate(command.argv):
        flag, joined, _value = word.partition("=")
        if flag not in replaced:
            continue
        if joined:
            argv[index] = f"{flag}={replaced[flag]}"
        elif index + 1 < len(argv):
            argv[index + 1] = replaced[flag]
        absent.pop(flag, None)
    return argv, list(absent)


def _without_secrets(argv: list[str]) -> tuple[Word, ...]:
    words, before = [], ""
    for word in argv:
        flag, joined, value = word.partition("=")
        if before.startswith("--") and (word == MASK or is_secret(before, word)):
            words.append(Word("", _variable_name(before)))
        elif joined and flag.startswith("--") and (value == MASK or is_secret(flag, value)):
            words.append(Word(f"{flag}=", _variable_name(flag)))
        else:
            words.append(Word(word))
        before = word
    return tuple(words)


def _variable_name(flag: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "_", flag.lstrip("-")).upper()


def _variable(name: str, value: str) -> Word:
    hidden = value == MASK or is_secret(name, value)
    return Word("", name) if hidden else Word(value)


def _with_interval(score: Score) -> str:
    digits, half = 1 if score.metric == "weighted_throughput" else 3, score.estimate.half_width
    shown = f"{score.estimate.value:.{digits}f}"
    return shown if half is None else f"{shown} ± {half:.{digits}f}"
