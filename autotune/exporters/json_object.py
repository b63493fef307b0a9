"""One JSON object, for programs."""

from __future__ import annotations

import json
from typing import Any

from autotune.domain.trial import TrialResult
from autotune.exporters.export import Export


def render(export: Export) -> str:
    """`secrets` lists the variables that stand as `${NAME}` in `argv` and `env`. What is missing is null."""
    trial, provenance = export.trial, export.trial.provenance
    shown: dict[str, Any] = {
        "study": export.result.spec.name,
        "trial": trial.number,
        "state": trial.state.value,
        "simulated": export.simulated,
        "clock_rate": provenance.clock_rate if provenance else None,
        "engine": provenance.engine if provenance else export.result.spec.engine.name,
        "engine_version": provenance.engine_version if provenance else None,
        "digest": trial.configuration.digest,
        "configuration": dict(trial.configuration),
        "score": _score(trial),
        "argv": [word.shown for word in export.argv],
        "env": {name: word.shown for name, word in export.environment.items()},
        "unset": list(export.dropped),
        "secrets": list(export.secrets),
        "resolved_differences": [
            {"argument": d.argument, "asked": d.asked, "resolved": d.resolved} for d in trial.differences
        ],
        "notes": list(export.notes),
    }
    return json.dumps(shown, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _score(trial: TrialResult) -> dict[str, Any] | None:
    if trial.score is None:
        return None
    estimate = trial.score.estimate
    return {"metric": trial.score.metric, "value": estimate.value, "low": estimate.low, "high": estimate.high}
