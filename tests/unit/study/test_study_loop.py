"""The whole study on a node that exists on paper."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import optuna
import pytest
from made_up_node import (
    ANYTHING,
    BASELINE,
    KNOWN_GOOD,
    SPECULATION,
    Node,
    failed,
    parameter,
    run,
    space_of,
    spec_of,
    tokens_per_second,
)

from autotune.domain.configuration import Configuration
from autotune.domain.space import FloatRange, IntRange, Values
from autotune.domain.trial import Origin, TrialRequest, TrialResult, TrialState
from autotune.errors import Interrupted, RunFolderError, StudyStopped
from autotune.study import StudyEvent, Validity, optuna_space, run_study


def test_the_baseline_is_trial_0_then_known_good_then_greedy_then_the_sampler(tmp_path: Path) -> None:
    node = Node()
    assert run(spec_of(), node, tmp_path) == "60 trials, as the budget asks"
    assert [result.number for result in node.results] == list(range(60))
    assert node.results[0].configuration == BASELINE
    assert node.results[1].configuration == KNOWN_GOOD
    origins = [result.origin for result in node.results]
    greedy = origins.count(Origin.GREEDY)
    assert greedy > 8
    assert origins == (
        [Origin.BASELINE, Origin.KNOWN_GOOD] + [Origin.GREEDY] * greedy + [Origin.SAMPLER] * (58 - greedy)
    )


@pytest.mark.parametrize("seed", [0, 1])
def test_nothing_illegal_and_nothing_twice_in_60_trials(tmp_path: Path, seed: int) -> None:
    node = Node()
    run(spec_of(seed=seed), node, tmp_path)
    assert len(set(node.configurations)) == 60
    for configuration in node.configurations:
        assert not SPECULATION.broken(configuration)
        assert SPECULATION.normalise(configuration) == configuration
        assert all(configuration[p.name] in p.domain for p in SPECULATION.parameters if p.name in configuration)


def test_what_the_engine_objects_to_is_never_launched(tmp_path: Path) -> None:
    def problems(configuration: Configuration) -> tuple[str, ...]:
        return ("no triton here",) if configuration.get("attn") == "triton" else ()

    node = Node()
    run(spec_of(trials=40), node, tmp_path, validity=Validity(problems, lambda configuration: configuration))
    assert {configuration["attn"] for configuration in node.configurations} == {"flashinfer", "trtllm"}


def test_two_spellings_of_one_server_are_launched_once(tmp_path: Path) -> None:
    def canonical(configuration: Configuration) -> Configuration:
        return configuration.replace(graph=64) if configuration.get("graph") == 32 else configuration

    node = Node()
    run(spec_of(trials=50), node, tmp_path, validity=Validity(lambda _configuration: (), canonical))
    assert len({canonical(configuration) for configuration in node.configurations}) == 50


def test_the_sampler_goes_on_from_the_best_that_the_greedy_pass_found(tmp_path: Path) -> None:
    node = Node()
    run(spec_of(), node, tmp_path)
    every = (c for c in SPECULATION.configurations() if not SPECULATION.broken(c))
    best = max(result.score.estimate.value for result in node.results if result.score is not None)
    assert best == pytest.approx(max(map(tokens_per_second, every)))


def test_a_study_resumed_after_each_greedy_trial_proposes_what_an_uninterrupted_one_does(tmp_path: Path) -> None:
    whole = Node()
    run(spec_of(trials=15), whole, tmp_path / "whole")
    parts = Node()
    for trials in range(1, 16):
        assert run(spec_of(trials=trials), parts, tmp_path / "parts").startswith(f"{trials} trial")
    assert parts.configurations == whole.configurations


def test_a_resumed_study_goes_on_without_repeating_itself_in_the_samplers_part(tmp_path: Path) -> None:
    node = Node()
    for trials in (30, 40, 50):
        run(spec_of(trials=trials), node, tmp_path)
    assert [result.number for result in node.results] == list(range(50))
    assert len(set(node.configurations)) == 50


def test_an_interrupted_trial_goes_through_and_is_evaluated_again_under_a_new_number(tmp_path: Path) -> None:
    node = Node()

    def evaluate(request: TrialRequest) -> object:
        if request.number == 3:
            node.results.append(failed(3, request.configuration, TrialState.INTERRUPTED, request.origin))
            raise KeyboardInterrupt
        return node.evaluate(request)

    spec, journal = spec_of(trials=6), tmp_path / "journal.log"
    with pytest.raises(KeyboardInterrupt):
        run_study(spec, evaluate=evaluate, validity=ANYTHING, history=(), storage=journal)  # type: ignore[arg-type]
    assert run(spec, node, tmp_path) == "6 trials, as the budget asks"
    assert [result.number for result in node.results] == list(range(7))
    assert node.results[4].configuration == node.results[3].configuration
    assert node.results[4].origin is Origin.GREEDY


def test_an_interrupted_result_ends_the_study_as_interrupted(tmp_path: Path) -> None:
    node = Node(failures=lambda request: TrialState.INTERRUPTED if request.number == 2 else None)
    with pytest.raises(Interrupted, match="trial 2 was interrupted"):
        run(spec_of(), node, tmp_path)


def test_a_bug_in_the_evaluation_crashes_and_releases_the_study(tmp_path: Path) -> None:
    def evaluate(_request: TrialRequest) -> object:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_study(
            spec_of(),
            evaluate=evaluate,
            validity=ANYTHING,
            history=(),
            storage=tmp_path / "journal.log",  # type: ignore[arg-type]
        )
    assert run(spec_of(trials=1), Node(), tmp_path) == "1 trial, as the budget asks"


def test_the_hours_of_the_budget_end_the_study(tmp_path: Path) -> None:
    node = Node(hours=0.4)
    reason = run(spec_of(trials=None, hours=2.0), node, tmp_path)
    assert len(node.results) == 5
    assert reason == "2 node hours used, of 2"


def test_infeasible_configurations_are_not_launched_again(tmp_path: Path) -> None:
    node = Node(failures=lambda r: TrialState.INFEASIBLE if r.configuration.get("attn") == "trtllm" else None)
    run(spec_of(trials=40), node, tmp_path)
    assert len(set(node.configurations)) == 40


def crashes_of_the_sampler(folder: Path) -> int:
    """In a study whose fastest region cannot be launched."""

    def crash(request: TrialRequest) -> TrialState | None:
        configuration = request.configuration
        cliff = configuration.get("topk") == 1 and configuration["v2"] is True
        return TrialState.INFEASIBLE if cliff else None

    node = Node(failures=crash)
    run(spec_of(known_good=(), trials=50), node, folder)
    return sum(r.origin is Origin.SAMPLER and r.state is TrialState.INFEASIBLE for r in node.results)


def test_infeasible_configurations_teach_the_sampler_as_optunas_fail_would_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taught = crashes_of_the_sampler(tmp_path / "taught")
    told = optuna_space.outcome

    def told_fail(result: TrialResult) -> object:
        return (optuna.trial.TrialState.FAIL, None, {}) if result.state is TrialState.INFEASIBLE else told(result)

    monkeypatch.setattr(optuna_space, "outcome", told_fail)
    untaught = crashes_of_the_sampler(tmp_path / "untaught")
    assert taught < untaught / 2


def test_a_trial_that_failed_by_circumstance_is_tried_once_more_and_no_oftener(tmp_path: Path) -> None:
    node = Node(failures=lambda r: TrialState.FAILED if r.configuration.get("proto") == "LL" else None)
    run(spec_of(trials=30), node, tmp_path)
    failures = [result for result in node.results if result.state is TrialState.FAILED]
    tries = {result.configuration: node.configurations.count(result.configuration) for result in failures}
    assert max(tries.values()) == 2
    assert all(tries[result.configuration] == 2 for result in failures if result.origin is Origin.GREEDY)


def test_a_node_that_fails_trial_after_trial_stops_the_study(tmp_path: Path) -> None:
    node = Node(failures=lambda request: TrialState.FAILED if request.number >= 4 else None)
    with pytest.raises(StudyStopped, match=r"5 trials in a row .* \(8\) by port_taken") as stopped:
        run(spec_of(), node, tmp_path)
    assert stopped.value.hint == "free the GPU"
    node.failures = lambda _request: None
    assert run(spec_of(trials=20), node, tmp_path) == "20 trials, as the budget asks"


@pytest.mark.parametrize("state", [TrialState.INFEASIBLE, TrialState.FAILED])
def test_a_baseline_that_cannot_be_measured_stops_the_study_with_its_reason(tmp_path: Path, state: TrialState) -> None:
    node = Node(failures=lambda _request: state)
    with pytest.raises(StudyStopped, match=r"baseline \(trial 0\).*\n    log: CUDA out of memory") as stopped:
        run(spec_of(), node, tmp_path)
    assert stopped.value.hint == "free the GPU"
    assert len(node.results) == 1


def test_a_resumed_study_tries_a_baseline_that_failed_by_circumstance_again(tmp_path: Path) -> None:
    node = Node(failures=lambda request: TrialState.FAILED if request.number == 0 else None)
    with pytest.raises(StudyStopped):
        run(spec_of(), node, tmp_path)
    run(spec_of(trials=3), node, tmp_path)
    assert [result.origin for result in node.results] == [Origin.BASELINE, Origin.BASELINE, Origin.KNOWN_GOOD]


def test_a_resumed_study_does_not_launch_an_infeasible_baseline_again(tmp_path: Path) -> None:
    node = Node(failures=lambda _request: TrialState.INFEASIBLE)
    for _ in range(2):
        with pytest.raises(StudyStopped, match="out_of_memory"):
            run(spec_of(), node, tmp_path)
    assert len(node.results) == 1


def test_an_illegal_baseline_stops_the_study_before_anything_is_launched(tmp_path: Path) -> None:
    node = Node()
    baseline = KNOWN_GOOD.replace(topk=2, v2=True, tokens=2)
    with pytest.raises(StudyStopped, match=r"breaks the constraint `not \(v2"):
        run(spec_of(baseline=baseline), node, tmp_path)
    assert not node.results


def test_an_illegal_known_good_configuration_is_left_out_with_a_note(tmp_path: Path) -> None:
    events: list[StudyEvent] = []
    node = Node()
    run(spec_of(known_good=(KNOWN_GOOD.replace(topk=4, tokens=32, steps=1),), trials=2), node, tmp_path, events=events)
    assert node.results[1].origin is Origin.GREEDY
    assert [event.text for event in events if event.kind == "note"] == [
        "known-good configuration left out (attn=flashinfer, graph=128, proto=unset, spec=EAGLE3, steps=1, tokens=32, "
        "topk=4, v2=true): breaks the constraint `tokens <= 1 + topk + (steps - 1) * topk ** 2`; "
        "breaks the constraint `not (v2 == true and topk > 1)`"
    ]


def test_each_trial_is_announced_before_and_after(tmp_path: Path) -> None:
    events: list[StudyEvent] = []
    node = Node()
    run(spec_of(trials=2), node, tmp_path, events=events)
    assert [event.kind for event in events] == ["asked", "told", "asked", "told"]
    assert events[0].request == TrialRequest(0, BASELINE, Origin.BASELINE)
    assert events[3].result == node.results[1]


def test_a_space_of_which_everything_was_measured_ends_the_study(tmp_path: Path) -> None:
    space = space_of(
        parameter("spec", Values((None, "NGRAM"))),
        parameter("steps", IntRange(1, 3), "spec != unset"),
        parameter("graph", Values((32, 64))),
        constraints=["not (steps == 3 and graph == 64)"],
    )
    node = Node(score=lambda configuration: float(len(configuration)))
    spec = spec_of(space, baseline=Configuration({"spec": None, "graph": 32}), known_good=(), trials=None)
    assert run(spec, node, tmp_path) == "every valid configuration was measured"
    assert len(node.results) == len(set(node.configurations)) == 7


def test_the_baseline_is_measured_again_after_so_many_trials_and_the_search_is_the_same(tmp_path: Path) -> None:
    again, once = Node(), Node()
    spec = spec_of(trials=13)
    run(replace(spec, budget=replace(spec.budget, baseline_every=3)), again, tmp_path / "again")
    run(spec, once, tmp_path / "once")
    places = [place for place, result in enumerate(again.results) if result.origin is Origin.BASELINE]
    assert places == [0, 4, 8, 12]
    others = [r.configuration for r in again.results if r.origin is not Origin.BASELINE]
    assert others == [r.configuration for r in once.results[1 : len(others) + 1]]


def test_a_space_without_parameters_ends_after_the_baseline(tmp_path: Path) -> None:
    node = Node()
    spec = spec_of(space_of(), known_good=())
    assert run(spec, node, tmp_path) == "the space has no parameters: nothing to measure but what the file names"
    assert node.configurations == [BASELINE]


def test_ranges_of_every_kind_give_values_of_their_own_grid(tmp_path: Path) -> None:
    space = space_of(
        parameter("fraction", FloatRange(0.7, 0.9, 0.05)),
        parameter("ratio", FloatRange(0.01, 1.0, log=True)),
        parameter("share", FloatRange(0.0, 1.0)),
        parameter("tokens", IntRange(16, 1000, log=True)),
        parameter("chunk", IntRange(512, 8192, 512)),
    )
    start = Configuration({"fraction": 0.8, "ratio": 0.1, "share": 0.5, "tokens": 64, "chunk": 2048})
    node = Node(score=lambda c: float(str(c["fraction"])) * float(str(c["tokens"])))
    run(spec_of(space, baseline=start, known_good=(), trials=50), node, tmp_path)
    for configuration in node.configurations:
        assert configuration["fraction"] in (0.7, 0.75, 0.8, 0.85, 0.9)
        assert all(configuration[p.name] in p.domain for p in space.parameters)
        assert len(str(configuration["share"])) <= len("0.123456") + len("e-05")


def test_a_baseline_outside_the_listed_values_is_measured_and_the_study_goes_on(tmp_path: Path) -> None:
    node = Node()
    baseline = BASELINE.replace(graph=100, mem_fraction=0.8)
    run(spec_of(baseline=baseline, trials=40), node, tmp_path)
    assert node.results[0].configuration == baseline
    assert len(set(node.configurations)) == 40


def test_a_second_process_is_turned_away_while_a_study_runs(tmp_path: Path) -> None:
    refused: list[str] = []

    def nested(request: TrialRequest) -> TrialState | None:
        with pytest.raises(RunFolderError, match="another autotune is running this study") as error:
            run(spec_of(trials=1), Node(), tmp_path)
        refused.append(error.value.hint)
        return None

    run(spec_of(trials=1), Node(failures=nested), tmp_path)
    assert refused == ["wait until it ends, or stop it with Ctrl-C and type the command again"]
    assert run(spec_of(trials=1), Node(), tmp_path) == "1 trial, as the budget asks"
