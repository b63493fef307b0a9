"""The grey box as a strategy of a study."""

import random
from dataclasses import replace
from pathlib import Path

import pytest
from made_up_node import failed
from made_up_throughput import LEVELS, SPACE, candidates, observation, true_accept, true_cycle

from autotune.domain.configuration import Configuration
from autotune.domain.measurement import Estimate, Measurement, Objective, Score
from autotune.domain.study import STRATEGIES, Budget, EngineSpec, StudySpec
from autotune.domain.trial import Origin, TrialRequest, TrialResult, TrialState
from autotune.domain.workload import Workload
from autotune.study import Validity, run_study
from autotune.study.ledger import Ledger
from autotune.study.model.improvement import GreyBoxProposer
from autotune.study.strategies import proposer

ANYTHING = Validity(problems=lambda _configuration: (), canonical=lambda configuration: configuration)
BASELINE = Configuration({"speculative_algorithm": None, "graph": 16, "NCCL_PROTO": None, "backend": "c"})


class Never:
    def __init__(self) -> None:
        self.asked = 0

    def propose(self) -> Configuration | None:
        self.asked += 1
        return None


def spec_of(strategy: str = "greybox", trials: int = 20) -> StudySpec:
    return StudySpec(
        name="made-up",
        engine=EngineSpec("paper", None, "model"),
        space=SPACE,
        baseline=BASELINE,
        workload=Workload(dict.fromkeys(LEVELS, 1.0)),
        objective=Objective(),
        budget=Budget(trials),
        strategy=strategy,
    )


def measured(request: TrialRequest, rng: random.Random) -> TrialResult:
    seen = observation(request.configuration, rng)
    measurements = tuple(
        Measurement(level, 10, 10, output_throughput=Estimate(rate), accept_length=seen.accept.get(level))
        for level, rate in seen.throughput.items()
    )
    value = sum(seen.throughput.values()) / len(LEVELS)
    return TrialResult(
        request.number,
        request.configuration,
        request.origin,
        TrialState.COMPLETE,
        "",
        300.0,
        startup_seconds=100.0,
        measurements=measurements,
        score=Score("weighted_throughput", Estimate(value)),
    )


def true_score(configuration: Configuration) -> float:
    return sum(level * true_accept(configuration) / true_cycle(configuration, level) for level in LEVELS)


def test_a_study_with_the_grey_box_finds_the_optimum_of_a_separable_node_and_repeats_nothing(tmp_path: Path):
    rng, results = random.Random(5), []

    def evaluate(request: TrialRequest) -> TrialResult:
        results.append(measured(request, rng))
        return results[-1]

    run_study(spec_of(), evaluate=evaluate, validity=ANYTHING, history=(), storage=tmp_path / "journal.log")
    best = max(true_score(configuration) for configuration in candidates())
    assert max(true_score(result.configuration) for result in results) > 0.98 * best
    assert len({result.configuration for result in results}) == len(results) == 20


def test_what_crashes_is_left_alone_after_few_crashes(tmp_path: Path):
    rng, results = random.Random(5), []

    def evaluate(request: TrialRequest) -> TrialResult:
        if request.configuration["backend"] == "b":
            results.append(failed(request.number, request.configuration, TrialState.INFEASIBLE))
        else:
            results.append(measured(request, rng))
        return results[-1]

    run_study(spec_of(trials=25), evaluate=evaluate, validity=ANYTHING, history=(), storage=tmp_path / "journal.log")
    crashes = [result for result in results if result.state is TrialState.INFEASIBLE]
    assert len(crashes) <= 6


def test_without_a_measurement_the_other_proposer_is_asked():
    other = Never()
    assert GreyBoxProposer(spec_of(), Ledger(SPACE, ANYTHING), other).propose() is None
    assert other.asked == 1


def test_where_the_model_foretells_nothing_the_other_proposer_is_asked():
    rng, other = random.Random(3), Never()
    results = []
    for number, configuration in enumerate(candidates()[:30]):
        result = measured(TrialRequest(number, configuration, Origin.SAMPLER), rng)
        lottery = tuple(
            replace(m, output_throughput=Estimate(100 * 2 ** rng.gauss(0, 1.5)), accept_length=None)
            for m in result.measurements
        )
        results.append(replace(result, measurements=lottery))
    assert GreyBoxProposer(spec_of(), Ledger(SPACE, ANYTHING, results), other).propose() is None
    assert other.asked == 1


def test_trials_that_lack_a_level_teach_the_model_nothing_and_break_nothing():
    rng, other = random.Random(3), Never()
    whole = measured(TrialRequest(0, BASELINE, Origin.BASELINE), rng)
    partial = measured(TrialRequest(1, candidates()[3], Origin.SAMPLER), rng)
    ledger = Ledger(SPACE, ANYTHING, [whole, replace(partial, measurements=partial.measurements[:1])])
    proposed = GreyBoxProposer(spec_of(), ledger, other).propose()
    assert proposed is not None
    assert ledger.is_open(proposed)
    assert other.asked == 0


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_has_a_proposer(strategy: str):
    assert proposer(spec_of(strategy), Ledger(SPACE, ANYTHING), Never(), strategy) is not None


def test_an_unknown_strategy_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="greedy_tpe"):
        proposer(spec_of(), Ledger(SPACE, ANYTHING), Never(), "gready")
