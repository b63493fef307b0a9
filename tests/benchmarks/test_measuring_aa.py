"""The machinery of the A/A and drift benchmarks, not their figures."""

from __future__ import annotations

import math

import numpy as np
import pytest

from autotune.domain.confirmation import Confirm
from autotune.domain.study import Budget
from autotune.domain.trial import Origin, TrialRequest
from benchmarks.measuring import aa, drift
from benchmarks.measuring.made_up_node import (
    Node,
    Noise,
    every_factor,
    linear,
    nothing,
    one_factor,
    run,
    screening,
    spec_of,
    step,
)

SILENT = Noise(window=1e-6, launch=0.0, level=0.0)
BASELINE = spec_of(Budget(1), 0).baseline


def test_a_node_without_noise_shows_the_truth_and_its_drift() -> None:
    node = Node(0, Noise(window=1e-6, launch=0.0, level=0.0, drift=step(-0.08, 0.1)), one_factor(0.05))
    scores = []
    for number, changed in enumerate((0, 1, 1)):
        made = node.evaluate(TrialRequest(number, BASELINE.replace(factor_2=changed), Origin.SAMPLER))
        assert made.score is not None
        scores.append(made.score.estimate.value)
    assert scores[1] / scores[0] == pytest.approx(1.05 * 0.92, rel=1e-4), "0.05 h into the second trial it is slow"
    assert scores[2] / scores[1] == pytest.approx(1.0, rel=1e-4)
    assert math.exp(linear(-0.05)(2.0)) == pytest.approx(0.9)


def test_a_study_is_searched_confirmed_and_concluded_by_the_programs_own_means() -> None:
    result = run(Node(1, SILENT, one_factor(0.05)), Budget(trials=16, confirm=Confirm(finalists=1, rounds=3)))
    assert result.confirmation is not None
    assert result.confirmation.winner is not None
    assert result.best is not None
    assert result.best.configuration["factor_2"] == 1
    bare = screening(result)
    assert bare.confirmation is None
    assert bare.drift is None
    assert bare.comparison is not None
    assert bare.comparison.ratio.value == pytest.approx(1.05, rel=1e-3)


def test_one_study_of_the_aa_benchmark_gives_a_line() -> None:
    name = next(iter(aa.NOISES))
    seen = aa.one(name, 0.0, 0)
    assert seen.search_hours == pytest.approx(2.5, abs=0.1)
    line = aa.row(name, [seen, seen], 0.0)
    assert line.count("|") == aa.HEADER.count("|")


def test_shares_come_with_wilsons_interval() -> None:
    assert aa.wilson(0, 100) == "0 of 100 (0.0 to 3.7 %)"
    assert aa.wilson(5, 100) == "5 of 100 (2.2 to 11.2 %)"


def test_rank_errors_are_none_in_the_true_order_and_all_in_the_reverse() -> None:
    truths = np.array([1.0, 1.1, 1.2, 1.201])
    assert drift.spearman(truths * 3, truths) == pytest.approx(1.0)
    assert drift.wrong_order(truths * 3, truths) == 0.0
    assert drift.spearman(-truths, truths) == pytest.approx(-1.0)
    assert drift.wrong_order(-truths, truths) == 1.0


def test_the_optimum_is_over_the_whole_space_and_effects_are_the_same_for_the_same_seed() -> None:
    effect, again = every_factor(3), every_factor(3)
    assert effect(BASELINE) == 1.0
    assert drift.optimum(effect) == drift.optimum(again) > 1.0
    assert drift.optimum(nothing) == 1.0
