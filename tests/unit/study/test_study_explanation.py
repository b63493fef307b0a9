"""What a study says of its factors beside their effects: what was never tried, importances, and the whole."""

from __future__ import annotations

import functools
import tempfile
from dataclasses import replace
from pathlib import Path

from builders import measurement
from made_up_node import BASELINE, KNOWN_GOOD, SPECULATION, Node, failed, parameter, result, run, space_of, spec_of

from autotune.domain.configuration import Configuration
from autotune.domain.explanation import FASTER
from autotune.domain.knowledge import Knowledge, Prior
from autotune.domain.space import IntRange, Values
from autotune.domain.trial import TrialResult, TrialState
from autotune.study.explaining.explanation import explain
from autotune.study.explaining.importance import FEWEST, importances
from autotune.study.explaining.untried import untried_pairs, untried_values

SPEC = spec_of(trials=24)


@functools.cache
def ended() -> tuple[TrialResult, ...]:
    node = Node()
    with tempfile.TemporaryDirectory() as folder:
        run(SPEC, node, Path(folder))
    return tuple(node.results)


def test_values_that_no_trial_had_are_told_from_those_that_only_crashed_or_were_interrupted() -> None:
    cut_off = replace(failed(2, BASELINE.replace(graph=64), TrialState.INTERRUPTED), measurements=(measurement(1),))
    before_its_launch = failed(3, BASELINE.replace(graph=32), TrialState.INTERRUPTED)
    died = failed(1, BASELINE.replace(attn="triton"), TrialState.INFEASIBLE)
    trials = [result(0, BASELINE, 1.0), died, cut_off, before_its_launch]
    untried = {one.parameter: one for one in untried_values(SPECULATION, trials)}
    assert untried["attn"].values == ("trtllm",)
    assert untried["attn"].unfinished == ("triton",)
    assert untried["graph"].values == ("32", "256")
    assert untried["graph"].unfinished == ("64",)
    assert untried["v2"].values == ("true", "false")


def test_of_a_range_only_its_levels_are_asked_for() -> None:
    space = space_of(parameter("n", IntRange(1, 100)), parameter("b", Values((True, False))))
    trials = [result(i, Configuration({"n": n, "b": True}), 1.0) for i, n in enumerate((1, 26, 50, 75, 100))]
    names = [one.parameter for one in untried_values(space, trials)]
    assert "b" in names
    assert len(untried_values(space, [])[0].values) == 5


def test_pairs_of_switches_that_were_each_tried_and_never_together_are_listed() -> None:
    space = space_of(parameter("a", Values((None, "x"))), parameter("b", Values((True, False))))
    points = ({"a": None, "b": True}, {"a": "x", "b": True}, {"a": None, "b": False})
    trials = [result(i, Configuration(point), 1.0) for i, point in enumerate(points)]
    assert untried_pairs(space, trials) == ("a=x with b=false",)


def test_a_pair_that_the_law_forbids_is_not_missing() -> None:
    both = parameter("a", Values((None, "x"))), parameter("b", Values((True, False)))
    space = space_of(*both, constraints=["not (a == x and b == false)"])
    points = ({"a": None, "b": True}, {"a": "x", "b": True}, {"a": None, "b": False})
    trials = [result(i, Configuration(point), 1.0) for i, point in enumerate(points)]
    assert untried_pairs(space, trials) == ()


def test_a_list_of_numbers_is_no_switch_and_one_that_conditions_name_is() -> None:
    points = (BASELINE, KNOWN_GOOD, KNOWN_GOOD.replace(topk=2, tokens=4, v2=False, graph=64, proto="LL"))
    trials = [result(number, point, 1.0) for number, point in enumerate(points)]
    named = {word.split("=")[0] for pair in untried_pairs(SPECULATION, trials) for word in pair.split(" with ")}
    assert "graph" not in named
    assert "topk" in named


def test_importances_sum_to_one_over_the_parameters_that_every_trial_has() -> None:
    shares, note = importances(SPEC, ended())
    assert set(shares) == {"graph", "spec", "attn", "proto"}
    assert abs(sum(shares.values()) - 1.0) < 1e-9
    assert "not of steps, topk, tokens, v2" in note


def test_too_few_trials_have_no_importances_and_the_reason_is_told() -> None:
    shares, note = importances(SPEC, ended()[: FEWEST - 1])
    assert shares == {}
    assert f"{FEWEST} are needed" in note


def test_the_explanation_of_a_whole_study_knows_its_largest_effect() -> None:
    known = explain(SPEC, ended())
    by_value = {(e.parameter, e.before, e.after): e.ratio.value for e in known.effects}
    assert by_value["proto", "unset", "LL"] > 1.15
    assert by_value["attn", "flashinfer", "triton"] > 1.05
    assert all(effect.verdict != FASTER for effect in known.effects), "the made-up node gives no intervals"


def test_what_a_warm_start_brought_is_no_evidence() -> None:
    prior = Prior(BASELINE.replace(graph=32), "run-a", 1, {1: 5.0})
    warm = replace(SPEC, earlier=Knowledge(runs=("run-a",), priors=(prior,)))
    assert explain(warm, ended()) == explain(SPEC, ended())


def test_a_study_without_trials_explains_nothing_and_does_not_fail() -> None:
    known = explain(SPEC, ())
    assert known.effects == ()
    assert known.untried_pairs == ()
    assert known.launch_spread is None
