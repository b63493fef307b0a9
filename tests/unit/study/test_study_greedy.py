"""The factor pass: what it proposes, in which order, and what it makes of couplings."""

from __future__ import annotations

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

from autotune.domain.configuration import Configuration
from autotune.domain.space import IntRange, SearchSpace, Values
from autotune.domain.trial import TrialResult, TrialState
from autotune.study.greedy import factor_order, next_greedy


def whole_pass(
    space: SearchSpace, baseline: Configuration, *known_good: Configuration
) -> tuple[list[Configuration], list[TrialResult]]:
    """The proposals of one pass, and all results with the starting ones before them."""
    starting = [baseline, *known_good]
    results = [result(number, start, tokens_per_second(start)) for number, start in enumerate(starting)]
    proposals: list[Configuration] = []
    while (proposal := next_greedy(ledger_of(space, results), baseline, known_good)) is not None:
        assert len(proposals) < 200
        proposals.append(proposal)
        results.append(result(len(results), proposal, tokens_per_second(proposal)))
    return proposals, results


def test_it_finds_the_optimum_of_a_separable_surface() -> None:
    _proposals, results = whole_pass(SPECULATION, BASELINE, KNOWN_GOOD)
    best = max(results, key=lambda found: found.score.estimate.value if found.score else 0.0)
    assert best.configuration == KNOWN_GOOD.replace(steps=5, graph=256, attn="triton", proto="LL")


def test_it_changes_one_factor_of_the_best_so_far_at_a_time() -> None:
    flat = space_of(parameter("graph", Values((64, 128, 256))), parameter("proto", Values((None, "LL", "Simple"))))
    baseline = Configuration({"graph": 128, "proto": None})
    proposals, _results = whole_pass(flat, baseline)
    assert proposals == [
        Configuration({"graph": 64, "proto": None}),
        Configuration({"graph": 256, "proto": None}),
        Configuration({"graph": 256, "proto": "LL"}),
        Configuration({"graph": 256, "proto": "Simple"}),
    ]


def test_parameters_that_switch_others_on_come_first() -> None:
    assert [p.name for p in factor_order(SPECULATION)] == [
        "spec", "topk", "graph", "steps", "tokens", "v2", "attn", "proto",
    ]  # fmt: skip


def test_what_a_change_switches_on_takes_the_values_of_the_known_good_configuration() -> None:
    slow = KNOWN_GOOD.replace(steps=6, v2=False, attn="trtllm", proto="Simple", graph=32)
    results = [result(0, BASELINE, 90.0), result(1, slow, 40.0)]
    proposal = next_greedy(ledger_of(SPECULATION, results), BASELINE, [slow])
    assert proposal == BASELINE.replace(spec="EAGLE3", steps=6, topk=1, v2=False)


def test_what_a_change_switches_on_and_nobody_knows_takes_the_first_legal_level() -> None:
    space = space_of(
        parameter("spec", Values((None, "EAGLE3"))),
        parameter("steps", IntRange(1, 4), "spec != unset"),
        parameter("topk", Values((1, 2)), "spec != unset"),
        constraints=["steps >= 3", "topk * steps >= 6"],
    )
    baseline = Configuration({"spec": None})
    proposal = next_greedy(ledger_of(space, [result(0, baseline, 1.0)]), baseline, [])
    assert proposal == Configuration({"spec": "EAGLE3", "steps": 3, "topk": 2})


def test_what_a_change_switches_off_is_dropped() -> None:
    measured = ledger_of(SPECULATION, [result(0, KNOWN_GOOD, 2.0)])
    assert next_greedy(measured, KNOWN_GOOD, []) == BASELINE


def test_where_a_constraint_couples_two_factors_the_other_one_gives_way() -> None:
    proposals, _results = whole_pass(SPECULATION, BASELINE, KNOWN_GOOD)
    wider = next(found for found in proposals if found.get("topk") == 2)
    assert wider == KNOWN_GOOD.replace(topk=2, tokens=2, v2=False)


def test_a_level_that_cannot_be_legal_is_skipped() -> None:
    space = space_of(parameter("graph", Values((64, 128, 256))), constraints=["graph != 256"])
    baseline = Configuration({"graph": 128})
    proposals, _results = whole_pass(space, baseline)
    assert proposals == [Configuration({"graph": 64})]


def test_a_range_is_tried_at_five_levels_over_its_width() -> None:
    space = space_of(parameter("graph", IntRange(1, 1_000_000_001)))
    proposals, _results = whole_pass(space, Configuration({"graph": 7}))
    assert [found["graph"] for found in proposals] == [1, 250_000_001, 500_000_001, 750_000_001, 1_000_000_001]


def test_a_level_that_is_infeasible_or_failed_twice_is_passed_over() -> None:
    space = space_of(parameter("graph", Values((64, 128, 256, 512))))
    baseline = Configuration({"graph": 128})
    crashed = [
        result(0, baseline, 1.0),
        failed(1, Configuration({"graph": 64}), TrialState.INFEASIBLE),
        failed(2, Configuration({"graph": 256}), TrialState.FAILED),
    ]
    assert next_greedy(ledger_of(space, crashed), baseline, []) == Configuration({"graph": 256})
    crashed.append(failed(3, Configuration({"graph": 256}), TrialState.FAILED))
    assert next_greedy(ledger_of(space, crashed), baseline, []) == Configuration({"graph": 512})


@pytest.mark.parametrize("score", [0.1, 1000.0])
def test_results_from_outside_the_pass_do_not_steer_its_replay(score: float) -> None:
    _proposals, results = whole_pass(SPECULATION, BASELINE, KNOWN_GOOD)
    outside = KNOWN_GOOD.replace(topk=4, tokens=8, v2=False, attn="trtllm")
    for kept in range(2, len(results)):
        alone = next_greedy(ledger_of(SPECULATION, results[:kept]), BASELINE, [KNOWN_GOOD])
        joined = [*results[:kept], result(100, outside, score)]
        assert next_greedy(ledger_of(SPECULATION, joined), BASELINE, [KNOWN_GOOD]) == alone


def test_a_baseline_that_leaves_a_factor_to_the_server_keeps_it_so() -> None:
    space = space_of(parameter("graph", Values((64, 256))), parameter("attn", Values(("flashinfer", "triton"))))
    baseline = Configuration({"attn": "flashinfer"})
    proposals, _results = whole_pass(space, baseline)
    assert proposals[0] == Configuration({"attn": "flashinfer", "graph": 64})
    assert proposals[1] == Configuration({"attn": "flashinfer", "graph": 256})


def test_a_factor_that_the_baseline_does_not_name_counts_as_unset_where_that_is_a_value() -> None:
    space = space_of(parameter("proto", Values((None, "LL"))))
    proposals, _results = whole_pass(space, Configuration({}))
    assert proposals == [Configuration({"proto": "LL"})]


def test_what_the_baseline_pins_beside_the_space_stays() -> None:
    space = space_of(parameter("graph", Values((64, 256))))
    proposals, _results = whole_pass(space, Configuration({"graph": 64, "mem_fraction": 0.8}))
    assert proposals == [Configuration({"graph": 256, "mem_fraction": 0.8})]


def test_without_a_score_to_start_from_there_is_no_pass() -> None:
    assert next_greedy(ledger_of(SPECULATION), BASELINE, [KNOWN_GOOD]) is None
