"""What a study comes to, from what is recorded: the best against the baseline, the drift, and the confirmation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autotune.domain.study import StudyResult, StudySpec
from autotune.domain.trial import Origin, TrialResult
from autotune.scoring.objective import compare
from autotune.study.comparing.confirmation import recorded_progress
from autotune.study.comparing.corrections import Corrections
from autotune.study.explaining.explanation import explain


def conclude(
    spec: StudySpec, trials: Sequence[TrialResult], stopped: str = "", *, explained: bool = True
) -> StudyResult:
    """A pure function of the recorded trials. `comparison` is of the screening runs; where there is a confirmation, the
    gain is its. In the explanation the search's trials are corrected for drift."""
    now = recorded_progress(spec, trials)
    corrections = Corrections.of(spec, [trial for trial in trials if trial.origin is not Origin.CONFIRMATION])
    confirmed = [trial for trial in trials if trial.origin is Origin.CONFIRMATION]
    result = StudyResult(
        spec,
        tuple(trials),
        stopped_because=stopped,
        confirmation=None if now is None else now.confirmation,
        drift=corrections.standing.drift(),
    )
    best, baseline = result.best, result.baseline
    if explained:
        shown = best or result.least_violating
        known = explain(spec, (*corrections.all(), *confirmed), None if shown is None else shown.configuration)
        result = replace(result, explanation=known)
    if best is None or baseline is None or best is baseline:
        return result
    levels = spec.workload.weights
    return replace(result, comparison=compare(best.measurements, baseline.measurements, spec.objective, levels))
