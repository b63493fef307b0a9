"""The replayed node of benchmarks/search_early_stopping.py: what a stopped trial costs, and what it would have."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from autotune.domain.measurement import Estimate, Measurement
from autotune.domain.pruning import Bound
from autotune.domain.trial import Origin, TrialRequest, TrialState
from benchmarks import search_early_stopping as benchmark
from benchmarks.search import tables
from benchmarks.search.replay import Node, Truth


@pytest.fixture(scope="module")
def table() -> tables.Table:
    return tables.load("nvlink-x8")


@dataclass(frozen=True)
class AfterTwo:
    order: tuple[int, ...] = (32, 1, 8, 128)

    def bound(self, measurements: Sequence[Measurement]) -> Bound | None:
        levels = tuple(seen.concurrency for seen in measurements)
        return Bound("weighted_throughput", 1.0, Estimate(9.0, 8.0, 10.0), 0, levels) if len(levels) == 2 else None


def test_a_stopped_trial_costs_its_start_and_the_levels_that_it_ran(table: tables.Table) -> None:
    node, plain = benchmark.StoppingNode(table, 3), Node(table, 3)
    request = TrialRequest(0, table.spec.baseline, Origin.GREEDY, screen=AfterTwo())
    stopped, whole = node.evaluate(request), plain.evaluate(request)
    assert (stopped.state, stopped.score) == (TrialState.PRUNED, None)
    assert [seen.concurrency for seen in stopped.measurements] == [1, 32]
    assert node.whole == [whole]
    assert whole.node_seconds - stopped.node_seconds == pytest.approx(node.seconds_of(whole, {8, 128}))
    assert node.seconds == stopped.node_seconds


def test_a_trial_without_a_screen_runs_to_its_end(table: tables.Table) -> None:
    node = benchmark.StoppingNode(table, 3)
    assert node.evaluate(TrialRequest(0, table.spec.baseline, Origin.BASELINE)).state is TrialState.COMPLETE
    assert node.results == node.whole


def test_a_run_saves_time_and_its_winner_is_among_the_complete(table: tables.Table) -> None:
    options = argparse.Namespace(trials=12, strategy="greedy_tpe")
    done = benchmark.run(table, Truth(table), 1, options)
    assert done.stopped > 0
    assert done.minutes < done.whole_minutes
    assert (done.winner_stopped, done.lost) == (False, 0.0)


def test_the_row_counts_the_runs_whose_winner_was_stopped() -> None:
    good = benchmark.Run(80.0, 100.0, 40.0, 30, 10, 0, winner_stopped=False, lost=0.0)
    bad = benchmark.Run(90.0, 100.0, 40.0, 30, 10, 1, winner_stopped=True, lost=0.03)
    assert benchmark.row("t", [good, bad]) == (
        "| t | 2 | 0.850 (0.825–0.875) | 0.625 (0.562–0.688) | 33 % | 1 of 2 | 3.00 % | 1 of 20 |"
    )
