"""The probe's all-reduce times beside what serving made of the same NCCL settings."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.domain.configuration import Configuration
from autotune.domain.level import Rate, label
from autotune.domain.study import StudyResult
from autotune.domain.trial import TrialResult, TrialState
from autotune.reporting.changes import differences_from_baseline
from autotune.reporting.figures import MISSING, level_figure, number, score_text
from autotune.reporting.layout import Table, as_text

_SET, _TIME, _CHOSEN = "set.", "allreduce_us.", "chosen."
_KIB, _MIB = 2**10, 2**20


def nccl_table(result: StudyResult) -> str:
    """Empty where no trial has a proof."""
    return as_text(nccl_rows(result))


def nccl_rows(result: StudyResult) -> Table:
    """A row for each trial with a proof. Trials that differ in NCCL's settings alone stand together, and the places
    count among them: by the time of the smallest message, which decoding sends most, and by the score."""
    proven = [trial for trial in result.trials if _sizes(trial)]
    sizes = [size for trial in proven for size in _sizes(trial)]
    if not sizes:
        return Table((), ())
    ends = (min(sizes), max(sizes))
    levels = result.spec.workload.levels
    groups: dict[Configuration, list[TrialResult]] = {}
    for trial in proven:
        groups.setdefault(_others(trial.configuration), []).append(trial)
    rows = []
    for shared, trials in groups.items():
        by_probe = _places([_negative(_time(trial, ends[0])) for trial in trials])
        by_score = _places([trial.score.estimate.value if trial.score is not None else None for trial in trials])
        for trial, probe_place, score_place in zip(trials, by_probe, by_score, strict=True):
            rows.append(
                (
                    str(trial.number),
                    setting(trial),
                    *(number(_time(trial, size)) for size in ends),
                    trial.proof.get(_CHOSEN + str(ends[0]), MISSING),
                    trial.proof.get("via", MISSING),
                    probe_place,
                    *(level_figure(trial.at(level)) for level in levels),
                    score_text(trial.score) if trial.state is TrialState.COMPLETE else trial.state.value,
                    score_place,
                    differences_from_baseline(shared, _others(result.spec.baseline)),
                )
            )
    header = (
        *("trial", "NCCL"),
        *(f"µs at {_size_text(size)}" for size in ends),
        *(f"chosen at {_size_text(ends[0])}", "via", "place (probe)"),
        *(f"{label(level)} {'goodput' if isinstance(level, Rate) else 'tok/s'}" for level in levels),
        *("score", "place (serving)", "other settings"),
    )
    return Table(header, tuple(rows), frozenset({0, 2, 3, *range(6, 9 + len(levels))}))


def setting(trial: TrialResult) -> str:
    """`NCCL_ALGO=allreduce:ring, NCCL_PROTO=LL`, or `(none set)`."""
    named = [f"{key.removeprefix(_SET)}={value}" for key, value in sorted(trial.proof.items()) if key.startswith(_SET)]
    return ", ".join(named) or "(none set)"


def _others(configuration: Configuration) -> Configuration:
    return configuration.without(*(name for name in configuration if name.startswith("NCCL_")))


def _sizes(trial: TrialResult) -> list[int]:
    words = [key.removeprefix(_TIME) for key in trial.proof if key.startswith(_TIME)]
    return [int(word) for word in words if word.isdecimal()]


def _time(trial: TrialResult, size: int) -> float | None:
    word = trial.proof.get(_TIME + str(size))
    return None if word is None else float(word)


def _negative(value: float | None) -> float | None:
    return None if value is None else -value


def _places(values: Sequence[float | None]) -> list[str]:
    """1 for the highest; equal values share a place, and what is missing has none. One alone has no place either."""
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return [MISSING for _value in values]
    return [MISSING if value is None else str(1 + sum(other > value for other in known)) for value in values]


def _size_text(size: int) -> str:
    return f"{size / _MIB:g} MiB" if size >= _MIB else f"{size / _KIB:g} KiB"
