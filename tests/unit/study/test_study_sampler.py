"""TPE over a space with conditions and constraints."""

from __future__ import annotations

import random

import pytest
from made_up_node import (
    BASELINE,
    KNOWN_GOOD,
    SPECULATION,
    failed,
    ledger_of,
    parameter,
    result,
    space_of,
    tokens_per_second,
)
from optuna.trial import TrialState

from autotune.domain import trial as words
from autotune.domain.configuration import Configuration, Value
from autotune.domain.space import Domain, FloatRange, IntRange, Values
from autotune.study.moves import random_configuration
from autotune.study.optuna_space import OptunaSpace
from autotune.study.sampler import DRAWS, Sampler


def test_results_are_told_with_their_value_and_infeasible_ones_as_pruned_with_a_violated_constraint() -> None:
    ledger = ledger_of(SPECULATION, [result(0, BASELINE, 3.5)])
    sampler = Sampler(ledger, seed=0)
    sampler.add(failed(1, KNOWN_GOOD, words.TrialState.INFEASIBLE))
    sampler.add(failed(2, KNOWN_GOOD, words.TrialState.FAILED))
    complete, pruned, fail = sampler.study.trials
    assert (complete.state, complete.value, complete.constraints) == (TrialState.COMPLETE, 3.5, {"launches": -1.0})
    assert (pruned.state, pruned.value, pruned.constraints) == (TrialState.PRUNED, None, {"launches": 1.0})
    assert (fail.state, fail.constraints) == (TrialState.FAIL, {})
    assert pruned.params == dict(KNOWN_GOOD)


def test_a_result_that_the_space_cannot_express_is_left_out() -> None:
    starting = [
        result(0, BASELINE.replace(graph=100), 1.0),
        result(1, BASELINE.without("attn"), 1.0),
        result(2, BASELINE.without("proto"), 1.0),
    ]
    sampler = Sampler(ledger_of(SPECULATION, starting), seed=0)
    (told,) = sampler.study.trials
    assert told.params == dict(BASELINE)  # a parameter that may be unset and is not named is unset


def test_illegal_draws_are_told_as_pruned_with_a_violated_constraint() -> None:
    space = space_of(parameter("a", IntRange(0, 9)), constraints=["a == 3"])
    sampler = Sampler(ledger_of(space), seed=1)
    assert sampler.propose() in (Configuration({"a": 3}), None)
    illegal = [trial for trial in sampler.study.trials if trial.params["a"] != 3]
    assert illegal
    assert all(trial.state is TrialState.PRUNED and trial.constraints == {"valid": 1.0} for trial in illegal)


def test_draws_of_what_was_measured_are_thrown_away_and_given_up_after_some() -> None:
    space = space_of(parameter("a", Values((True, False))))
    both = [result(0, Configuration({"a": True}), 1.0), result(1, Configuration({"a": False}), 2.0)]
    sampler = Sampler(ledger_of(space, both), seed=0)
    assert sampler.propose() is None
    drawn = sampler.study.trials[2:]
    assert len(drawn) == DRAWS
    assert {trial.state for trial in drawn} == {TrialState.FAIL}


def test_inactive_parameters_are_not_proposed() -> None:
    sampler = Sampler(ledger_of(SPECULATION), seed=0)
    proposed = [found for found in (sampler.propose() for _ in range(20)) if found is not None]
    assert {found["spec"] for found in proposed} == {None, "EAGLE3"}
    for found in proposed:
        assert ("steps" in found) == (found["spec"] is not None)
        assert ("tokens" in found) == (found.get("topk") in (2, 4))


def test_it_proposes_better_configurations_than_chance_once_it_has_seen_some() -> None:
    rng = random.Random(0)
    ledger = ledger_of(SPECULATION)
    while len(ledger.results) < 40:
        drawn = random_configuration(SPECULATION, rng)
        if ledger.is_open(drawn) and ledger.is_legal(drawn):
            ledger.add(result(len(ledger.results), drawn, tokens_per_second(drawn)))
    by_chance = sorted(tokens_per_second(found.configuration) for found in ledger.results)
    sampler = Sampler(ledger, seed=0)
    proposed = [tokens_per_second(found) for found in (sampler.propose() for _ in range(10)) if found is not None]
    assert sorted(proposed)[len(proposed) // 2] > by_chance[len(by_chance) * 3 // 4]


def test_the_same_seed_and_history_propose_the_same() -> None:
    history = [result(0, BASELINE, 1.0), result(1, KNOWN_GOOD, 2.0)]
    first, second = (Sampler(ledger_of(SPECULATION, history), seed=5) for _ in range(2))
    assert [first.propose() for _ in range(5)] == [second.propose() for _ in range(5)]


def test_a_history_of_a_thousand_trials_still_gives_a_proposal() -> None:
    space = space_of(*(parameter(f"p{index}", IntRange(1, 50)) for index in range(4)))
    rng = random.Random(0)
    history = [result(number, random_configuration(space, rng), rng.random()) for number in range(1000)]
    sampler = Sampler(ledger_of(space, history), seed=0)
    assert sampler.propose() is not None
    assert len(sampler.study.trials) < 1000 + DRAWS


@pytest.mark.parametrize(
    ("domain", "value"),
    [
        (Values((True, 1, 1.0, "1", None)), True),
        (Values((True, 1, 1.0, "1", None)), 1),
        (Values((True, 1, 1.0, "1", None)), 1.0),
        (Values((True, 1, 1.0, "1", None)), "1"),
        (Values((None, "LL")), None),
        (IntRange(3, 100, 7), 94),
        (IntRange(1, 4096, log=True), 48),
        (FloatRange(0.7, 0.93, 0.1), 0.9),
        (FloatRange(1e-4, 1.0, log=True), 0.037),
        (FloatRange(0.5, 1.0), 1),
    ],
)
def test_a_value_comes_back_from_optuna_as_it_went(domain: Domain, value: Value) -> None:
    space = space_of(parameter("a", domain))
    told = OptunaSpace(space)
    found = told.frozen(Configuration({"a": value}), result(0, Configuration({"a": value}), 1.0))
    back = told.dimensions["a"].from_optuna(found.params["a"])
    assert back == value
    assert isinstance(back, float) if isinstance(domain, FloatRange) else type(back) is type(value)


@pytest.mark.parametrize(
    ("domain", "value"),
    [(Values((1, 2)), True), (IntRange(3, 100, 7), 4), (FloatRange(0.7, 0.9, 0.1), 0.75), (FloatRange(0.7, 0.9), 1.0)],
)
def test_a_value_outside_the_domain_is_not_told(domain: Domain, value: Value) -> None:
    assert OptunaSpace(space_of(parameter("a", domain))).parameters(Configuration({"a": value})) is None
