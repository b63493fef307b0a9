"""What a new study takes from earlier ones, and what it leaves."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_up_node import (
    ANYTHING,
    BASELINE,
    KNOWN_GOOD,
    SPECULATION,
    Node,
    failed,
    ledger_of,
    parameter,
    run,
    space_of,
    spec_of,
)

from autotune.domain.configuration import Configuration
from autotune.domain.knowledge import Knowledge, KnownCrash
from autotune.domain.measurement import Estimate, Measurement
from autotune.domain.slo import Slo
from autotune.domain.space import Values
from autotune.domain.study import StudySpec
from autotune.domain.trial import EngineVersion, FailureReason, Origin, Provenance, TrialResult, TrialState
from autotune.errors import InputError
from autotune.study import EarlierStudy, Here, StudyEvent, Validity, learn
from autotune.study.earlier.translation import translate
from autotune.study.earlier.warmth import hopeless
from autotune.study.greedy import factor_order
from autotune.study.model.prior import PriorResults, is_prior

FACTS = {"cpu": "made of paper", "gpu_names": "8 x PAPER"}
VERSION = EngineVersion("1.2", (1, 2), {"nccl": "2.28"})
BEST = KNOWN_GOOD.replace(steps=5, graph=256, attn="triton", proto="LL")
SPEC = spec_of(known_good=(), trials=24)


def here(**overrides: Any) -> Here:
    return replace(Here(FACTS, lambda _configuration: VERSION, ANYTHING), **overrides)


def recorded(result: TrialResult) -> TrialResult:
    """With a throughput for the one level, half an interval of 1 %, and a provenance."""
    known = Provenance("paper", "1.2", simulated=False, node={**FACTS, "nccl": "2.28"})
    result = replace(result, provenance=known)
    if result.score is None:
        return result
    value = result.score.estimate.value
    rate = Estimate(value, value * 0.99, value * 1.01, batches=20)
    return replace(result, measurements=(Measurement(1, 10, 10, output_throughput=rate, accept_length=2.0),))


@functools.cache
def ended() -> tuple[TrialResult, ...]:
    """Of a study of SPEC on the made-up node."""
    node = Node()
    with tempfile.TemporaryDirectory() as folder:
        run(SPEC, node, Path(folder))
    return tuple(node.results)


def finished(run_name: str = "run-a") -> EarlierStudy:
    return EarlierStudy(run_name, SPEC, tuple(recorded(result) for result in ended()))


def crashing(reason: FailureReason) -> EarlierStudy:
    """The baseline, and `proto` Simple and `attn` trtllm that died of `reason`, one of them twice."""
    dead = [
        BASELINE.replace(proto="Simple"),
        BASELINE.replace(proto="Simple", graph=64),
        BASELINE.replace(attn="trtllm"),
    ]
    trials = [Node().evaluate(_request(0, BASELINE))]
    for number, configuration in enumerate(dead, start=1):
        made = failed(number, configuration, TrialState.INFEASIBLE)
        assert made.failure is not None
        trials.append(replace(made, failure=replace(made.failure, reason=reason)))
    return EarlierStudy("run-c", SPEC, tuple(recorded(trial) for trial in trials))


def _request(number: int, configuration: Configuration) -> Any:
    from autotune.domain.trial import TrialRequest

    return TrialRequest(number, configuration, Origin.BASELINE)


def test_the_best_of_an_earlier_study_are_tried_right_after_the_baseline(tmp_path: Path) -> None:
    known = learn(SPEC, [finished()], here())
    assert known.known_good[0].configuration == BEST
    assert len(known.known_good) == 3
    assert known.known_good[0].speedup == pytest.approx(3.0, rel=0.4)
    node = Node()
    run(replace(SPEC, earlier=known), node, tmp_path / "new")
    assert node.configurations[:2] == [BASELINE, BEST]
    assert [r.origin for r in node.results[:5]] == [Origin.BASELINE, *[Origin.KNOWN_GOOD] * 3, Origin.GREEDY]


def test_no_earlier_figure_is_a_result_of_the_new_study(tmp_path: Path) -> None:
    known = learn(SPEC, [finished()], here())
    node, events = Node(score=lambda _configuration: 7.0), list[StudyEvent]()
    run(replace(SPEC, earlier=known, budget=replace(SPEC.budget, trials=6)), node, tmp_path / "new", events=events)
    told = [event.result for event in events if event.result is not None]
    assert len(told) == 6
    assert {r.score.estimate.value for r in told if r.score} == {7.0}


def test_a_study_of_another_engine_is_refused() -> None:
    other = replace(SPEC, engine=replace(SPEC.engine, name="cardboard"))
    with pytest.raises(InputError, match="of the engine paper, but run-b is one of cardboard") as caught:
        learn(SPEC, [EarlierStudy("run-b", other, ())], here())
    assert caught.value.hint


def test_a_study_without_a_complete_trial_gives_nothing_and_says_so() -> None:
    known = learn(SPEC, [EarlierStudy("run-b", SPEC, ())], here())
    assert known == Knowledge(runs=("run-b",), notes=known.notes)
    assert "no complete trial" in known.notes[0]


ELSEWHERE: list[tuple[str, Callable[[StudySpec], StudySpec], Here]] = [
    ("node", lambda spec: spec, here(facts={**FACTS, "gpu_names": "4 x PAPER"})),
    ("version", lambda spec: spec, here(version=lambda _c: EngineVersion("1.3", (1, 3)))),
    ("NCCL", lambda spec: spec, here(version=lambda _c: replace(VERSION, details={"nccl": "2.29"}))),
    ("model", lambda spec: replace(spec, engine=replace(spec.engine, model="another")), here()),
    ("arguments", lambda spec: replace(spec, engine=replace(spec.engine, args={"tp-size": 4})), here()),
    ("variables", lambda spec: replace(spec, engine=replace(spec.engine, env={"NCCL_DEBUG": "INFO"})), here()),
    ("traffic", lambda spec: replace(spec, workload=replace(spec.workload, max_tokens=64)), here()),
    ("levels", lambda spec: replace(spec, workload=replace(spec.workload, concurrency={1: 1.0, 4: 1.0})), here()),
    ("an SLO", lambda spec: replace(spec, slo=Slo({"ttft_p95_ms": 100.0})), here()),
]


@pytest.mark.parametrize(("what", "change", "place"), ELSEWHERE, ids=[case[0] for case in ELSEWHERE])
def test_results_are_a_prior_only_under_the_same_circumstances(
    what: str, change: Callable[[StudySpec], StudySpec], place: Here
) -> None:
    earlier = finished()
    assert learn(SPEC, [earlier], here()).priors, "the same circumstances give some"
    known = learn(change(SPEC), [earlier], place)
    assert known.priors == (), what
    assert known.known_good, "what is only a proposal carries over"


def test_a_prior_is_a_ratio_and_becomes_a_figure_by_the_new_baseline_alone() -> None:
    known = learn(SPEC, [finished()], here())
    spec = replace(SPEC, earlier=known)
    ledger = ledger_of(SPEC.space)
    priors = PriorResults(spec, ledger)
    assert priors() == (), "before the baseline is measured there is nothing to be a ratio to"
    measured = recorded(Node(score=lambda _configuration: 1000.0).evaluate(_request(0, BASELINE)))
    ledger.add(measured)
    made = {result.configuration: result for result in priors()}
    first = next(prior for prior in known.priors if prior.configuration == BEST)
    assert made[BEST].score is not None
    assert made[BEST].score.estimate.value == pytest.approx(1000.0 * first.ratios[1])
    assert all(is_prior(result) and "not measured here" in result.remarks[0] for result in made.values())
    assert BASELINE not in made
    assert priors.come_in()
    assert not priors.come_in()


def test_without_this_baseline_among_the_earlier_trials_there_is_no_prior() -> None:
    earlier = finished()
    trials = tuple(trial for trial in earlier.trials if trial.configuration != BASELINE)
    assert learn(SPEC, [replace(earlier, trials=trials)], here()).priors == ()


CARRIED = [
    (FailureReason.OUT_OF_MEMORY_CAPTURE, here(), 3),
    (FailureReason.OUT_OF_MEMORY_CAPTURE, here(facts={"cpu": "another"}), 0),
    (FailureReason.OUT_OF_MEMORY_CAPTURE, here(version=lambda _c: EngineVersion("1.3", (1, 3))), 0),
    (FailureReason.ARGUMENT_REJECTED, here(), 3),
    (FailureReason.ARGUMENT_REJECTED, here(facts={"cpu": "another"}), 3),
    (FailureReason.ARGUMENT_REJECTED, here(version=lambda _c: EngineVersion("1.3", (1, 3))), 0),
    (FailureReason.MISSING_DEPENDENCY, here(), 0),
    (FailureReason.DIED_STARTING, here(), 0),
]


@pytest.mark.parametrize(("reason", "place", "count"), CARRIED)
def test_a_crash_carries_over_by_its_class(reason: FailureReason, place: Here, count: int) -> None:
    known = learn(SPEC, [crashing(reason)], place)
    assert len(known.crashes) == count
    left = [note for note in known.notes if "do not carry over" in note]
    assert bool(left) == (count == 0)


def test_a_death_under_load_does_not_count_for_a_lighter_load() -> None:
    lighter = replace(SPEC, workload=replace(SPEC.workload, max_tokens=SPEC.workload.max_tokens // 2))
    earlier = crashing(FailureReason.OUT_OF_MEMORY_SERVING)
    assert len(learn(SPEC, [earlier], here()).crashes) == 3
    assert learn(lighter, [earlier], here()).crashes == ()


@pytest.mark.parametrize("strategy", ["greedy_tpe", "greybox"])
def test_what_crashed_before_is_not_launched_again(tmp_path: Path, strategy: str) -> None:
    known = learn(SPEC, [crashing(FailureReason.UNSUPPORTED_HARDWARE)], here())
    node = Node()
    run(replace(SPEC, earlier=known, strategy=strategy, budget=replace(SPEC.budget, trials=25)), node, tmp_path)
    assert not {crash.configuration for crash in known.crashes} & set(node.configurations)
    greedy = [r for r in node.results if r.origin is Origin.GREEDY]
    assert not any(r.configuration["proto"] == "Simple" for r in greedy), "it crashed twice and never lived"


def test_the_baseline_is_measured_even_if_it_crashed_in_an_earlier_study(tmp_path: Path) -> None:
    crash = KnownCrash(BASELINE, "run-a", 0, "out_of_memory")
    node = Node()
    run(replace(SPEC, earlier=Knowledge(runs=("run-a",), crashes=(crash,))), node, tmp_path)
    assert node.configurations[0] == BASELINE


def test_one_crash_of_a_value_does_not_condemn_it() -> None:
    one = KnownCrash(BASELINE.replace(attn="trtllm"), "run-a", 1, "unsupported_hardware")
    spec = replace(SPEC, earlier=Knowledge(crashes=(one,), survivors=(BASELINE,)))
    assert not hopeless(spec)(BASELINE.replace(attn="trtllm", graph=64))
    assert not hopeless(SPEC)(one.configuration)


def test_factors_that_gained_come_first_idle_ones_last_and_switches_before_what_they_switch() -> None:
    known = Knowledge(order=("topk", "proto"), idle=("graph",))
    names = [parameter.name for parameter in factor_order(SPECULATION, known)]
    assert names == ["spec", "topk", "proto", "steps", "tokens", "v2", "attn", "graph"]


def test_the_order_is_that_of_the_gains_that_were_seen() -> None:
    known = learn(SPEC, [finished()], here())
    assert known.order[0] == "spec"
    assert known.order.index("proto") < known.order.index("attn")


def test_of_a_study_of_other_circumstances_only_the_best_is_proposed() -> None:
    elsewhere = learn(SPEC, [finished()], here(facts={"cpu": "another"}))
    assert [one.configuration for one in elsewhere.known_good] == [BEST]
    assert len(learn(SPEC, [finished()], here()).known_good) == 3


def test_a_resumed_study_proposes_what_an_uninterrupted_one_does(tmp_path: Path) -> None:
    known = learn(SPEC, [finished()], here())
    spec = replace(SPEC, earlier=known, budget=replace(SPEC.budget, trials=14))
    whole, parts = Node(), Node()
    run(spec, whole, tmp_path / "whole")
    run(replace(spec, budget=replace(spec.budget, trials=6)), parts, tmp_path / "parts")
    run(spec, parts, tmp_path / "parts")
    assert parts.configurations == whole.configurations


SMALL = space_of(
    parameter("graph", Values((32, 128, 512))), parameter("proto", Values((None, "LL"))), constraints=["graph < 600"]
)
SMALL_SPEC = spec_of(SMALL, baseline=Configuration({"graph": 128, "proto": None}), known_good=())
TRANSLATED = [
    ({"graph": 256, "proto": "LL"}, {"graph": 128, "proto": "LL"}, ("graph=128 for 256",)),
    ({"graph": 32, "proto": "LL"}, {"graph": 32, "proto": "LL"}, ()),
    ({"graph": 32}, {"graph": 32, "proto": None}, ()),
    ({"proto": "LL"}, {"graph": 128, "proto": "LL"}, ()),
    ({"graph": 32, "spec": "EAGLE3"}, {"graph": 32, "proto": None}, ("without spec=EAGLE3",)),
    ({"graph": 32, "spec": None}, {"graph": 32, "proto": None}, ()),
    ({"graph": 32, "tp_size": 8}, {"graph": 32, "proto": None}, ()),
]


@pytest.mark.parametrize(("given", "expected", "changed"), TRANSLATED)
def test_a_configuration_becomes_a_point_of_the_new_space(
    given: dict[str, Any], expected: dict[str, Any], changed: tuple[str, ...]
) -> None:
    spec = replace(SMALL_SPEC, engine=replace(SMALL_SPEC.engine, args={"tp-size": 8}))
    made = translate(Configuration(given), SPEC, spec, ledger_of(SMALL))
    assert made.configuration == Configuration(expected)
    assert made.changed == changed
    assert made.exact == (not changed)


def test_what_the_earlier_study_had_fixed_counts_as_named() -> None:
    earlier = replace(SPEC, engine=replace(SPEC.engine, args={"graph": 512}, env={"proto": "LL"}))
    made = translate(Configuration({}), earlier, SMALL_SPEC, ledger_of(SMALL))
    assert made.configuration == Configuration({"graph": 512, "proto": "LL"})


REFUSED: list[tuple[dict[str, Any], Validity, str]] = [
    ({"proto": "Simple"}, ANYTHING, "proto=Simple is not a value of this space"),
    ({"graph": None}, ANYTHING, "graph must have a value"),
    ({"graph": 32}, Validity(lambda _c: ("no such kernel",), lambda c: c), "no such kernel"),
]


@pytest.mark.parametrize(("given", "validity", "why"), REFUSED)
def test_what_does_not_fit_is_left_out_with_the_reason(given: dict[str, Any], validity: Validity, why: str) -> None:
    made = translate(Configuration(given), SPEC, SMALL_SPEC, ledger_of(SMALL, validity=validity))
    assert made.configuration is None
    assert why in made.why


def test_what_was_left_out_or_changed_is_said() -> None:
    space = space_of(parameter("graph", Values((32, 128))), parameter("attn", Values(("flashinfer", "trtllm"))))
    spec = spec_of(space, baseline=Configuration({"graph": 128, "attn": "flashinfer"}), known_good=())
    known = learn(spec, [finished()], here())
    assert any("is left out: attn=triton is not a value of this space" in note for note in known.notes)
    assert all(one.configuration["attn"] != "triton" for one in known.known_good)


def test_several_studies_take_turns_and_no_server_is_named_twice() -> None:
    first = finished()
    slower = [trial for trial in first.trials if trial.configuration != BEST]
    second = EarlierStudy("run-b", SPEC, tuple(slower))
    known = learn(SPEC, [first, second], here())
    assert [one.run for one in known.known_good[:2]] == ["run-a", "run-b"]
    assert len({one.configuration for one in known.known_good}) == len(known.known_good)


def test_a_study_of_rates_takes_no_priors_and_no_survivors_of_levels_alone() -> None:
    at_rates = replace(SPEC, workload=replace(SPEC.workload, concurrency={}, rates={4.0: 1.0}))
    known = learn(at_rates, [finished()], here())
    assert known.known_good, "what was good elsewhere is tried all the same"
    assert (known.priors, known.survivors) == ((), ())
    beside = replace(SPEC, workload=replace(SPEC.workload, rates={4.0: 1.0}))
    known = learn(beside, [finished()], here())
    assert known.priors == ()
    assert known.survivors, "all its levels are among this study's"
