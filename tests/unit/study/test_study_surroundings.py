"""Which changes around the best configuration the model is asked about."""

from __future__ import annotations

from collections.abc import Sequence

from made_up_node import space_of
from made_up_throughput import SPACE

from autotune.domain.configuration import Configuration
from autotune.domain.space import Parameter, Values
from autotune.study.explaining.surroundings import MOST_VALUES, Step, Surroundings

BASELINE = Configuration({"speculative_algorithm": None, "graph": 64, "NCCL_PROTO": None, "backend": "a"})
BEST = Configuration(
    {"speculative_algorithm": "E", "speculative_num_steps": 2, "graph": 256, "NCCL_PROTO": "LL", "backend": "b"}
)


def around(best: Configuration, served: Sequence[Configuration], died: Sequence[Configuration] = ()) -> list[Step]:
    return Surroundings(SPACE, best, [best, *served], died).steps(BASELINE)


def told(steps: Sequence[Step]) -> set[tuple[str, str, str]]:
    return {(step.parameter, step.before, step.after) for step in steps}


def test_a_change_goes_from_the_baselines_value_to_each_that_served_with_all_else_as_the_best_has_it() -> None:
    steps = around(BEST, [BASELINE, BEST.replace(graph=16)])
    assert ("graph", "64", "256") in told(steps)
    assert ("graph", "64", "16") in told(steps)
    step = next(step for step in steps if step.after == "256")
    assert step.low == BEST.replace(graph=64)
    assert step.high == BEST


def test_a_value_that_served_nowhere_is_not_asked_about() -> None:
    assert ("backend", "a", "c") not in told(around(BEST, [BASELINE]))
    assert ("backend", "a", "b") in told(around(BEST, [BASELINE]))


def test_a_switch_brings_what_hangs_on_it() -> None:
    step = next(step for step in around(BEST, [BASELINE]) if step.parameter == "speculative_algorithm")
    assert (step.before, step.after, step.brought) == ("unset", "E", ("speculative_num_steps=2",))
    assert "speculative_num_steps" not in step.low


def test_what_the_baseline_does_not_have_starts_from_the_bests_own_value() -> None:
    steps = around(BEST, [BASELINE, BEST.replace(speculative_num_steps=4)])
    assert ("speculative_num_steps", "2", "4") in told(steps)


def test_a_server_known_to_die_is_not_asked_about_and_is_no_reference() -> None:
    steps = around(BEST, [BASELINE, BEST.replace(graph=16)], died=[BEST.replace(graph=64)])
    assert ("graph", "256", "16") in told(steps)
    assert not any("64" in (step.before, step.after) for step in steps)


def test_a_change_that_needs_another_one_has_no_effect_of_its_own() -> None:
    first, second = Parameter("a", Values((1, 2))), Parameter("b", Values((1, 2)))
    space = space_of(first, second, constraints=["a == b"])
    best, other = Configuration({"a": 1, "b": 1}), Configuration({"a": 2, "b": 2})
    assert Surroundings(space, best, [best, other], []).steps(best) == []


def test_what_is_left_to_the_server_is_a_value_too() -> None:
    space = space_of(Parameter("a", Values((1, 2))), Parameter("b", Values((1, 2))))
    best, baseline = Configuration({"a": 2, "b": 1}), Configuration({"b": 1})
    steps = Surroundings(space, best, [best, baseline], []).steps(baseline)
    assert told(steps) == {("a", "(the server's default)", "2")}


def test_of_many_values_a_few_are_asked_about_and_the_bests_own_is_among_them() -> None:
    values = tuple(range(1, 41))
    space = space_of(Parameter("a", Values(values)))
    points = [Configuration({"a": value}) for value in (7, *values)]
    steps = Surroundings(space, points[0], points, []).steps(Configuration({"a": 3}))
    assert len(steps) == MOST_VALUES - 1
    assert "7" in {step.after for step in steps}


def test_a_square_has_neither_change_the_first_the_second_and_both() -> None:
    surroundings = Surroundings(SPACE, BEST, [BEST, BASELINE], [])
    steps = {step.parameter: step for step in surroundings.steps(BASELINE)}
    corners = surroundings.square(steps["NCCL_PROTO"], steps["backend"])
    assert corners is not None
    assert [(c["NCCL_PROTO"], c["backend"]) for c in corners] == [(None, "a"), ("LL", "a"), (None, "b"), ("LL", "b")]


def test_a_switch_and_what_hangs_on_it_make_no_square() -> None:
    surroundings = Surroundings(SPACE, BEST, [BEST, BASELINE, BEST.replace(speculative_num_steps=4)], [])
    steps = {step.parameter: step for step in surroundings.steps(BASELINE)}
    assert surroundings.square(steps["speculative_algorithm"], steps["speculative_num_steps"]) is None
