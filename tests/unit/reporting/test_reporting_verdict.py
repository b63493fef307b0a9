from dataclasses import replace

import pytest
from builders import comparison, configuration, provenance, score, study_result, trial

from autotune.domain.study import StudyResult
from autotune.domain.trial import Origin, TrialState
from autotune.reporting import verdict

SCREENED = "(from the screening runs: the largest of 2 noisy figures overstates itself)"


def test_a_better_best_beats_the_baseline_by_its_margin_and_the_margin_is_qualified() -> None:
    result = study_result(trial(0), trial(7, 356.6), comparison=comparison(1.071, 0.013))
    assert verdict(result) == f"trial 7 beats the baseline by 7.1 % ± 1.3 {SCREENED}"


def test_a_gain_that_is_large_and_vague_is_told_by_what_it_is_at_least() -> None:
    found = comparison(76.8, 1.0)
    vague = replace(found, ratio=replace(found.ratio, low=4.8, high=1230.0))
    result = study_result(trial(0), trial(7, 356.6), comparison=vague)
    assert verdict(result) == f"trial 7 beats the baseline by at least 380 % {SCREENED}"


@pytest.mark.parametrize(("ratio", "side"), [(1.004, "above"), (0.996, "below")])
def test_an_interval_that_holds_one_is_no_clear_winner(ratio: float, side: str) -> None:
    result = study_result(trial(0), trial(7, 334.3), comparison=comparison(ratio, 0.013, "unclear"))
    assert verdict(result) == f"no clear winner: trial 7 is 0.4 % ± 1.3 {side} the baseline {SCREENED}"


def test_a_ratio_without_an_interval_is_no_clear_winner() -> None:
    result = study_result(trial(0), trial(7, 356.6), comparison=comparison(1.071, None, "unclear"))
    assert verdict(result) == (f"no clear winner: trial 7 is 7.1 %, without an interval, above the baseline {SCREENED}")


def test_a_comparison_that_is_missing_claims_nothing() -> None:
    said = verdict(study_result(trial(0), trial(7, 356.4), comparison=None))
    assert said == f"no clear winner: trial 7 is 7.0 % above the baseline, without an interval {SCREENED}"


def test_where_the_best_is_worse_on_a_second_look_nothing_beats_the_baseline() -> None:
    result = study_result(trial(0), trial(7, 334.0), comparison=comparison(0.98, 0.01, "worse"))
    assert verdict(result) == "nothing beats the baseline: trial 7, the highest score, is 2.0 % ± 1.0 below it"


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (study_result(trial(0), trial(1, 300.0)), "nothing beats the baseline"),
        (study_result(trial(0), trial(1, None)), "nothing beats the baseline: no other trial completed"),
        (
            study_result(trial(0), trial(1, 340.0, configuration=configuration())),
            "nothing beats the baseline: no other trial completed",
        ),
        (study_result(trial(0, None)), "no verdict: the baseline failed (out_of_memory)"),
        (
            study_result(trial(0, None), trial(1, 356.6)),
            "no verdict: the baseline failed (out_of_memory); "
            "the fastest of the others is trial 1 with 356.6 ± 1.0 tok/s",
        ),
        (
            study_result(trial(0, None, failure=None, state=TrialState.INTERRUPTED)),
            "no verdict: the baseline was interrupted",
        ),
        (
            study_result(trial(0, None, failure=None, state=TrialState.COMPLETE)),
            "no verdict: the baseline has no score (a level lacked its throughput)",
        ),
        (
            study_result(trial(1, 1.07, 0.01, score=score(1.07, 0.01, metric="weighted_speedup"))),
            "no verdict: the baseline was not measured; the fastest of the others is trial 1 with 1.070 ± 0.010 x",
        ),
        (study_result(trial(2, None, origin=Origin.SAMPLER)), "no trial completed"),
        (StudyResult(study_result().spec, ()), "no trial completed"),
    ],
)
def test_where_there_is_no_winner_the_verdict_says_why(result: StudyResult, said: str) -> None:
    assert verdict(result) == said


def test_a_simulated_study_says_so_first() -> None:
    simulated = provenance(simulated=True)
    result = study_result(trial(0, provenance=simulated), trial(1, 300.0, provenance=simulated))
    assert verdict(result) == "[simulated] nothing beats the baseline"
