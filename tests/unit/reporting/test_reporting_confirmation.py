from __future__ import annotations

from dataclasses import replace

import pytest
from builders import comparison, estimate, provenance, study_result, trial

from autotune.domain.confirmation import Confirmation, Drift, Finalist, Replicate
from autotune.domain.study import StudyResult
from autotune.domain.trial import Origin
from autotune.reporting import experiment_note, markdown_report, summary, terminal_report, verdict

WINNER = Finalist(7, 4, estimate(1.071, 0.013), "better", None, {1: 1.05, 10: 1.08})
NEAR = Finalist(9, 4, estimate(1.066, 0.013), "better", estimate(0.995, 0.011), {1: 1.04, 10: 1.07})
BEHIND = Finalist(5, 3, estimate(1.01, 0.013), "unclear", estimate(0.943, 0.012), {}, "behind after 3 rounds")
FALLING = Drift(5, 3.0, estimate(0.959, 0.008), 0.007, {1: estimate(0.97, 0.01), 10: estimate(0.95, 0.01)}, {}, 0.043)


def found(*finalists: Finalist, outcome: str = "winner", rounds: int = 4) -> Confirmation:
    return Confirmation(finalists, 4, rounds, 6, outcome, 0.0071, 5400.0)


def study(confirmation: Confirmation | None = None, drift: Drift | None = None) -> StudyResult:
    trials = (trial(0), trial(5, 350.0), trial(7, 370.0), trial(9, 372.0))
    return study_result(*trials, comparison=comparison(1.117, 0.013), confirmation=confirmation, drift=drift)


def test_a_confirmed_winner_is_named_with_the_confirmations_gain_and_without_the_caution() -> None:
    said = verdict(study(found(WINNER, BEHIND)))
    assert said == "trial 7 beats the baseline by 7.1 % ± 1.3 (confirmed on 4 fresh servers each, held-out prompts)"


def test_finalists_that_are_not_told_apart_are_named() -> None:
    assert verdict(study(found(WINNER, NEAR))).endswith("held-out prompts); no clear winner among trials 7 and 9")


@pytest.mark.parametrize(
    ("confirmation", "said"),
    [
        (
            found(replace(WINNER, gain=estimate(1.006, 0.012), verdict="unclear"), outcome="none"),
            "nothing beats the baseline by more than the noise: trial 7 is +0.6 % ± 1.2 "
            "(4 fresh servers each, held-out prompts)",
        ),
        (
            found(replace(WINNER, gain=estimate(1.006, 0.012), verdict="unclear"), BEHIND, outcome="none"),
            "nothing beats the baseline by more than the noise: trial 7, the best of 2 finalists, is +0.6 % ± 1.2 "
            "(4 fresh servers each, held-out prompts)",
        ),
        (
            found(replace(WINNER, servers=3, verdict="unclear"), NEAR, outcome="undecided", rounds=3),
            "no clear winner among trials 7 and 9: the confirmation is not decided (3 of 6 rounds); trial 7 is "
            "+7.1 % ± 1.3 (3 fresh servers, the baseline on 4, held-out prompts)",
        ),
    ],
)
def test_what_is_not_won_is_not_claimed(confirmation: Confirmation, said: str) -> None:
    assert verdict(study(confirmation)) == said


def test_a_confirmation_without_a_look_yet_leaves_the_screenings_verdict_with_its_caution() -> None:
    early = found(Finalist(7, 1), outcome="undecided", rounds=1)
    assert "from the screening runs" in verdict(study(early))


def test_an_undecided_confirmation_with_the_baseline_ahead_in_the_search_is_no_victory_of_the_baseline() -> None:
    open_ = found(replace(WINNER, gain=None, verdict="unclear"), outcome="undecided", rounds=2)
    said = verdict(study_result(trial(0, 380.0), trial(7, 370.0), confirmation=open_))
    assert said == (
        "no clear winner: the confirmation is not decided (2 of 6 rounds); the search found nothing above the baseline"
    )


def test_a_drift_that_was_seen_is_in_the_verdict_and_one_that_was_not_is_only_in_the_report() -> None:
    assert verdict(study(found(WINNER), FALLING)).endswith(
        "; the node drifted by -4.1 % ± 0.8 over 3.0 h (baseline measured 5 times); scores are corrected for it"
    )
    calm = study(found(WINNER), replace(FALLING, change=estimate(1.002, 0.009), largest=0.002))
    assert "drift" not in verdict(calm)
    assert "No drift seen: +0.2 % ± 0.9 over 3.0 h" in terminal_report(calm)
    assert "corrected by 0.2 % at most" in markdown_report(calm)


def test_the_best_is_what_the_confirmation_settled_on() -> None:
    screened = study().best
    assert screened is not None
    assert screened.number == 9
    won, lost = study(found(WINNER, NEAR)), study(found(WINNER, outcome="none"))
    assert won.best is not None
    assert won.best.number == 7
    assert lost.best is lost.baseline
    undecided = study(found(WINNER, outcome="undecided")).best
    assert undecided is not None
    assert undecided.number == 9


def test_a_drift_that_the_repeats_cannot_tell_of_has_no_figure() -> None:
    dim = replace(
        FALLING,
        change=estimate(1.001, 0.024),
        launch_spread=None,
        levels={1: None},
        largest=0.001,
        told=False,
        window=0.1,
    )
    said = terminal_report(study(drift=dim))
    assert (
        "Whether the node drifted cannot be told over 3.0 h (baseline measured 5 times): a measurement of the" in said
    )
    assert "is uncertain by ± 10.0 % itself; scores are corrected by 0.1 % at most" in said
    assert "How much launches of the baseline differ cannot be told." in said
    assert "2.4" not in said
    assert "| 1 | - |" in markdown_report(study(drift=dim))
    data = summary(study(drift=dim), run_dir="runs/x")["drift"]
    assert (data["told"], data["launch_spread"], data["levels"]) == (False, None, {"1": None})


def test_the_best_goes_by_corrected_scores_where_drift_is_known() -> None:
    corrected = {0: estimate(333.0), 5: estimate(390.0), 7: estimate(370.0), 9: estimate(360.0)}
    best = study(drift=replace(FALLING, corrected=corrected)).best
    assert best is not None
    assert best.number == 5


def test_the_report_shows_every_finalist_with_its_levels_and_why_it_was_dropped() -> None:
    text = terminal_report(study(found(WINNER, BEHIND), FALLING))
    (row,) = [line for line in text.splitlines() if "behind after 3 rounds" in line]
    assert row.split()[:6] == ["5", "3", "+1.0", "%", "±", "1.3"]
    assert "4 of 6 planned rounds, 90.0 min of node time; the baseline on 4 servers." in text
    assert "Launches of one configuration differ by 0.7 % (standard deviation)" in text
    note = experiment_note(study(found(WINNER)))
    assert "## Confirmation" in note
    assert "measure it again before relying" not in markdown_report(study(found(WINNER)))
    assert "measure it again before relying" in markdown_report(study())


def test_the_json_object_has_the_confirmation_and_the_drift_and_the_speedup_is_the_confirmed_one() -> None:
    data = summary(study(found(WINNER, BEHIND), FALLING), run_dir="runs/x")
    assert data["outcome"] == "better"
    assert data["best"]["speedup"] == {"ratio": 1.071, "interval": pytest.approx([1.058, 1.084])}
    assert [f["trial"] for f in data["confirmation"]["finalists"]] == [7, 5]
    assert data["drift"]["seen"] is True
    bare = summary(study(), run_dir="runs/x")
    assert bare["confirmation"] is None
    assert bare["drift"] is None


def test_runs_of_a_confirmation_are_listed_and_are_no_candidates_for_the_best() -> None:
    run = trial(10, 999.0, origin=Origin.CONFIRMATION, replicate=Replicate(7, 1, 6, (7,)))
    result = study_result(trial(0), trial(7, 340.0), run, comparison=comparison())
    assert result.best is not None
    assert result.best.number == 7
    assert "| 10 | confirmation |" in markdown_report(result)
    assert "trial 10" not in terminal_report(result).split("output throughput")[1].split("factors")[0]


def test_a_simulated_confirmation_says_so_first() -> None:
    simulated = trial(0, provenance=provenance(simulated=True))
    result = study_result(simulated, trial(7, 370.0), comparison=comparison(), confirmation=found(WINNER))
    assert verdict(result).startswith("[simulated] trial 7 beats the baseline by 7.1 %")
