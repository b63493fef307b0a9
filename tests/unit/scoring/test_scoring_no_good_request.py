"""A server that served nobody well, in one launch or in all: it must not drop out of what it is compared in."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from builders import configuration, eagle, measurement, spec, trial

from autotune.domain.confirmation import Confirmation, Replicate
from autotune.domain.level import Rate
from autotune.domain.measurement import Estimate, Measurement, Objective
from autotune.domain.trial import Origin, TrialResult
from autotune.scoring import score
from autotune.scoring.objective import HALF_A_REQUEST, NONE_AT_ALL
from autotune.scoring.trials.confirmation import progress
from autotune.scoring.trials.readings import level_reading, score_reading

RATES = (4.0, 8.0)
GOODPUT = Objective("weighted_goodput")
SPEC = replace(
    spec(), objective=GOODPUT, workload=replace(spec().workload, concurrency={}, rates=dict.fromkeys(RATES, 1.0))
)
REQUESTS, Z2 = 60, 3.8415


def at_rate(rate: float, good: float) -> Measurement:
    """`good` requests a second of 60 that arrived."""
    none = Estimate(0.0, 0.0, rate * Z2 / (REQUESTS + Z2), batches=REQUESTS)
    some = Estimate(good, 0.97 * good, 1.03 * good, batches=REQUESTS)
    return measurement(9, rate=rate, goodput=some if good else none)


def run_of(number: int, arm: int | None, turn: int, plan: Replicate, good: tuple[float, float]) -> TrialResult:
    seen = tuple(at_rate(rate, figure) for rate, figure in zip(RATES, good, strict=True))
    made = trial(
        number,
        origin=Origin.CONFIRMATION,
        configuration=configuration() if arm is None else eagle(speculative_num_steps=arm),
        replicate=replace(plan, confirms=arm, round=turn),
        node_seconds=300.0,
    )
    return replace(made, measurements=seen, score=score(seen, GOODPUT, SPEC.workload.weights, None))


def confirm(rounds: int, figures: Callable[[int | None, int], tuple[float, float]]) -> Confirmation:
    plan = Replicate(None, 1, rounds, (3,))
    done: list[TrialResult] = []
    now = progress(SPEC, plan, done)
    while now.pending is not None:
        arm, turn = now.pending
        done.append(run_of(50 + len(done), arm, turn, plan, figures(arm, turn)))
        now = progress(SPEC, plan, done)
    return now.confirmation


def test_a_finalist_that_served_nobody_well_in_one_launch_of_four_does_not_win() -> None:
    found = confirm(4, lambda arm, turn: (3.9, 7.0) if arm is None else (0.0, 0.0) if turn == 1 else (3.9, 7.6))
    assert found.outcome != "winner"


def test_a_rate_that_fails_in_most_launches_is_not_shown_as_a_gain() -> None:
    found = confirm(4, lambda arm, turn: (3.9, 7.0) if arm is None else (3.9, 7.6 if turn == 1 else 0.0))
    assert found.finalists[0].levels[Rate(8.0)] < 0.5


def test_over_a_baseline_that_serves_nobody_well_a_finalist_wins_by_far_and_nobody_knows_by_how_much() -> None:
    found = confirm(4, lambda arm, turn: (0.0, 0.0) if arm is None else (3.9, 7.6 + 0.01 * turn))
    assert found.outcome == "winner"
    assert found.winner is not None
    assert found.winner.gain is not None
    assert found.winner.gain.low is not None
    assert found.winner.gain.low > 2


def test_its_reading_is_that_of_half_a_request_and_as_uncertain() -> None:
    none = run_of(1, None, 1, Replicate(None, 1, 4, (3,)), (0.0, 0.0))
    level, whole = level_reading(none, Rate(4.0)), score_reading(none, GOODPUT, SPEC.workload.weights)
    assert level is not None
    assert whole is not None
    assert math.exp(level.value) == pytest.approx(4.0 * 0.5 / REQUESTS, rel=0.1)
    assert math.exp(whole.value) == pytest.approx(6.0 * 0.5 / REQUESTS, rel=0.1)
    assert (level.variance, whole.variance) == (NONE_AT_ALL, pytest.approx(NONE_AT_ALL))


def test_half_a_request_is_what_the_upper_end_for_none_of_many_stands_for() -> None:
    upper = Z2 / (REQUESTS + Z2)
    assert upper * HALF_A_REQUEST == pytest.approx(0.5 / REQUESTS, rel=0.1)
