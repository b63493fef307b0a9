"""What the search makes of trials that break the SLO."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_up_node import BASELINE, KNOWN_GOOD, SPECULATION, Node, ledger_of, parameter, result, run, space_of, spec_of
from optuna.trial import TrialState

from autotune.domain.configuration import Configuration, Value
from autotune.domain.measurement import Estimate, Measurement, Objective
from autotune.domain.slo import Slo, SloCheck
from autotune.domain.space import Values
from autotune.domain.trial import TrialRequest, TrialResult
from autotune.study.greedy import next_greedy
from autotune.study.model.slo_chance import SloChance
from autotune.study.optuna_space import outcome
from autotune.study.sampler import Sampler
from autotune.study.strategies import proposer


def ttft(violation: float | None, level: int = 1) -> SloCheck:
    observed = None if violation is None else 500.0 * (1 + violation)
    return SloCheck("ttft_p95_ms", level, 500.0, observed, violation, 100)


def breaking(number: int, configuration: Configuration, score: float, *violations: float | None) -> TrialResult:
    checks = tuple(ttft(violation, 2**place) for place, violation in enumerate(violations))
    return replace(result(number, configuration, score), slo=checks)


GRAPHS = space_of(parameter("graph", Values((64, 128, 256))))
PROTOCOLS = space_of(parameter("graph", Values((64, 128, 256))), parameter("proto", Values((None, "LL"))))


def graph(size: int) -> Configuration:
    return Configuration({"graph": size})


def test_the_ledgers_best_keeps_to_the_slo_however_fast_another_is() -> None:
    ledger = ledger_of(GRAPHS, [breaking(0, graph(64), 1.0, -0.1), breaking(1, graph(128), 9.0, 0.2)])
    assert ledger.best is ledger.results[0]
    assert ledger.score(graph(128)) == 9.0


def test_among_those_that_break_it_the_least_violating_is_the_best() -> None:
    ledger = ledger_of(GRAPHS, [breaking(0, graph(64), 9.0, 0.5), breaking(1, graph(128), 1.0, 0.2, -0.9)])
    assert ledger.best is ledger.results[1]


def greedy_after(*results: TrialResult) -> Configuration | None:
    return next_greedy(ledger_of(PROTOCOLS, results), results[0].configuration, [])


def test_a_faster_configuration_that_breaks_the_slo_does_not_become_the_one_that_the_pass_goes_on_from() -> None:
    base = Configuration({"graph": 128, "proto": None})
    rest = (breaking(1, base.replace(graph=64), 0.5, -0.5), breaking(2, base.replace(graph=256), 9.0, 0.1))
    assert greedy_after(breaking(0, base, 1.0, -0.5), *rest) == base.replace(proto="LL")
    assert greedy_after(breaking(0, base, 1.0, 0.2), *rest[1:]) == base.replace(graph=64)


def test_where_the_start_breaks_it_by_more_the_pass_goes_on_from_what_breaks_it_by_less() -> None:
    base = Configuration({"graph": 128, "proto": None})
    rest = (breaking(1, base.replace(graph=64), 0.5, 0.3), breaking(2, base.replace(graph=256), 0.1, 0.1))
    assert greedy_after(breaking(0, base, 1.0, 0.2), *rest) == base.replace(graph=256, proto="LL")


def test_a_breach_is_complete_with_its_score_and_a_constraint_for_each_bound() -> None:
    state, value, constraints = outcome(breaking(1, KNOWN_GOOD, 3.5, 1.0, -0.2))
    assert (state, value) == (TrialState.COMPLETE, 3.5)
    assert constraints == {"launches": -1.0, "slo.ttft_p95_ms.1": 0.25, "slo.ttft_p95_ms.2": -0.1}


@pytest.mark.parametrize("violations", [(1e6, 1e6, 1e6), (None, None)])
def test_no_breach_counts_for_more_than_a_server_that_did_not_start(violations: tuple[float | None, ...]) -> None:
    _state, _value, constraints = outcome(breaking(1, KNOWN_GOOD, 3.5, *violations))
    assert 0 < sum(value for value in constraints.values() if value > 0) < 1


def test_tpe_turns_to_what_keeps_to_the_slo() -> None:
    space = space_of(parameter("graph", Values((1, 2, 3, 4, 5, 6))), parameter("other", Values(tuple(range(40)))))
    history = [
        breaking(
            number,
            Configuration({"graph": 1 + number % 6, "other": number}),
            1.0 + number % 6,
            0.5 if number % 6 >= 2 else -0.5,
        )
        for number in range(30)
    ]
    sampler = Sampler(ledger_of(space, history), seed=0)
    proposed = [found for found in (sampler.propose() for _ in range(20)) if found is not None]
    assert sum(int(str(found["graph"])) <= 2 for found in proposed) > len(proposed) / 2, "6 is fastest, and breaks it"


def test_without_bounds_every_chance_is_one() -> None:
    chance = SloChance(GRAPHS)
    chance.learn([(graph(64), ())])
    assert chance.chances([graph(64), graph(256)]).tolist() == [1.0, 1.0]


def test_the_chance_is_learnt_from_how_far_like_configurations_were_from_the_bound() -> None:
    chance = SloChance(PROTOCOLS)
    seen = [
        (Configuration({"graph": size, "proto": proto}), (ttft(violation, 1), ttft(-0.9, 2)))
        for size, violation in ((64, -0.6), (128, -0.3))
        for proto in (None, "LL")
    ]
    chance.learn([*seen, (Configuration({"graph": 256, "proto": None}), (ttft(1.5, 1), ttft(-0.9, 2)))])
    low, unseen = chance.chances([Configuration({"graph": g, "proto": "LL"}) for g in (64, 256)])
    assert low > 0.9
    assert unseen < 0.3, "its other half broke the bound by far"


def test_a_floor_that_was_missed_by_all_and_a_figure_that_was_not_seen_speak_against_a_configuration() -> None:
    floor = SloCheck("per_request_rate", 1, 30.0, 0.0, 1.0, 100)
    for broken in (floor, ttft(None)):
        chance = SloChance(GRAPHS)
        chance.learn([(graph(64), (broken,)), (graph(128), (broken,))])
        assert np.all(chance.chances([graph(64)]) < 0.2)


def measured(number: int, configuration: Configuration, violation: float, rate: float) -> TrialResult:
    seen = Measurement(1, 10, 10, output_throughput=Estimate(rate, rate * 0.99, rate * 1.01))
    return replace(breaking(number, configuration, rate, violation), measurements=(seen,))


PROTOCOL = {None: 1.0, "LL": 1.1, "Simple": 0.9, "LL128": 1.05}
GRAPH = {32: (50.0, -0.7), 64: (70.0, -0.5), 128: (100.0, -0.3), 256: (150.0, 1.0), 512: (200.0, 2.0)}
"""Tokens a second, and by how much the bound is missed."""


def proposals(count: int, *, bounded: bool) -> list[Configuration]:
    space = space_of(parameter("graph", Values(tuple(GRAPH))), parameter("proto", Values(tuple(PROTOCOL))))
    base = Configuration({"graph": 128, "proto": None})
    spec = spec_of(space, baseline=base, known_good=())
    ledger, found = ledger_of(space), [base, base.replace(graph=512)]
    while len(found) < 2 + count:
        for configuration in found[len(ledger.results) :]:
            rate, violation = GRAPH[int(str(configuration["graph"]))]
            protocol = configuration["proto"]
            assert protocol is None or isinstance(protocol, str)
            told = measured(len(ledger.results), configuration, violation, rate * PROTOCOL[protocol])
            ledger.add(told if bounded else replace(told, slo=()))
        proposed = proposer(spec, ledger, Sampler(ledger, seed=0), "greybox").propose()
        assert proposed is not None
        found.append(proposed)
    return found[2:]


def test_the_grey_box_looks_where_the_slo_can_be_kept() -> None:
    beyond = [sum(c["graph"] in (256, 512) for c in proposals(8, bounded=bounded)) for bounded in (False, True)]
    assert beyond[0] >= 6, "the fastest"
    assert beyond[1] <= 3, "which break the bound"


def test_a_study_for_goodput_is_not_left_to_a_model_of_throughput() -> None:
    ledger = ledger_of(SPECULATION, [result(0, BASELINE, 1.0)])
    sampler = Sampler(ledger, seed=0)
    spec = replace(spec_of(), objective=Objective("weighted_goodput"))
    assert proposer(spec, ledger, sampler, "greybox") is sampler
    assert proposer(spec_of(), ledger, sampler, "greybox") is not sampler


class Bounded(Node):
    """`graph` 256 is the fastest, and breaks the SLO."""

    def evaluate(self, request: TrialRequest) -> TrialResult:
        found = super().evaluate(request)
        violation = 0.4 if request.configuration["graph"] == 256 else -0.4
        self.results[-1] = replace(found, slo=(ttft(violation),))
        return self.results[-1]


def test_a_study_ends_with_the_best_that_keeps_to_the_slo_and_a_resumed_one_repeats_nothing(tmp_path: Path) -> None:
    def speed(configuration: Mapping[str, Value]) -> float:
        return float(str(configuration["graph"])) * (1.2 if configuration["proto"] == "LL" else 1.0)

    spec = replace(spec_of(PROTOCOLS, baseline=Configuration({"graph": 64, "proto": None}), known_good=()), slo=Slo())
    node = Bounded(score=speed)
    run(replace(spec, budget=replace(spec.budget, trials=4)), node, tmp_path)
    run(spec, node, tmp_path)
    assert len(set(node.configurations)) == len(node.configurations) == 6
    ledger = ledger_of(PROTOCOLS, node.results)
    assert ledger.best is not None
    assert ledger.best.configuration == Configuration({"graph": 128, "proto": "LL"})
