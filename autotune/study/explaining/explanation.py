"""What a study says of its factors, put together from its trials. See docs/explanation.md."""

from __future__ import annotations

import math
from collections.abc import Sequence

from autotune import scoring
from autotune.domain.configuration import Configuration
from autotune.domain.explanation import Explanation
from autotune.domain.study import StudySpec
from autotune.domain.trial import TrialResult
from autotune.study.explaining.importance import importances
from autotune.study.explaining.modelled import modelled
from autotune.study.explaining.untried import untried_pairs, untried_values


def explain(spec: StudySpec, trials: Sequence[TrialResult], best: Configuration | None = None) -> Explanation:
    """Out of this study's own trials alone; what a warm start brought is no evidence here. `best`: around which
    the model is asked; None: around the highest score."""
    baseline = scoring.settings(spec.space, spec.baseline)
    known = scoring.evidence(spec.space, trials, baseline, spec.objective, spec.workload.weights)
    significant, looked_at = scoring.interactions(known)
    shares, note = importances(spec, trials)
    spread = known.spread
    return Explanation(
        effects=scoring.effects(known),
        interactions=significant,
        looked_at=looked_at,
        untried=untried_values(spec.space, trials),
        untried_pairs=untried_pairs(spec.space, trials),
        importances=shares,
        importance_note=note,
        launch_spread=math.sqrt(spread.variance) if spread.freedom else None,
        replicates=spread.freedom,
        modelled=modelled(spec, trials, best),
    )
