"""benchmarks/model_effect_coverage.py: what is held against what."""

import math

import pytest

from autotune.domain.trial import TrialResult
from autotune.study.explaining.answers import Difference
from benchmarks import model_effect_coverage as benchmark
from benchmarks.search import tables
from benchmarks.search.replay import Truth


@pytest.fixture(scope="module")
def table() -> tables.Table:
    return tables.load("nvlink-x8")


@pytest.fixture(scope="module")
def results(table: tables.Table) -> list[TrialResult]:
    return benchmark.study(table, seed=3, trials=14)


def test_a_study_without_noise_has_the_tables_figures_and_its_intervals_widths(
    table: tables.Table, results: list[TrialResult]
) -> None:
    alive = next(result for result in results if result.score is not None)
    exact = benchmark._without_noise(table, alive)
    cell = table.cell(alive.configuration)
    for before, after, rate in zip(alive.measurements, exact.measurements, cell.throughput, strict=True):
        old, new = before.output_throughput, after.output_throughput
        assert old is not None
        assert new is not None
        assert new.value == rate
        assert benchmark._half(new) == pytest.approx(benchmark._half(old))


def test_without_a_second_change_there_is_nothing_extra(table: tables.Table) -> None:
    baseline = table.spec.baseline
    other = baseline.replace(NCCL_PROTO="LL")
    assert benchmark._extra(table, (baseline, other, baseline, other)) == pytest.approx(0.0)
    assert benchmark._extra(table, (baseline, baseline, baseline, other)) == pytest.approx(
        math.log((1 - Truth(table).regret(other)) / (1 - Truth(table).regret(baseline)))
    )


def test_an_interval_holds_what_lies_within_196_deviations() -> None:
    assert benchmark._holds(Difference(0.0, 0.01), 0.0195)
    assert not benchmark._holds(Difference(0.0, 0.01), -0.0197)


def test_a_studys_effects_are_counted_by_kind_with_their_widths(
    table: tables.Table, results: list[TrialResult]
) -> None:
    tally = benchmark.Tally()
    benchmark.count(table, results, tally)
    assert (tally.studies, tally.withheld) == (1, 0)
    counts, levels = tally.counts, len(table.levels)
    assert len(counts["model"].held) == len(counts["raw"].held) > 3
    assert len(counts["model, levels"].held) == levels * len(counts["model"].held)
    assert len(counts["pairs"].held) >= 1
    assert counts["interactions"].widths
    assert all(0 < width < 1 for width in counts["model"].widths)
    text = benchmark.report("nvlink-x8", tally)
    assert "| model | " in text
    assert "| pairs | " in text
