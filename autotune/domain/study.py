"""What a study is asked to do, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from autotune.domain.configuration import Configuration, Value
from autotune.domain.confirmation import Confirm, Confirmation, Drift
from autotune.domain.explanation import Explanation
from autotune.domain.knowledge import Knowledge
from autotune.domain.level import Rate
from autotune.domain.measurement import Comparison, Estimate, Objective
from autotune.domain.slo import Slo
from autotune.domain.space import SearchSpace
from autotune.domain.trial import Origin, TrialResult, TrialState
from autotune.domain.workload import (
    LATE_PRECISION,
    LATE_WARM_UP,
    LEAST_AT_RATE,
    REQUESTS_PER_SLOT,
    LevelPlan,
    MeasurementPlan,
    Workload,
    at_rate,
)

ENGINE_PYTHON = "engine_python"
"""The parameter that chooses the serving interpreter, where engine.python lists several."""


@dataclass(frozen=True)
class EngineSpec:
    """`args` keys as the file writes them, without leading dashes. `node` describes a simulated node, else empty.

    `pythons`: the interpreters to choose from, `python` being the first; empty where there is no choice.
    """

    name: str
    python: str | None
    model: str
    args: Mapping[str, Value] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    node: Mapping[str, Value] = field(default_factory=dict)
    pythons: tuple[str, ...] = ()

    @property
    def interpreters(self) -> tuple[str | None, ...]:
        return self.pythons or (self.python,)


STRATEGIES = ("greybox", "greedy_greybox", "greedy_tpe", "tpe", "surrogate")
"""Names of the search strategies; study/strategies.py says what they do."""


@dataclass(frozen=True)
class Budget:
    """Whichever is reached first; None is no bound. `hours` are node hours: start-up, failures, measuring, and the
    confirmation. `trials` are the search's: the confirmation's come on top.

    `baseline_every`: trials between two measurements of the baseline. `auto`: as the drift that they show asks for;
    None: it is measured once.
    """

    trials: int | None = None
    hours: float | None = None
    baseline_every: int | Literal["auto"] | None = None
    confirm: Confirm | None = None  # None: what the search found is not confirmed
    stop_when_settled: bool = False  # ends when another node hour is expected to gain less than noise
    early_stopping: bool = False  # a trial ends before its last level where it cannot come near the best any more


@dataclass(frozen=True)
class Limits:
    """Seconds, on the node's clock. `silence_s`: a start with no sign of progress; `start_s`: a start altogether."""

    silence_s: float = 600.0
    start_s: float = 3600.0
    request_patience_s: float = 120.0
    stop_grace_s: float = 15.0


@dataclass(frozen=True)
class StudySpec:
    """A space file, read and checked. `source` is the resolved file as plain data (study.yaml of the run folder).

    `earlier` is no part of the file: what a warm start took from other studies (warm_start.json of the run folder).
    """

    name: str
    engine: EngineSpec
    space: SearchSpace
    baseline: Configuration
    workload: Workload
    objective: Objective
    budget: Budget
    known_good: tuple[Configuration, ...] = ()
    limits: Limits = field(default_factory=Limits)
    min_requests: int = 10
    seed: int = 0
    strategy: str = "greybox"
    slo: Slo = field(default_factory=Slo)
    source: Mapping[str, Any] = field(default_factory=dict)
    earlier: Knowledge = field(default_factory=Knowledge)

    @property
    def ranks_by_throughput(self) -> bool:
        """Whether the objective is made of the throughput of closed loops: what the models of the search foretell."""
        return self.objective.metric != "weighted_goodput" and not self.workload.rates

    def plan(self) -> MeasurementPlan:
        """At least 5 x level requests at each level and 60 at each rate, and never fewer than `min_requests`; more
        where the workload asks for a precision, warm-up lasts, or requests at a rate do."""
        levels = self.workload.levels
        return MeasurementPlan(
            levels=tuple(self._rate(one) if isinstance(one, Rate) else self._level(one) for one in levels),
            max_tokens=self.workload.max_tokens,
            temperature=self.workload.temperature,
            ignore_eos=self.workload.ignore_eos,
        )

    def _level(self, concurrency: int) -> LevelPlan:
        floor = max(REQUESTS_PER_SLOT * concurrency, self.min_requests)
        return LevelPlan(
            concurrency,
            floor,
            self.limits.request_patience_s,
            most_requests=floor * (LATE_WARM_UP if self.workload.precision is None else LATE_PRECISION),
            seconds=self.workload.level_seconds,
        )

    def _rate(self, rate: Rate) -> LevelPlan:
        floor = max(LEAST_AT_RATE, self.min_requests)
        patience = self.limits.request_patience_s
        return at_rate(rate.per_second, floor, patience, most_requests=floor * LATE_PRECISION)


@dataclass(frozen=True)
class StudyResult:
    """`trials` in the order in which they ran. `comparison` is best against baseline, None if either is missing."""

    spec: StudySpec
    trials: tuple[TrialResult, ...]
    comparison: Comparison | None = None
    stopped_because: str = ""
    explanation: Explanation | None = None
    confirmation: Confirmation | None = None
    drift: Drift | None = None

    @property
    def baseline(self) -> TrialResult | None:
        """The first complete trial of the baseline configuration."""
        return next(
            (t for t in self.complete if t.configuration == self.spec.baseline),
            None,
        )

    @property
    def complete(self) -> tuple[TrialResult, ...]:
        """Of the search: what was confirmed afterwards ran on other prompts, and is compared with its like alone."""
        return tuple(t for t in self.search if t.state is TrialState.COMPLETE and t.score is not None)

    @property
    def search(self) -> tuple[TrialResult, ...]:
        return tuple(t for t in self.trials if t.origin is not Origin.CONFIRMATION)

    @property
    def candidates(self) -> tuple[TrialResult, ...]:
        """Complete trials that keep to the SLO: what may be called the best."""
        return tuple(t for t in self.complete if not t.broken)

    @property
    def best(self) -> TrialResult | None:
        """What a confirmation settled on (the baseline, where nothing beats it); without one the highest score among
        the candidates, corrected for drift; of equals the earlier."""
        settled = self.confirmation
        if settled is not None and settled.outcome == "none" and self.baseline in self.candidates:
            return self.baseline
        if settled is not None and settled.winner is not None:
            number = settled.winner.trial
            return next((t for t in self.trials if t.number == number), None)
        scored = [(self.corrected(t).value, -t.number, t) for t in self.candidates if t.score is not None]
        return max(scored, key=lambda item: item[:2])[2] if scored else None

    def corrected(self, trial: TrialResult) -> Estimate:
        """The score as it would have been at the time of the first baseline; as recorded where no drift is known.
        Raises ValueError for a trial without a score."""
        if trial.score is None:
            raise ValueError(f"trial {trial.number} has no score")
        known = self.drift.corrected if self.drift is not None else {}
        return known.get(trial.number, trial.score.estimate)

    @property
    def least_violating(self) -> TrialResult | None:
        """Where no trial keeps to the SLO: the one that breaks it least; of equals the faster, then the earlier."""
        if self.candidates:
            return None
        scored = [(-t.violation, t.score.estimate.value, -t.number, t) for t in self.complete if t.score is not None]
        return max(scored, key=lambda item: item[:3])[3] if scored else None

    @property
    def node_seconds(self) -> float:
        return sum(trial.node_seconds for trial in self.trials)

    @property
    def simulated(self) -> bool:
        return any(t.provenance is not None and t.provenance.simulated for t in self.trials)
