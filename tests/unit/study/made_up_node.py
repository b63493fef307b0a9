"""A node that exists on paper: scores, crashes and failures from formulas, for the study's tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from autotune.domain.configuration import Configuration, Value
from autotune.domain.expression import parse
from autotune.domain.measurement import Estimate, Objective, Score
from autotune.domain.space import Constraint, Domain, IntRange, Parameter, SearchSpace, Values
from autotune.domain.study import Budget, EngineSpec, StudySpec
from autotune.domain.trial import Failure, FailureReason, Origin, TrialRequest, TrialResult, TrialState
from autotune.domain.workload import Workload
from autotune.study import StudyEvent, Validity, run_study
from autotune.study.ledger import Ledger

ANYTHING = Validity(problems=lambda _configuration: (), canonical=lambda configuration: configuration)
BASELINE = Configuration({"spec": None, "graph": 128, "attn": "flashinfer", "proto": None})
KNOWN_GOOD = Configuration(
    {"spec": "EAGLE3", "steps": 3, "topk": 1, "v2": True, "graph": 128, "attn": "flashinfer", "proto": None}
)


def parameter(name: str, domain: Domain, when: str = "") -> Parameter:
    return Parameter(name, domain, parse(when) if when else None)


def space_of(*parameters: Parameter, constraints: Sequence[str] = ()) -> SearchSpace:
    return SearchSpace(parameters, tuple(Constraint(parse(text)) for text in constraints))


SPECULATION = space_of(
    parameter("graph", Values((32, 64, 128, 256))),
    parameter("spec", Values((None, "EAGLE3"))),
    parameter("steps", IntRange(1, 8), "spec != unset"),
    parameter("topk", Values((1, 2, 4)), "spec != unset"),
    parameter("tokens", Values((2, 4, 8, 16, 32)), "topk > 1"),
    parameter("v2", Values((True, False)), "spec != unset"),
    parameter("attn", Values(("flashinfer", "triton", "trtllm"))),
    parameter("proto", Values((None, "LL", "Simple"))),
    constraints=["tokens <= 1 + topk + (steps - 1) * topk ** 2", "not (v2 == true and topk > 1)"],
)
"""Conditions two deep, `unset` as a value, and constraints that couple parameters. 2,304 assignments."""


def tokens_per_second(configuration: Mapping[str, Value]) -> float:
    """Separable: each factor multiplies. Best: spec on, steps 5, topk 1, v2, graph 256, triton, LL."""
    speed = 50.0 * {32: 0.7, 64: 0.9, 128: 1.0, 256: 1.1}.get(int(str(configuration.get("graph", 128))), 1.0)
    speed *= {"flashinfer": 1.0, "triton": 1.08, "trtllm": 1.05}[str(configuration.get("attn", "flashinfer"))]
    speed *= {"None": 1.0, "LL": 1.2, "Simple": 0.95}[str(configuration.get("proto"))]
    if configuration.get("spec") is not None:
        steps, topk = configuration["steps"], configuration["topk"]
        speed *= 1.6 - 0.03 * abs(int(str(steps)) - 5)
        speed *= 1.15 if configuration["v2"] is True else 1.0
        speed *= {1: 1.0, 2: 0.95, 4: 0.9}[int(str(topk))]
    return speed


@dataclass
class Node:
    """`failures` says how an evaluation ends that does not end well: by state, or None. Every trial takes `hours`."""

    score: Callable[[Mapping[str, Value]], float] = tokens_per_second
    failures: Callable[[TrialRequest], TrialState | None] = lambda _request: None
    hours: float = 0.1
    results: list[TrialResult] = field(default_factory=list)

    def evaluate(self, request: TrialRequest) -> TrialResult:
        state = self.failures(request)
        if state is None:
            found = result(
                request.number, request.configuration, self.score(request.configuration), request.origin, self.hours
            )
        else:
            found = failed(request.number, request.configuration, state, request.origin, self.hours)
        found = replace(found, replicate=request.replicate)
        self.results.append(found)
        return found

    @property
    def configurations(self) -> list[Configuration]:
        return [result.configuration for result in self.results]


def result(
    number: int,
    configuration: Configuration,
    score: float,
    origin: Origin = Origin.SAMPLER,
    hours: float = 0.1,
) -> TrialResult:
    measured = Score("weighted_throughput", Estimate(score))
    return TrialResult(number, configuration, origin, TrialState.COMPLETE, "", 3600 * hours, score=measured)


def failed(
    number: int,
    configuration: Configuration,
    state: TrialState,
    origin: Origin = Origin.SAMPLER,
    hours: float = 0.1,
) -> TrialResult:
    circumstance = state is TrialState.FAILED
    reason = FailureReason.PORT_TAKEN if circumstance else FailureReason.OUT_OF_MEMORY
    why = Failure(reason, "it did not start", evidence="CUDA out of memory", hint="free the GPU")
    return TrialResult(number, configuration, origin, state, "", 3600 * hours, failure=why)


def spec_of(
    space: SearchSpace = SPECULATION,
    *,
    baseline: Configuration = BASELINE,
    known_good: tuple[Configuration, ...] = (KNOWN_GOOD,),
    trials: int | None = 60,
    hours: float | None = None,
    seed: int = 0,
) -> StudySpec:
    return StudySpec(
        name="made-up",
        engine=EngineSpec("paper", None, "model"),
        space=space,
        baseline=baseline,
        workload=Workload({1: 1.0}),
        objective=Objective(),
        budget=Budget(trials, hours),
        known_good=known_good,
        seed=seed,
        strategy="greedy_tpe",
    )


def run(
    spec: StudySpec,
    node: Node,
    folder: Path,
    *,
    validity: Validity = ANYTHING,
    events: list[StudyEvent] | None = None,
) -> str:
    """Runs the study, with the node's results so far as its history."""
    return run_study(
        spec,
        evaluate=node.evaluate,
        validity=validity,
        history=tuple(node.results),
        storage=folder / "journal.log",
        on_event=None if events is None else events.append,
    )


def ledger_of(space: SearchSpace, results: Sequence[TrialResult] = (), validity: Validity = ANYTHING) -> Ledger:
    return Ledger(space, validity, results)
