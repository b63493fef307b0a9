"""The study as one JSON object, for `--json`."""

from __future__ import annotations

from typing import Any

from autotune.domain.measurement import Comparison
from autotune.domain.study import StudyResult
from autotune.domain.trial import TrialResult
from autotune.reporting.sections.confirmation import confirmation_data, drift_data
from autotune.reporting.sections.front_views import best_data, front_data
from autotune.reporting.sections.slo import slo_data
from autotune.reporting.verdict import verdict


def summary(result: StudyResult, *, run_dir: str) -> dict[str, Any]:
    """None where there is nothing. `interval` is [low, high], 95 %; `speedup` is best / baseline, with its own."""
    best, compared = result.best, result.comparison
    speedup = None
    confirmed = result.confirmation
    if confirmed is not None and confirmed.winner is not None and confirmed.winner.gain is not None:
        compared = Comparison(confirmed.winner.gain, confirmed.winner.verdict)
    if compared is not None:
        speedup = {"ratio": compared.ratio.value, "interval": _interval(compared.ratio.low, compared.ratio.high)}
    command = best.command if best is not None else None
    return {
        "study": result.spec.name,
        "run_dir": run_dir,
        "simulated": result.simulated,
        "verdict": verdict(result),
        "outcome": compared.verdict if compared is not None else None,
        "baseline": _trial(result.baseline),
        "best": None if best is None else {**(_trial(best) or {}), "speedup": speedup},
        "launch": None if command is None else {"argv": list(command.argv), "environment": dict(command.chosen)},
        "confirmation": confirmation_data(result),
        "drift": drift_data(result),
        "slo": slo_data(result),
        "best_per_level": best_data(result),
        "front": front_data(result),
        "trials": len(result.trials),
        "node_seconds": round(result.node_seconds, 1),
        "stopped_because": result.stopped_because,
    }


def _trial(trial: TrialResult | None) -> dict[str, Any] | None:
    if trial is None:
        return None
    estimate = trial.score.estimate if trial.score is not None else None
    return {
        "trial": trial.number,
        "configuration": dict(trial.configuration),
        "score": None if estimate is None else estimate.value,
        "interval": None if estimate is None else _interval(estimate.low, estimate.high),
    }


def _interval(low: float | None, high: float | None) -> list[float] | None:
    return None if low is None or high is None else [low, high]
