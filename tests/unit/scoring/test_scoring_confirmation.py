from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from builders import configuration, eagle, failure, spec, trial

from autotune.domain.confirmation import Replicate
from autotune.domain.slo import SloCheck
from autotune.domain.trial import Origin, TrialResult, TrialState
from autotune.scoring.trials.confirmation import Progress, level_of, looks, progress, runs_of

SPEC = spec()
SPREAD = 0.01
Figures = Callable[[int | None, int], float | None]


def run_of(
    number: int, arm: int | None, turn: int, plan: Replicate, value: float | None, **more: object
) -> TrialResult:
    made = trial(
        number,
        value,
        1.0,
        origin=Origin.CONFIRMATION,
        configuration=configuration() if arm is None else eagle(speculative_num_steps=arm % 8 + 1),
        replicate=replace(plan, confirms=arm, round=turn),
        node_seconds=300.0,
    )
    return replace(made, **more)  # type: ignore[arg-type]


def confirm(plan: Replicate, figures: Figures, *, runs: int = 100) -> tuple[Progress, list[TrialResult]]:
    """Runs what is due until it is over, or for so many runs. `figures` None: that run failed by circumstance."""
    done: list[TrialResult] = []
    now = progress(SPEC, plan, done)
    while now.pending is not None and len(done) < runs:
        arm, turn = now.pending
        value = figures(arm, turn)
        made = run_of(50 + len(done), arm, turn, plan, value)
        done.append(replace(made, state=TrialState.FAILED) if value is None else made)
        now = progress(SPEC, plan, done)
    return now, done


def noisy(seed: int, gains: dict[int | None, float], spread: float = SPREAD) -> Figures:
    rng = random.Random(seed)
    return lambda arm, _turn: 333.0 * math.exp(math.log(1.0 + gains.get(arm, 0.0)) + rng.gauss(0.0, spread))


def arms(runs: Sequence[TrialResult]) -> list[int | None]:
    return [run.replicate.confirms for run in runs if run.replicate]


def test_rounds_go_to_and_fro() -> None:
    _now, runs = confirm(Replicate(None, 1, 4, (7, 9)), noisy(1, {}), runs=9)
    assert arms(runs) == [None, 7, 9, 9, 7, None, None, 7, 9]


def test_a_finalist_that_is_faster_wins_and_the_gain_is_the_confirmations_own() -> None:
    now, runs = confirm(Replicate(None, 1, 6, (7,)), noisy(2, {7: 0.08}, 0.003))
    found = now.confirmation
    assert now.ended == "decided after 3 rounds"
    assert len(runs) == 6
    assert found.outcome == "winner"
    assert found.winner is not None
    assert found.winner.gain is not None
    assert found.winner.gain.value == pytest.approx(1.08, abs=0.01)
    assert (found.winner.servers, found.baseline_servers, found.rounds, found.planned) == (3, 3, 3, 6)
    assert found.winner.levels[10] == pytest.approx(1.08, abs=0.01)
    assert found.launch_spread == pytest.approx(0.003, abs=0.003)


def test_noise_alone_claims_a_winner_less_often_than_the_stated_error() -> None:
    plan = Replicate(None, 1, 6, (7, 8, 9))
    claimed = [confirm(plan, noisy(seed, {}))[0].confirmation.outcome for seed in range(300)]
    assert claimed.count("winner") <= 15, "5 % of 300; the intervals are two-sided, so about 2.5 % is expected"
    assert claimed.count("none") + claimed.count("winner") == 300


def test_the_intervals_hold_the_truth_for_all_finalists_at_once_when_the_confirmation_stops_early_or_late() -> None:
    truth = {7: 0.03, 8: 0.01, 9: 0.0}
    whole = 0
    for seed in range(200):
        found = confirm(Replicate(None, 1, 6, (7, 8, 9)), noisy(seed, truth))[0].confirmation
        whole += all(
            f.gain is not None and (f.gain.low or 0.0) <= 1 + truth[f.trial] <= (f.gain.high or 9.9)
            for f in found.finalists
        )
    assert whole >= 185


def test_a_steady_drift_favours_nobody() -> None:
    plan, drifting = Replicate(None, 1, 6, (7, 9)), noisy(3, {}, 0.002)
    runs = 0

    def figures(arm: int | None, turn: int) -> float | None:
        nonlocal runs
        runs += 1
        value = drifting(arm, turn)
        return None if value is None else value * math.exp(-0.01 * runs)

    found = confirm(plan, figures)[0].confirmation
    assert found.outcome == "none"
    for finalist in found.finalists:
        assert finalist.gain is not None
        assert finalist.gain.value == pytest.approx(1.0, abs=0.006)


def test_a_finalist_that_is_behind_the_leader_is_not_measured_on() -> None:
    now, runs = confirm(Replicate(None, 1, 6, (7, 9)), noisy(4, {7: 0.02, 9: -0.1}, 0.006))
    dropped = next(f for f in now.confirmation.finalists if f.trial == 9)
    assert dropped.dropped == "behind after 3 rounds"
    assert arms(runs).count(9) == 3
    assert arms(runs).count(7) > 3
    assert now.confirmation.finalists[0].trial == 7


def test_two_finalists_that_are_equally_fast_are_not_told_apart() -> None:
    found = confirm(Replicate(None, 1, 6, (7, 9)), noisy(5, {7: 0.06, 9: 0.06}))[0].confirmation
    assert found.outcome == "winner"
    assert [f.trial for f in found.near] == [f.trial for f in found.finalists[1:]]


def test_where_no_finalist_can_be_faster_the_confirmation_ends_half_way() -> None:
    now, _runs = confirm(Replicate(None, 1, 6, (7,)), noisy(6, {7: -0.05}, 0.003))
    assert now.ended == "decided after 3 rounds: no finalist can be faster by 1 %"
    assert now.confirmation.outcome == "none"
    assert now.confirmation.finalists[0].verdict == "worse"


def test_a_run_that_failed_once_is_left_out_and_twice_takes_the_finalist_out() -> None:
    plan = Replicate(None, 1, 6, (7, 9))
    good = noisy(7, {7: 0.05}, 0.003)
    now, runs = confirm(plan, lambda arm, turn: None if arm == 9 and turn in (1, 2) else good(arm, turn))
    assert arms(runs).count(9) == 2
    assert next(f for f in now.confirmation.finalists if f.trial == 9).dropped == "failed (out_of_memory)"
    assert now.confirmation.winner is not None
    once, _ = confirm(plan, lambda arm, turn: None if arm == 9 and turn == 1 else good(arm, turn))
    assert next(f for f in once.confirmation.finalists if f.trial == 9).servers == 2


def test_a_baseline_that_fails_twice_ends_it_undecided() -> None:
    now, _runs = confirm(Replicate(None, 1, 6, (7,)), lambda arm, _turn: None if arm is None else 333.0)
    assert now.ended == "the baseline failed (out_of_memory) in the confirmation"
    assert now.confirmation.outcome == "undecided"


def test_an_infeasible_finalist_is_out_at_once_and_without_any_the_confirmation_is_over() -> None:
    plan = Replicate(None, 1, 6, (7,))
    runs = [run_of(50, None, 1, plan, 333.0), run_of(51, 7, 1, plan, None, failure=failure())]
    now = progress(SPEC, plan, runs)
    assert now.ended == "no finalist could be measured again"
    assert now.confirmation.outcome == "undecided"


def test_an_interrupted_run_is_due_again() -> None:
    plan = Replicate(None, 1, 6, (7,))
    runs = [run_of(50, None, 1, plan, 333.0), run_of(51, 7, 1, plan, None, state=TrialState.INTERRUPTED, failure=None)]
    assert progress(SPEC, plan, runs).pending == (7, 1)


def test_a_finalist_that_breaks_the_slo_on_most_servers_does_not_win() -> None:
    plan, good = Replicate(None, 1, 3, (7, 9)), noisy(8, {7: 0.1, 9: 0.05}, 0.003)
    check = SloCheck("ttft_p95_ms", 10, 99.0, 50.0, 0.98, 59, 98.0, 100.0)
    done: list[TrialResult] = []
    now = progress(SPEC, plan, done)
    while now.pending is not None:
        made = run_of(50 + len(done), *now.pending, plan, good(*now.pending))
        done.append(replace(made, slo=(check,)) if now.pending[0] == 7 else made)
        now = progress(SPEC, plan, done)
    assert now.confirmation.winner is not None
    assert now.confirmation.winner.trial == 9
    assert now.confirmation.finalists[1].dropped == "broke the SLO in 3 of 3 runs"


def test_only_the_runs_after_the_last_trial_of_a_search_count() -> None:
    plan = Replicate(None, 1, 6, (7,))
    first, second = run_of(8, None, 1, plan, 333.0), run_of(10, None, 1, plan, 333.0)
    assert runs_of([trial(0), first]) == (first,)
    assert runs_of([trial(0), first, trial(9, 340.0)]) == ()
    assert runs_of([trial(0), first, trial(9, 340.0), second]) == (second,)


def test_the_error_is_spent_once_over_looks_and_finalists() -> None:
    assert looks(3) == (3,)
    assert looks(6) == (3, 6)
    for rounds, finalists in ((3, 1), (5, 2), (6, 3), (9, 4)):
        spent = sum(finalists * (1.0 - level_of(look, rounds, finalists)) for look in looks(rounds))
        assert spent == pytest.approx(0.05)
