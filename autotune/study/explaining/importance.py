"""Optuna's PED-ANOVA importances of the parameters, shown beside the effects that were measured.

It asks which parameters tell the best tenth of the trials from the rest, and asks it only of parameters that every
trial has: with conditions, a parameter that matters only under a switch is left out or judged by half the trials. A
search that dwells on the best values makes what it settled early look as if it mattered less.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from autotune.domain.study import StudySpec
from autotune.domain.trial import TrialResult, TrialState
from autotune.study.ledger import Ledger, Validity, score_of

FEWEST = 10
"""Complete trials below which a tenth of them is less than one."""


def importances(spec: StudySpec, trials: Sequence[TrialResult]) -> tuple[dict[str, float], str]:
    """By parameter, the largest first, in sum 1; and what to know of them. Empty, with the reason, where there are
    too few trials that the space can express, or nothing that all of them have."""
    import optuna  # here, so that whoever reads a study's record does not wait for it
    from optuna.exceptions import ExperimentalWarning
    from optuna.importance import PedAnovaImportanceEvaluator

    from autotune.study.optuna_space import OptunaSpace
    from autotune.study.sampler import quiet

    quiet()
    ledger = Ledger(spec.space, Validity(lambda _configuration: (), lambda configuration: configuration))
    made = OptunaSpace(spec.space)
    study = optuna.create_study(direction="maximize")
    counted = 0
    for trial in trials:
        point = ledger.point(trial.configuration)
        complete = trial.state is TrialState.COMPLETE and score_of(trial) is not None and trial.duplicate_of is None
        if complete and made.parameters(point) is not None:
            study.add_trial(made.frozen(point, trial))
            counted += 1
    if counted < FEWEST:
        return {}, f"{counted} complete trials that name every parameter, and {FEWEST} are needed"
    everywhere = [p.name for p in spec.space.parameters if p.when is None]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            warnings.filterwarnings("ignore", message="Target and region quantiles select the same set")  # many equals
            found = optuna.importance.get_param_importances(
                study, evaluator=PedAnovaImportanceEvaluator(), params=everywhere
            )
    except (RuntimeError, ValueError) as error:
        return {}, f"PED-ANOVA could not be computed: {error}"
    left_out = [p.name for p in spec.space.parameters if p.when is not None]
    note = f"of {counted} trials"
    return dict(found), note + (f"; not of {', '.join(left_out)}, which not every trial has" if left_out else "")
