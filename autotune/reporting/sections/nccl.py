"""The probe's all-reduce times beside what serving made of the same NCCL settings."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.domain.configuration import Configuration
from autotune.domain.level import Rate, label
from autotune.domain.measurement import Estimate
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
    count among their settings: by the time of the smallest message, which decoding of one stream sends, and by the
    score. Settings that are not told apart share a place. The middle size is about what a full batch sends."""
    proven = [trial for trial in result.trials if _sizes(trial)]
    sizes = sorted({size for trial in proven for size in _sizes(trial)})
    if not sizes:
        return Table((), ())
    shown = tuple(dict.fromkeys((sizes[0], sizes[len(sizes) // 2], sizes[-1])))
    levels = result.spec.workload.levels
    groups: dict[Configuration, list[TrialResult]] = {}
    for trial in proven:
        groups.setdefault(_others(trial.configuration), []).append(trial)
    rows = []
    for shared, trials in groups.items():
        by_probe = _places(trials, [_speed(trial, sizes[0]) for trial in trials])
        by_score = _places(trials, [trial.score.estimate if trial.score is not None else None for trial in trials])
        for trial, probe_place, score_place in zip(trials, by_probe, by_score, strict=True):
            rows.append(
                (
                    str(trial.number),
                    setting(trial),
                    *(number(_time(trial, size)) for size in shown),
                    trial.proof.get(_CHOSEN + str(sizes[0]), MISSING),
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
        *(f"µs at {_size_text(size)}" for size in shown),
        *(f"chosen at {_size_text(sizes[0])}", "via", "place (probe)"),
        *(f"{label(level)} {'goodput' if isinstance(level, Rate) else 'tok/s'}" for level in levels),
        *("score", "place (serving)", "other settings"),
    )
    words = {header.index(name) for name in header if name in ("NCCL", "via", "other settings") or "chosen" in name}
    return Table(header, tuple(rows), frozenset(range(len(header))) - words)


def setting(trial: TrialResult) -> str:
    """`NCCL_ALGO=allreduce:ring, NCCL_PROTO=LL`, or `(none set)`."""
    named = [f"{key.removeprefix(_SET)}={value}" for key, value in sorted(trial.proof.items()) if key.startswith(_SET)]
    return ", ".join(named) or "(none set)"


def _others(configuration: Configuration) -> Configuration:
    return configuration.without(*(name for name in configuration if name.startswith("NCCL_")))


def _sizes(trial: TrialResult) -> list[int]:
    words = [key.removeprefix(_TIME) for key in trial.proof if key.startswith(_TIME)]
    return [int(word) for word in words if word.isdecimal()]


def _time(trial: TrialResult, size: int, which: str = "") -> float | None:
    word = trial.proof.get(f"{_TIME}{size}{which}")
    return None if word is None else float(word)


def _speed(trial: TrialResult, size: int) -> Estimate | None:
    """Higher is better; the batches from the 10th to the 90th percentile."""
    median, quick, slow = (_time(trial, size, which) for which in ("", ".p10", ".p90"))
    if median is None:
        return None
    return Estimate(-median) if quick is None or slow is None else Estimate(-median, -slow, -quick)


def _places(trials: Sequence[TrialResult], found: Sequence[Estimate | None]) -> list[str]:
    """1 and how many settings are clearly above; what has no figure has no place. One figure alone has none either."""
    known = [(setting(trial), _exact(one)) for trial, one in zip(trials, found, strict=True) if one is not None]
    if len(known) < 2:
        return [MISSING for _one in found]
    return [
        MISSING if one is None else str(1 + len({name for name, other in known if other.is_clearly_above(_exact(one))}))
        for one in found
    ]


def _exact(figure: Estimate) -> Estimate:
    """Without an interval its value decides."""
    return figure if figure.half_width is not None else Estimate(figure.value, figure.value, figure.value)


def _size_text(size: int) -> str:
    return f"{size / _MIB:g} MiB" if size >= _MIB else f"{size / _KIB:g} KiB"
