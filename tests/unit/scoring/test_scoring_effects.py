"""Effects of factors, against synthetic trials whose true effects are known."""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from autotune.domain.configuration import Configuration, Value
from autotune.domain.explanation import FASTER, SLOWER, UNCLEAR, Effect, Interaction
from autotune.domain.expression import parse
from autotune.domain.measurement import Estimate, Measurement, Objective, Score
from autotune.domain.space import Parameter, SearchSpace, Values
from autotune.domain.trial import Origin, TrialResult, TrialState
from autotune.scoring import effects, evidence, interactions, settings
from autotune.scoring.student import exceedance, t_quantile

SPACE = SearchSpace(
    (
        Parameter("graph", Values((32, 64, 128))),
        Parameter("backend", Values(("a", "b"))),
        Parameter("proto", Values((None, "LL", "Simple"))),
    )
)
TRUE: Mapping[str, Mapping[Value, float]] = {
    "graph": {32: 0.0, 64: 0.05, 128: -0.03},
    "backend": {"a": 0.0, "b": 0.02},
    "proto": {None: 0.0, "LL": 0.08, "Simple": -0.02},
}
BASELINE = Configuration({"graph": 32, "backend": "a", "proto": None})
WEIGHTS = {1: 1.0, 8: 1.0}
SPEEDUP = Objective("weighted_speedup")
BATCHES = 20


def log_speed(configuration: Mapping[str, Value]) -> float:
    return sum(TRUE[name][value] for name, value in configuration.items())


class Node:
    """Measures with an error of the window and one of the launch, and gives intervals that know only the window's."""

    def __init__(
        self, seed: int, window: float = 0.01, launch: float = 0.0, speed: Callable[..., float] = log_speed
    ) -> None:
        self.rng, self.window, self.launch, self.speed = random.Random(seed), window, launch, speed
        self.trials: list[TrialResult] = []

    def measure(self, configuration: Configuration) -> TrialResult:
        launch = self.rng.gauss(0, self.launch)
        levels = tuple(self.level(configuration, level, launch) for level in WEIGHTS)
        rates = [m.output_throughput.value / m.concurrency for m in levels if m.output_throughput]
        score = Score("weighted_speedup", Estimate(math.prod(rates) ** 0.5 / 100))
        found = TrialResult(
            len(self.trials),
            configuration,
            Origin.GREEDY,
            TrialState.COMPLETE,
            "",
            60.0,
            measurements=levels,
            score=score,
        )
        self.trials.append(found)
        return found

    def level(self, configuration: Configuration, level: int, launch: float) -> Measurement:
        value = 100.0 * level * math.exp(self.speed(configuration) + launch + self.rng.gauss(0, self.window))
        spread = sum(self.rng.gauss(0, 1) ** 2 for _ in range(BATCHES - 1)) / (BATCHES - 1)
        half = t_quantile(BATCHES - 1) * self.window * math.sqrt(spread) * value
        return Measurement(level, 40, 40, output_throughput=Estimate(value, value - half, value + half, BATCHES))

    def greedy_pass(self, repeat_baseline_every: int = 0) -> list[TrialResult]:
        best = self.measure(BASELINE)
        for parameter in SPACE.parameters:
            for value in parameter.domain.grid():
                if best.configuration[parameter.name] == value:
                    continue
                if repeat_baseline_every and len(self.trials) % repeat_baseline_every == 0:
                    self.measure(BASELINE)
                tried = self.measure(best.configuration.replace(**{parameter.name: value}))
                if tried.score and best.score and tried.score.estimate.value > best.score.estimate.value:
                    best = tried
        return self.trials

    def random_pass(self, count: int) -> list[TrialResult]:
        self.measure(BASELINE)
        for _ in range(count):
            drawn = {p.name: self.rng.choice(p.domain.grid()) for p in SPACE.parameters}
            self.measure(Configuration(drawn))
        return self.trials


def found(trials: list[TrialResult], space: SearchSpace = SPACE, objective: Objective = SPEEDUP) -> list[Effect]:
    return list(effects(evidence(space, trials, settings(space, BASELINE), objective, WEIGHTS)))


def interacting(trials: list[TrialResult]) -> tuple[tuple[Interaction, ...], int]:
    return interactions(evidence(SPACE, trials, settings(SPACE, BASELINE), SPEEDUP, WEIGHTS))


def truth(effect: Effect) -> float:
    values = {str(value) if value is not None else "unset": true for value, true in TRUE[effect.parameter].items()}
    return values[effect.after] - values[effect.before]


def holds(ratio: Estimate, effect: Effect) -> bool:
    return ratio.low is not None and ratio.high is not None and ratio.low <= math.exp(truth(effect)) <= ratio.high


@functools.cache
def coverage(kind: str) -> tuple[float, float]:
    """Share of the intervals that hold the truth: of the objective, and of the levels."""
    score, levels = [], []
    for seed in range(60):
        if kind == "greedy":
            trials = Node(seed).greedy_pass()
        elif kind == "launches":
            trials = Node(seed, window=0.005, launch=0.008).greedy_pass(repeat_baseline_every=2)
        else:
            trials = Node(seed).random_pass(14)
        for effect in found(trials):
            score.append(holds(effect.ratio, effect))
            levels += [holds(ratio, effect) for ratio in effect.per_level.values()]
    return sum(score) / len(score), sum(levels) / len(levels)


@pytest.mark.parametrize("kind", ["greedy", "launches", "random"])
def test_nine_to_ninety_nine_of_a_hundred_intervals_hold_the_true_effect(kind: str) -> None:
    score, levels = coverage(kind)
    assert 0.90 <= score <= 0.99
    assert 0.90 <= levels <= 0.99


def test_without_repeats_the_spread_between_launches_is_unknown_and_with_them_it_is_found() -> None:
    once, repeated = Node(1, 0.002, 0.01).greedy_pass(), Node(1, 0.002, 0.01).greedy_pass(repeat_baseline_every=1)
    spreads = [
        evidence(SPACE, trials, settings(SPACE, BASELINE), SPEEDUP, WEIGHTS).spread for trials in (once, repeated)
    ]
    assert spreads[0].freedom == 0
    assert spreads[1].freedom >= 4
    assert 0.004 < math.sqrt(spreads[1].variance) < 0.025


def test_the_launches_of_a_confirmation_tell_the_spread_and_are_compared_with_nothing() -> None:
    node = Node(2, 0.002, 0.01)
    trials = node.greedy_pass()
    again = [replace(node.measure(BASELINE), origin=Origin.CONFIRMATION) for _ in range(5)]
    known = evidence(SPACE, [*trials[:-5], *again], settings(SPACE, BASELINE), SPEEDUP, WEIGHTS)
    assert known.spread.freedom == 4
    assert {number for effect in effects(known) for number in effect.trials} <= {t.number for t in trials[:-5]}


def test_a_clear_effect_is_named_and_one_within_the_noise_is_unclear_and_not_zero() -> None:
    by_value = {(e.parameter, e.after): e for e in found(Node(3, window=0.004).greedy_pass())}
    assert by_value["graph", "64"].verdict == FASTER
    assert by_value["graph", "128"].verdict == SLOWER
    flat = found(Node(4, window=0.03).greedy_pass())
    unclear = next(e for e in flat if e.parameter == "backend")
    assert unclear.verdict == UNCLEAR
    assert unclear.ratio.value != 1.0


def test_two_values_that_were_never_measured_together_are_compared_over_a_third() -> None:
    node = Node(5, window=0.001)
    for proto, graph in ((None, 32), (None, 64), ("LL", 64), ("LL", 128)):
        node.measure(Configuration({"graph": graph, "backend": "a", "proto": proto}))
    by_value = {e.after: e for e in found(node.trials) if e.parameter == "graph"}
    assert by_value["128"].ratio.value == pytest.approx(math.exp(-0.03), rel=0.006)


def test_what_no_chain_of_comparisons_connects_is_not_compared() -> None:
    node = Node(6)
    node.measure(BASELINE)
    node.measure(Configuration({"graph": 64, "backend": "b", "proto": None}))
    assert found(node.trials) == []


def test_one_server_under_two_names_is_no_comparison() -> None:
    node = Node(7)
    node.measure(BASELINE)
    copied = replace(node.measure(BASELINE.replace(graph=64)), duplicate_of=0)
    assert found([node.trials[0], copied]) == []


def test_a_figure_without_an_interval_gives_an_effect_without_one() -> None:
    node = Node(8)
    node.measure(BASELINE)
    bare = node.measure(BASELINE.replace(graph=64))
    levels = tuple(
        replace(m, output_throughput=Estimate(m.output_throughput.value))
        for m in bare.measurements
        if m.output_throughput
    )
    (effect,) = found([node.trials[0], replace(bare, measurements=levels)])
    assert effect.ratio.low is None
    assert effect.verdict == UNCLEAR


def test_a_switch_brings_what_its_value_makes_active_and_says_so() -> None:
    space = SearchSpace(
        (Parameter("spec", Values((None, "E"))), Parameter("steps", Values((1, 3)), when=parse("spec != unset")))
    )
    speeds = {"{}": 0.0, "1": 0.1, "3": 0.3}
    node = Node(9, window=0.001, speed=lambda c: speeds[str(c.get("steps", "{}"))])
    off = Configuration({"spec": None})
    for configuration in (off, Configuration({"spec": "E", "steps": 1}), Configuration({"spec": "E", "steps": 3})):
        node.measure(configuration)
    known = evidence(space, node.trials, settings(space, off), SPEEDUP, WEIGHTS)
    shown = {(e.parameter, e.after, e.brought): e.ratio.value for e in effects(known)}
    assert shown["spec", "E", ("steps=1",)] == pytest.approx(math.exp(0.1), rel=0.01)
    assert shown["spec", "E", ("steps=3",)] == pytest.approx(math.exp(0.3), rel=0.01)
    assert shown["steps", "3", ()] == pytest.approx(math.exp(0.2), rel=0.01)


def test_a_weighted_throughput_is_compared_as_the_objective_has_it() -> None:
    node = Node(10, window=0.0005)
    node.measure(BASELINE)
    node.measure(BASELINE.replace(graph=64))
    (effect,) = found(node.trials, objective=Objective("weighted_throughput"))
    assert effect.ratio.value == pytest.approx(math.exp(0.05), rel=0.005)


def squares(strength: float, seed: int, window: float = 0.004) -> list[TrialResult]:
    """Every configuration once; `graph` 64 and `proto` LL gain `strength` more together."""

    def speed(configuration: Mapping[str, Value]) -> float:
        both = configuration["graph"] == 64 and configuration["proto"] == "LL"
        return log_speed(configuration) + strength * both

    node = Node(seed, window=window, speed=speed)
    for configuration in SPACE.configurations():
        node.measure(configuration)
    return node.trials


def test_an_interaction_is_found_with_the_effect_under_either_setting() -> None:
    significant, looked_at = interacting(squares(0.10, seed=1))
    assert looked_at > len(significant) > 0
    assert all({one.parameter, *one.others} <= {"graph", "proto", "backend"} for one in significant)
    first = significant[0]
    assert {first.parameter, *first.others} == {"graph", "proto"}
    apart = abs(math.log(first.ratios[0].value / first.ratios[1].value))
    assert apart == pytest.approx(0.10, abs=0.02)


def test_where_nothing_interacts_one_study_in_twenty_at_most_finds_an_interaction() -> None:
    assert sum(bool(interacting(squares(0.0, seed)[:12])[0]) for seed in range(40)) <= 4


def test_factors_that_changed_together_are_named_together() -> None:
    node = Node(11, window=0.001, speed=lambda c: 0.2 * (c["graph"] == 64 and c["backend"] == "b"))
    for graph, backend, proto in ((32, "a", None), (64, "a", None), (32, "b", "LL"), (64, "b", "LL")):
        node.measure(Configuration({"graph": graph, "backend": backend, "proto": proto}))
    (one,), looked_at = interacting(node.trials)
    assert looked_at == 1
    assert one.parameter == "graph"
    assert one.others == ("backend", "proto")


def test_a_single_context_gives_no_interaction_to_look_at() -> None:
    node = Node(12)
    node.measure(BASELINE)
    node.measure(BASELINE.replace(graph=64))
    assert interacting(node.trials) == ((), 0)


@pytest.mark.parametrize(
    ("t", "freedom", "p"), [(2.228, 10, 0.05), (12.706, 1, 0.05), (1.96, math.inf, 0.05), (0, 5, 1)]
)
def test_the_two_sided_p_value_is_that_of_the_tables(t: float, freedom: float, p: float) -> None:
    assert exceedance(t, freedom) == pytest.approx(p, abs=2e-4)
