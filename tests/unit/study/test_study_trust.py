"""Whether a model is believed, and which: judged by what it foretells of the objective."""

import math
import random
from dataclasses import replace

import numpy as np
import pytest
from made_up_throughput import LEVELS, SPACE, candidates, observation

from autotune.domain.configuration import Configuration, Value
from autotune.domain.measurement import Objective
from autotune.domain.space import Parameter, SearchSpace, Values
from autotune.domain.workload import Workload
from autotune.study.model.goal import Goal
from autotune.study.model.greybox import GreyBox, Observation
from autotune.study.model.likeness import Likeness
from autotune.study.model.trust import foretellable, trust

SEVENTEEN = candidates()[::6]


def test_what_is_foretold_exactly_is_trusted_wholly_and_what_is_no_better_than_the_mean_not_at_all():
    seen = np.array([1.0, 2.0, 4.0])
    others = np.array([3.0, 2.5, 1.5])  # of each, the mean of the other two
    assert trust(seen, seen, "abc") == 1.0
    assert trust(seen, others, "abc") == pytest.approx(0.0)
    assert trust(seen, -seen, "abc") < 0


def test_replicates_of_one_configuration_count_once():
    seen = np.array([1.0, 2.0, 4.0, 4.1, 3.9, 4.0])
    foretold = np.array([1.0, 2.0, 0.0, 0.0, 0.0, 0.0])
    assert trust(seen, foretold, "abcccc") == pytest.approx(trust(seen[:3], foretold[:3], "abc"))


@pytest.mark.parametrize(("seen", "names"), [([1.0, 2.0], "ab"), ([1.0, 2.0, 3.0], "aab"), ([2.0] * 3, "abc")])
def test_too_few_configurations_or_none_that_differ_say_nothing(seen: list[float], names: str):
    assert trust(np.array(seen), np.array(seen), names) is None


def judged(observations: list[Observation], *, decompose: bool = True, weights=None) -> float:
    model = GreyBox(SPACE, LEVELS, decompose=decompose)
    model.fit(observations)
    goal = Goal(Workload(weights or dict.fromkeys(LEVELS, 1.0)), Objective(Objective.METRICS[1]))
    seen = np.log([[o.throughput[level] for level in LEVELS] for o in observations])
    found = trust(goal.value(seen), goal.value(model.left_out()), [o.configuration for o in observations])
    assert found is not None
    return found


def lottery(observed: Observation, rng: random.Random, levels=LEVELS) -> Observation:
    drawn = {level: 100 * math.exp(rng.gauss(0, 1)) for level in levels}
    return replace(observed, throughput={**observed.throughput, **drawn})


def test_a_separable_node_is_foretold_and_a_lottery_is_not():
    rng = random.Random(3)
    separable = [observation(c, rng) for c in SEVENTEEN]
    assert judged(separable) > 0.9
    assert judged([lottery(o, rng) for o in separable]) < 0.2


def test_an_accept_length_that_says_nothing_of_the_throughput_costs_the_decomposition_its_trust_not_the_plain_model():
    """The time of a cycle is then foretold well, being spread by the same accept length that it is divided by."""
    rng = random.Random(4)
    observations = []
    for configuration in SEVENTEEN:
        honest = observation(configuration, rng)
        wrong = math.exp(rng.gauss(0.0, 1.0))
        observations.append(replace(honest, accept={level: value * wrong for level, value in honest.accept.items()}))
    assert judged(observations) < 0.2
    assert judged(observations, decompose=False) > 0.5


def test_only_what_the_objective_weighs_counts():
    rng = random.Random(5)
    observations = [lottery(observation(c, rng), rng, levels=(64,)) for c in SEVENTEEN]
    assert judged(observations, weights={1: 1.0, 8: 1.0, 64: 1e-6}) > 0.8
    assert judged(observations, weights={1: 1e-6, 8: 1e-6, 64: 1.0}) < 0.2


def test_a_configuration_is_not_foretold_by_its_own_replicates():
    rng = random.Random(6)
    drawn = [lottery(observation(c, rng), rng) for c in SEVENTEEN[:8]]
    assert judged([*drawn, *drawn, *drawn]) < 0.2


def likeness_of(**values: tuple[Value, ...]) -> Likeness:
    return Likeness(SearchSpace(tuple(Parameter(name, Values(choices)) for name, choices in values.items())))


def test_what_only_one_configuration_has_cannot_be_foretold_unless_it_lies_among_numbers() -> None:
    likeness = likeness_of(proto=(None, "LL"), algo=("ring",), size=(8, 16, 64), cuda=(True, False))
    base = Configuration({"proto": None, "algo": "ring", "size": 8, "cuda": True})
    words = [base.replace(proto="LL"), base.replace(cuda=False)]
    number = base.replace(size=64)
    assert foretellable(likeness, [base, *words, number, base]) == [0, 3, 4]
    assert foretellable(likeness, [base, *words, number, words[0].replace(size=16)]) == [0, 1, 3, 4]


def test_one_number_beside_words_cannot_be_foretold_nor_can_a_parameter_that_is_missing_once() -> None:
    likeness = likeness_of(p2p_disable=(None, 1), steps=(3, 4))
    off = Configuration({"p2p_disable": None, "steps": 3})
    assert foretellable(likeness, [off, off.replace(steps=4), off.replace(p2p_disable=1)]) == [0, 1]
    assert foretellable(likeness, [off, off.replace(steps=4), off.without("steps")]) == [0, 1]
    assert foretellable(likeness, []) == []
