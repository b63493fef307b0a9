"""Trials that are stopped early, in a study: a node on paper that ends a trial when its screen says so."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import optuna
import pytest
from builders import estimate, measurement
from made_up_throughput import LEVELS, SPACE, observation

from autotune.domain.configuration import Configuration
from autotune.domain.measurement import Estimate, Measurement, Objective, Score
from autotune.domain.pruning import Bound
from autotune.domain.slo import SloCheck
from autotune.domain.study import Budget, EngineSpec, StudySpec
from autotune.domain.trial import Origin, TrialRequest, TrialResult, TrialState
from autotune.domain.workload import Workload
from autotune.study import Validity, run_study
from autotune.study.comparing.corrections import Corrections
from autotune.study.early_stopping.screening import FEWEST, Screening
from autotune.study.journal import open_journal
from autotune.study.ledger import Ledger
from autotune.study.model.greybox import GreyBox
from autotune.study.model.observations import observed
from autotune.study.optuna_space import OptunaSpace

ANYTHING = Validity(problems=lambda _configuration: (), canonical=lambda configuration: configuration)
BASELINE = Configuration({"speculative_algorithm": None, "graph": 16, "NCCL_PROTO": None, "backend": "c"})
SPEC = StudySpec(
    name="made-up",
    engine=EngineSpec("paper", None, "model"),
    space=SPACE,
    baseline=BASELINE,
    workload=Workload(dict.fromkeys(LEVELS, 1.0)),
    objective=Objective(),
    budget=Budget(24, early_stopping=True),
    strategy="greedy_tpe",
)


@dataclass
class Node:
    """`results` in the order of evaluation; figures depend on the configuration alone, so that a replay is exact."""

    results: list[TrialResult] = field(default_factory=list)

    def evaluate(self, request: TrialRequest) -> TrialResult:
        self.results.append(evaluated(request))
        return self.results[-1]


def evaluated(request: TrialRequest) -> TrialResult:
    noise = random.Random(request.configuration.canonical)
    whole = observation(request.configuration, noise)
    measurements: list[Measurement] = []
    bound = None
    for level in request.screen.order if request.screen is not None else LEVELS:
        rate = whole.throughput[level]
        figure = estimate(rate, 0.01 * rate)
        measurements.append(Measurement(level, 10, 10, output_throughput=figure, accept_length=whole.accept.get(level)))
        bound = request.screen.bound(measurements) if request.screen is not None else None
        if bound is not None:
            break
    value = sum(whole.throughput.values()) / len(LEVELS)
    return TrialResult(
        request.number,
        request.configuration,
        request.origin,
        TrialState.COMPLETE if bound is None else TrialState.PRUNED,
        "",
        300.0 * len(measurements) / len(LEVELS),
        measurements=tuple(sorted(measurements, key=lambda seen: seen.concurrency)),
        score=Score("weighted_throughput", estimate(value, 0.01 * value)) if bound is None else None,
        bound=bound,
    )


def run(folder: Path, spec: StudySpec = SPEC, history: Sequence[TrialResult] = ()) -> list[TrialResult]:
    node = Node(list(history))
    run_study(spec, evaluate=node.evaluate, validity=ANYTHING, history=history, storage=folder / "journal.log")
    return node.results


def bound(score: float = 90.0) -> Bound:
    return Bound("weighted_throughput", score, estimate(120.0, 2.0), 3, (64,), {1: 50.0, 8: 60.0})


def pruned(number: int = 7, **more: object) -> TrialResult:
    made = TrialResult(number, BASELINE.replace(backend="b"), Origin.GREEDY, TrialState.PRUNED, "", 90.0, bound=bound())
    return replace(made, measurements=(measurement(64, 500.0, 5.0),), **more)  # type: ignore[arg-type]


def screening(results: Sequence[TrialResult], spec: StudySpec = SPEC) -> Screening:
    corrections, ledger = Corrections(spec), Ledger(spec.space, ANYTHING)
    for result in results:
        ledger.add(corrections.add(result)[0])
    return Screening(spec, ledger, corrections)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> list[TrialResult]:
    return run(tmp_path_factory.mktemp("study"))


def test_hopeless_trials_are_stopped_and_none_that_beats_all_before_it(study: list[TrialResult]) -> None:
    stopped = [result for result in study if result.state is TrialState.PRUNED]
    assert len(study) == 24
    assert len(stopped) >= 3
    for result in stopped:
        whole = evaluated(TrialRequest(result.number, result.configuration, result.origin))
        before = [r.score.estimate.value for r in study[: study.index(result)] if r.score is not None]
        assert whole.score is not None
        assert result.bound is not None
        assert whole.score.estimate.value <= result.bound.score < max(before)
        assert 0 < len(result.measurements) < len(LEVELS)


def test_baseline_and_the_first_trials_run_every_level(study: list[TrialResult]) -> None:
    first = next(result for result in study if result.state is TrialState.PRUNED)
    assert sum(r.state is TrialState.COMPLETE for r in study[: study.index(first)]) >= FEWEST
    assert all(r.state is TrialState.COMPLETE for r in study if r.origin is Origin.BASELINE)


def test_what_was_stopped_is_settled(study: list[TrialResult]) -> None:
    assert len({result.configuration for result in study}) == len(study)


@pytest.mark.parametrize("at", [6, 9])
def test_a_resumed_study_goes_the_way_of_one_that_was_not_stopped(
    study: list[TrialResult], at: int, tmp_path: Path
) -> None:
    greedy = sum(result.origin is not Origin.SAMPLER for result in study)
    assert at < greedy
    again = run(tmp_path, history=study[:at])
    assert again[:greedy] == study[:greedy]


def test_the_switch_turns_it_off(tmp_path: Path) -> None:
    off = run(tmp_path, replace(SPEC, budget=Budget(16)))
    assert all(result.state is TrialState.COMPLETE for result in off)


def test_the_grey_box_goes_on_with_what_stopped_trials_showed(tmp_path: Path) -> None:
    found = run(tmp_path, replace(SPEC, strategy="greedy_greybox", budget=Budget(20, early_stopping=True)))
    best = max(r.score.estimate.value for r in found if r.score is not None)
    every = [evaluated(TrialRequest(0, c, Origin.SAMPLER)) for c in SPACE_CONFIGURATIONS]
    assert any(result.state is TrialState.PRUNED for result in found)
    assert best >= 0.98 * max(r.score.estimate.value for r in every if r.score is not None)


SPACE_CONFIGURATIONS = tuple(SPACE.configurations())


@pytest.mark.parametrize("origin", [Origin.BASELINE, Origin.KNOWN_GOOD, Origin.CONFIRMATION])
def test_trials_that_others_are_held_against_have_no_screen(study: list[TrialResult], origin: Origin) -> None:
    made = screening(study)
    assert made.screen(BASELINE, Origin.GREEDY) is not None
    assert made.screen(BASELINE, origin) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"objective": Objective("weighted_goodput")},
        {"workload": Workload({64: 1.0})},
        {"budget": Budget(24)},
    ],
    ids=["goodput", "one level", "switched off"],
)
def test_there_is_no_screen_where_the_rule_does_not_suit(study: list[TrialResult], changes: dict[str, object]) -> None:
    assert screening(study, replace(SPEC, **changes)).screen(BASELINE, Origin.GREEDY) is None  # type: ignore[arg-type]


def test_while_nothing_keeps_to_the_slo_nothing_is_stopped(study: list[TrialResult]) -> None:
    check = SloCheck("ttft_p95_ms", 64, 100.0, 200.0, 1.0, requests=320)
    breaking = [replace(result, slo=(check,)) if result.score is not None else result for result in study]
    assert breaking[0].broken
    assert screening(breaking).screen(BASELINE, Origin.GREEDY) is None


def test_a_screen_names_every_level_once(study: list[TrialResult]) -> None:
    screen = screening(study).screen(BASELINE, Origin.SAMPLER)
    assert screen is not None
    assert sorted(screen.order) == list(LEVELS)


def test_a_stopped_trial_is_settled_and_has_no_rank() -> None:
    ledger = Ledger(SPACE, ANYTHING, [pruned()])
    assert not ledger.is_open(pruned().configuration)
    assert (ledger.rank(pruned().configuration), ledger.best) == (None, None)


def test_optuna_is_told_pruned_with_the_bound_and_no_violated_constraint(tmp_path: Path) -> None:
    told = OptunaSpace(SPACE).frozen(pruned().configuration, pruned())
    assert (told.state, told.value, told.intermediate_values) == (optuna.trial.TrialState.PRUNED, 90.0, {1: 90.0})
    assert told.constraints == {"launches": -1.0}


def test_the_journal_takes_it_and_agrees_with_the_records_when_opened_again(tmp_path: Path) -> None:
    notes: list[str] = []
    path, result = tmp_path / "journal.log", pruned()
    with open_journal(path, "made-up", Ledger(SPACE, ANYTHING), notes.append) as journal:
        journal.ask(TrialRequest(7, result.configuration, result.origin))
        journal.tell(result)
    with open_journal(path, "made-up", Ledger(SPACE, ANYTHING, [result]), notes.append) as journal:
        assert journal._study is not None
        (trial,) = journal._study.get_trials()
    assert (trial.state, trial.value, notes) == (optuna.trial.TrialState.PRUNED, 90.0, [])


def test_levels_that_were_not_run_say_nothing_to_a_model() -> None:
    def predicted(unseen: float) -> float:
        rng = random.Random(1)
        others = [observation(c, rng) for c in SPACE_CONFIGURATIONS[::9]]
        result = replace(pruned(), bound=replace(bound(), optimistic={1: unseen, 8: unseen}))
        seen = observed(result, result.configuration, LEVELS)
        assert seen is not None
        assert seen.assumed == {1, 8}
        model = GreyBox(SPACE, LEVELS)
        model.fit([*others, seen])
        return float(model.predict_mean([result.configuration])[0, 0])

    assert abs(predicted(50.0) - predicted(100.0)) < 0.01


def test_a_level_that_is_missing_for_another_reason_is_no_observation() -> None:
    assert observed(replace(pruned(), bound=None), BASELINE, LEVELS) is None


def test_figures_of_a_stopped_trial_are_corrected_for_drift_like_others() -> None:
    def baseline(number: int, rate: float) -> TrialResult:
        measurements = tuple(measurement(level, rate * level, 0.002 * rate * level) for level in LEVELS)
        score = Score("weighted_throughput", Estimate(rate * 73 / 3))
        return TrialResult(
            number, BASELINE, Origin.BASELINE, TrialState.COMPLETE, "", 3600.0, measurements=measurements, score=score
        )

    corrections = Corrections.of(SPEC, [*(baseline(n, 10.0 - 0.5 * n) for n in range(5)), pruned(5)])
    last = list(corrections.all())[-1]
    (seen,) = last.measurements
    assert seen.output_throughput is not None
    assert seen.output_throughput.value > 540.0  # 500 on a node that has lost a fifth
