"""What a study did not try: values of a parameter, and pairs of values of two switches. Pure."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Sequence

from autotune.domain.configuration import show_value
from autotune.domain.explanation import Untried
from autotune.domain.space import Parameter, SearchSpace, Values
from autotune.domain.trial import TrialResult, TrialState
from autotune.scoring import settings
from autotune.scoring.trials.contexts import INACTIVE, Settings
from autotune.study.moves import levels, random_configuration

SWITCH_VALUES = 4
"""A parameter with a list of at most so many values, none of them a number, is a switch; so is one that others'
conditions speak of."""
_SERVED = (TrialState.COMPLETE, TrialState.PRUNED)
DRAWS = 2_000
"""Random legal configurations out of which is told what can be together at all."""


def untried_values(space: SearchSpace, trials: Sequence[TrialResult]) -> tuple[Untried, ...]:
    """Of a list every value; of a range its levels (moves.py), where no other value was tried in place of one."""
    served = [settings(space, trial.configuration) for trial in trials if trial.state in _SERVED]
    begun = [settings(space, trial.configuration) for trial in trials if _was_launched(trial)]
    found = []
    for parameter in space.parameters:
        seen = {held[parameter.name] for held in served}
        missing = [word for word in map(show_value, levels(parameter.domain)) if word not in seen]
        launched = {held[parameter.name] for held in begun}
        if missing:
            found.append(
                Untried(
                    parameter.name,
                    tuple(word for word in missing if word not in launched),
                    tuple(word for word in missing if word in launched),
                )
            )
    return tuple(found)


def untried_pairs(space: SearchSpace, trials: Sequence[TrialResult]) -> tuple[str, ...]:
    """`spec_v2=true with NCCL_PROTO=LL`: both values were tried, never together, though constraints and conditions
    allow it (the engine's own rules are not asked)."""
    switches = [parameter.name for parameter in space.parameters if _is_switch(space, parameter)]
    served = [settings(space, trial.configuration) for trial in trials if trial.state in _SERVED]
    if not served:
        return ()
    rng = random.Random(0)
    drawn = (random_configuration(space, rng) for _ in range(DRAWS))
    possible = _pairs(switches, (settings(space, values) for values in drawn if not space.broken(values)))
    seen = {(name, held[name]) for name in switches for held in served}
    missing = possible.keys() - _pairs(switches, served).keys()
    return tuple(
        f"{left[0]}={left[1]} with {right[0]}={right[1]}"
        for left, right in possible
        if (left, right) in missing and left in seen and right in seen and INACTIVE not in (left[1], right[1])
    )


def _was_launched(trial: TrialResult) -> bool:
    """It died of its configuration, or was interrupted after a level or more."""
    return trial.state is TrialState.INFEASIBLE or bool(trial.measurements)


def _pairs(names: Sequence[str], held: Iterable[Settings]) -> dict[tuple[tuple[str, str], tuple[str, str]], None]:
    """Sorted by the order of the names, then by value."""
    found = {
        ((first, one[first]), (second, one[second]))
        for one in held
        for first, second in itertools.combinations(names, 2)
    }
    places = {name: place for place, name in enumerate(names)}
    order = sorted(found, key=lambda pair: (places[pair[0][0]], places[pair[1][0]], pair[0][1], pair[1][1]))
    return dict.fromkeys(order)


def _is_switch(space: SearchSpace, parameter: Parameter) -> bool:
    if any(other.when is not None and parameter.name in other.when.words for other in space.parameters):
        return True
    if not isinstance(parameter.domain, Values) or len(parameter.domain.choices) > SWITCH_VALUES:
        return False
    return not any(isinstance(v, int | float) and not isinstance(v, bool) for v in parameter.domain.choices)
