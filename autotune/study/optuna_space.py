"""A search space in Optuna's words: distributions, and parameters of a trial."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from optuna.distributions import (
    BaseDistribution,
    CategoricalChoiceType,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from autotune.domain import trial as words
from autotune.domain.configuration import Configuration, Value
from autotune.domain.slo import UNSEEN
from autotune.domain.space import Domain, FloatRange, IntRange, SearchSpace, Values
from autotune.study.ledger import score_of
from autotune.study.moves import every_value, same, tidy

SLO = "slo"
"""How the names of the SLO's constraints begin: `slo.ttft_p95_ms.64`, the figure and the level."""

LAUNCHES = "launches"
"""Name of the constraint that a configuration which cannot be launched violates (1.0); -1.0 on those that ran."""


@dataclass(frozen=True)
class Dimension:
    """A parameter as Optuna sees it. Lists are categorical; a label is the value itself where Python can tell all the
    values apart, and JSON where it cannot (to Optuna, 1 and true are one choice)."""

    domain: Domain
    distribution: BaseDistribution
    labels: tuple[CategoricalChoiceType, ...] = ()

    def to_optuna(self, value: Value) -> CategoricalChoiceType:
        """Raises ValueError for a value outside the domain."""
        if value not in self.domain:
            raise ValueError(f"{value!r} is not one of the parameter's values")
        if isinstance(self.domain, Values):
            return self.labels[next(i for i, choice in enumerate(self.domain.choices) if same(choice, value))]
        if isinstance(self.domain, FloatRange) and isinstance(value, int | float):
            on_step = tidy(self.domain, value)
            if self.domain.step is not None and abs(on_step - value) > 1e-9:
                raise ValueError(f"{value!r} is between two steps")
            return on_step if self.domain.step is not None else float(value)
        return value

    def from_optuna(self, label: CategoricalChoiceType) -> Value:
        if isinstance(self.domain, Values):
            return self.domain.choices[next(i for i, known in enumerate(self.labels) if same(known, label))]
        if isinstance(self.domain, FloatRange):
            return tidy(self.domain, float(label or 0.0))
        return label


class OptunaSpace:
    """Dimensions by name, and trials made of results."""

    def __init__(self, space: SearchSpace) -> None:
        self.space = space
        self.dimensions = {parameter.name: _dimension(parameter.domain) for parameter in space.parameters}

    def suggest(self, trial: Trial) -> Configuration:
        """Asks for the active parameters in the order of the file, so that conditions see what they speak of."""
        values: dict[str, Value] = {}
        for parameter in self.space.parameters:
            if self.space.is_active(parameter, values):
                dimension = self.dimensions[parameter.name]
                values[parameter.name] = dimension.from_optuna(_suggest(trial, parameter.name, dimension.distribution))
        return Configuration(values)

    def parameters(self, point: Configuration) -> dict[str, CategoricalChoiceType] | None:
        """Of a point of the space. None if an active parameter is missing or has a value that the space does not list
        (a baseline may): Optuna would see a space of other groups, and model none of them jointly."""
        found: dict[str, CategoricalChoiceType] = {}
        for parameter in self.space.parameters:
            if not self.space.is_active(parameter, point):
                continue
            if parameter.name not in point:
                return None
            try:
                found[parameter.name] = self.dimensions[parameter.name].to_optuna(point[parameter.name])
            except ValueError:
                return None
        return found

    def distributions(self, parameters: Mapping[str, Any]) -> dict[str, BaseDistribution]:
        return {name: self.dimensions[name].distribution for name in parameters}

    def frozen(self, point: Configuration, result: words.TrialResult) -> FrozenTrial:
        """A finished trial; without parameters where the space cannot express them."""
        parameters = self.parameters(point) or {}
        state, value, constraints = outcome(result)
        return create_trial(
            state=state,
            value=value,
            params=parameters,
            distributions=self.distributions(parameters),
            constraints=constraints,
            intermediate_values=intermediate(result),
            user_attrs=attributes(result),
        )


def outcome(result: words.TrialResult) -> tuple[TrialState, float | None, dict[str, float]]:
    """State, value and constraints to tell. Infeasible is PRUNED with a violated constraint, which TPE reads as worse
    than any measured trial; FAIL it does not read at all, and would sample the same cliff for ever. What breaks the
    SLO is COMPLETE, with its score, and a constraint for each bound. What was stopped is PRUNED with its bound, and no
    constraint violated: TPE reads it as worse than what is complete, and better than what cannot be launched."""
    value = score_of(result)
    if value is not None:
        return TrialState.COMPLETE, value, {LAUNCHES: -1.0, **_slo_constraints(result)}
    if result.state is words.TrialState.INFEASIBLE:
        return TrialState.PRUNED, None, {LAUNCHES: 1.0}
    if result.bound is not None:
        return TrialState.PRUNED, result.bound.score, {LAUNCHES: -1.0}
    return TrialState.FAIL, None, {}


def intermediate(result: words.TrialResult) -> dict[int, float]:
    """Of a pruned trial: its bound, at the number of levels that it ran. Optuna ranks those further that ran more."""
    return {} if result.bound is None else {len(result.bound.measured): result.bound.score}


def _slo_constraints(result: words.TrialResult) -> dict[str, float]:
    """TPE orders what is infeasible by the sum of its violations. A breach is told as its share in 0 to 1, over the
    number of bounds, so that all breaches of one trial together stay below the 1 of a server that did not start."""
    constraints = {}
    for check in result.slo:
        violation = UNSEEN if check.violation is None else check.violation
        told = violation / (1.0 + violation) if violation > 0 else violation
        constraints[f"{SLO}.{check.figure}.{check.level}"] = told / len(result.slo)
    return constraints


def attributes(trial: words.TrialRequest | words.TrialResult) -> dict[str, Any]:
    """User attributes that lead from a trial of Optuna to a line of trials.jsonl."""
    return {
        "number": trial.number,
        "origin": trial.origin.value,
        "digest": trial.configuration.digest,
        "configuration": trial.configuration.canonical,
    }


def _dimension(domain: Domain) -> Dimension:
    if isinstance(domain, Values):
        ambiguous = len(set(domain.choices)) < len(domain.choices)
        labels = tuple(json.dumps(choice) for choice in domain.choices) if ambiguous else domain.choices
        return Dimension(domain, CategoricalDistribution(labels), labels)
    if isinstance(domain, IntRange) and domain.log:
        return Dimension(domain, IntDistribution(domain.low, domain.high, log=True))
    values = every_value(domain)
    # Optuna wants the upper end on a step, and says so with a warning.
    high: Any = domain.high if values is None else values[len(values) - 1]
    if isinstance(domain, IntRange):
        return Dimension(domain, IntDistribution(domain.low, high, step=domain.step))
    return Dimension(domain, FloatDistribution(domain.low, high, step=domain.step, log=domain.log))


def _suggest(trial: Trial, name: str, distribution: BaseDistribution) -> CategoricalChoiceType:
    if isinstance(distribution, CategoricalDistribution):
        return trial.suggest_categorical(name, distribution.choices)
    if isinstance(distribution, IntDistribution):
        return trial.suggest_int(
            name, distribution.low, distribution.high, step=distribution.step, log=distribution.log
        )
    if isinstance(distribution, FloatDistribution):
        step = distribution.step
        return trial.suggest_float(name, distribution.low, distribution.high, step=step, log=distribution.log)
    raise TypeError(f"no such distribution is made here: {distribution}")
