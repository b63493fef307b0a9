"""What reports say of trials that were stopped early."""

from __future__ import annotations

from dataclasses import replace

from builders import eagle, estimate, measurement, study_result, trial

from autotune.domain.confirmation import Drift
from autotune.domain.pruning import Bound
from autotune.domain.trial import TrialResult, TrialState
from autotune.reporting import factor_table, failures_table, markdown_report, terminal_report, trial_line
from autotune.reporting.sections.pruned import pruned_rows

BOUND = Bound("weighted_throughput", 280.5, estimate(356.6, 1.0), 1, (64, 10), {1: 88.0})


def pruned(number: int = 2, bound: Bound = BOUND) -> TrialResult:
    made = trial(number, measurements=(measurement(10, 300.0),), score=None, bound=bound)
    return replace(made, state=TrialState.PRUNED, configuration=eagle(speculative_num_steps=1, cuda_graph_max_bs=32))


def test_each_has_its_levels_its_bound_and_the_best_of_its_time() -> None:
    (row,) = pruned_rows(study_result(trial(0), trial(1, 356.6), pruned())).rows
    assert row[:4] == ("2", "64, 10", "280.5 tok/s", "356.6 ± 1.0 tok/s (trial 1)")
    assert "cuda_graph_max_bs=32" in row[4]
    assert row[5] == ""


def test_one_whose_bound_is_above_a_best_that_has_come_down_is_named() -> None:
    study = study_result(trial(0, 240.0), trial(1, 356.6), pruned())
    drift = Drift(2, 1.0, estimate(0.7, 0.01), 0.005, {}, {0: estimate(240.0), 1: estimate(270.0)}, 0.3)
    (row,) = pruned_rows(replace(study, drift=drift)).rows
    assert row[5] == "may be above the best as it is known now"


def test_a_study_without_any_has_no_such_table() -> None:
    assert pruned_rows(study_result()).rows == ()
    assert "stopped early" not in markdown_report(study_result()).lower()


def test_it_is_no_trial_without_figures() -> None:
    assert failures_table(study_result(trial(0), trial(1, 356.6), pruned())) == ""


def test_its_factor_has_an_effect_of_at_most_so_much() -> None:
    table = factor_table(study_result(trial(0), trial(1, 330.0), pruned()))
    (row,) = [line for line in table.splitlines() if line.startswith("cuda_graph_max_bs")]
    assert "at most -15.0 %" in row


def test_its_line_has_the_bound_in_place_of_the_score() -> None:
    line = trial_line(pruned(), trial(0))
    assert line.startswith("trial   2 | pruned      | at most 280.5 tok/s | - |")


def test_both_reports_have_it() -> None:
    study = study_result(trial(0), trial(1, 356.6), pruned())
    assert "## Trials stopped early" in markdown_report(study)
    assert "trials stopped early: they could not come near the best any more" in terminal_report(study)
    assert "3 trials (2 complete, 1 pruned)" in terminal_report(study)
