"""What a study is asked to do, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from autotune.domain.configuration import Configuration, Value
from autotune.domain.measurement import Comparison, Objective
from autotune.domain.space import SearchSpace
from autotune.domain.trial import TrialResult, TrialState
from autotune.domain.workload import REQUESTS_PER_SLOT, LevelPlan, MeasurementPlan, Workload

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


STRATEGIES = ("greedy_tpe", "tpe", "greybox", "greedy_greybox", "surrogate")
"""Names of the search strategies; study/strategies.py says what they do."""


@dataclass(frozen=True)
class Budget:
    """Whichever is reached first; None is no bound. `hours` are node hours: start-up, failures, measuring."""

    trials: int | None = None
    hours: float | None = None
    baseline_every: int | None = None  # trials between two measurements of the baseline; None measures it once


@dataclass(frozen=True)
class Limits:
    """Seconds, on the node's clock. `silence_s`: a start with no sign of progress; `start_s`: a start altogether."""

    silence_s: float = 600.0
    start_s: float = 3600.0
    request_patience_s: float = 120.0
    stop_grace_s: float = 15.0


@dataclass(frozen=True)
class StudySpec:
    """A space file, read and checked. `source` is the resolved file as plain data (study.yaml of the run folder)."""

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
    strategy: str = "greedy_tpe"
    source: Mapping[str, Any] = field(default_factory=dict)

    def plan(self) -> MeasurementPlan:
        """At least 5 x level requests at each level, and never fewer than `min_requests`."""
        return MeasurementPlan(
            levels=tuple(
                LevelPlan(level, max(REQUESTS_PER_SLOT * level, self.min_requests), self.limits.request_patience_s)
                for level in self.workload.levels
            ),
            max_tokens=self.workload.max_tokens,
            temperature=self.workload.temperature,
            ignore_eos=self.workload.ignore_eos,
        )


@dataclass(frozen=True)
class StudyResult:
    """`trials` in the order in which they ran. `comparison` is best against baseline, None if either is missing."""

    spec: StudySpec
    trials: tuple[TrialResult, ...]
    comparison: Comparison | None = None
    stopped_because: str = ""

    @property
    def baseline(self) -> TrialResult | None:
        """The first complete trial of the baseline configuration."""
        return next(
            (t for t in self.complete if t.configuration == self.spec.baseline),
            None,
        )

    @property
    def complete(self) -> tuple[TrialResult, ...]:
        return tuple(t for t in self.trials if t.state is TrialState.COMPLETE and t.score is not None)

    @property
    def best(self) -> TrialResult | None:
        """Highest score; of equals the earlier."""
        scored = [(t.score.estimate.value, -t.number, t) for t in self.complete if t.score is not None]
        return max(scored, key=lambda item: item[:2])[2] if scored else None

    @property
    def node_seconds(self) -> float:
        return sum(trial.node_seconds for trial in self.trials)

    @property
    def simulated(self) -> bool:
        return any(t.provenance is not None and t.provenance.simulated for t in self.trials)
