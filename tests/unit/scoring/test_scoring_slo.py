"""Measurements against bounds."""

from __future__ import annotations

import math

import pytest
from builders import estimate, level_run, measurement, percentiles, record

from autotune.domain.measurement import Estimate, Objective
from autotune.domain.slo import Slo
from autotune.scoring import compare, judge, measure, score, with_goodput
from autotune.scoring.objective import log_score

GOODPUT = Objective("weighted_goodput")


def test_every_bound_is_judged_at_every_level_in_order() -> None:
    slo = Slo({"ttft_p95_ms": 100.0}, {10: {"tpot_p50_ms": 20.0}})
    checks = judge((measurement(1), measurement(10)), slo, (1, 10))
    assert [(c.level, c.figure) for c in checks] == [(1, "ttft_p95_ms"), (10, "ttft_p95_ms"), (10, "tpot_p50_ms")]


@pytest.mark.parametrize(
    ("figure", "observed"),
    [
        ("ttft_p50_ms", 11.0),
        ("ttft_p95_ms", 12.0),
        ("ttft_p99_ms", 13.0),
        ("itl_p95_ms", 22.0),
        ("tpot_p99_ms", 33.0),
        ("e2e_p50_s", 4.1),
        ("per_request_rate", 45.32),
        ("good_share", 0.9),
    ],
)
def test_each_figure_is_the_measurements_own(figure: str, observed: float) -> None:
    seen = measurement(
        ttft_ms=percentiles(10.0, p50=11.0, p95=12.0, p99=13.0),
        itl_ms=percentiles(20.0, p95=22.0),
        tpot_ms=percentiles(30.0, p99=33.0),
        e2e_s=percentiles(4.0, p50=4.1),
        good_share=Estimate(0.9, 0.8, 0.95),
    )
    (found,) = judge((seen,), Slo({figure: 1.0}), (10,))
    assert found.observed == pytest.approx(observed)


def test_a_ceiling_and_a_floor_are_violated_on_their_own_sides() -> None:
    seen = measurement(ttft_ms=percentiles(600.0, p95=750.0), per_request_rate=20.0)
    ceiling, floor = judge((seen,), Slo({"ttft_p95_ms": 500.0, "per_request_rate": 25.0}), (10,))
    assert (ceiling.violation, ceiling.broken) == (pytest.approx(0.5), True)
    assert (floor.violation, floor.broken) == (pytest.approx(0.2), True)
    kept = judge((seen,), Slo({"ttft_p95_ms": 1000.0, "per_request_rate": 20.0}), (10,))
    assert [found.broken for found in kept] == [False, False]


def test_the_interval_of_the_percentile_says_whether_it_is_clear() -> None:
    seen = measurement(ttft_ms=percentiles(600.0, p95=520.0, p95_interval=(480.0, None)), requests_ok=40)
    (found,) = judge((seen,), Slo({"ttft_p95_ms": 500.0}), (10,))
    assert (found.low, found.high, found.requests, found.clear) == (480.0, None, 40, False)


def test_a_per_request_rate_is_as_uncertain_as_the_throughput_in_percent() -> None:
    seen = measurement(output_throughput=estimate(400.0, 20.0), per_request_rate=41.0)
    (found,) = judge((seen,), Slo({"per_request_rate": 30.0}), (10,))
    assert (found.low, found.high) == (pytest.approx(41.0 * 0.95), pytest.approx(41.0 * 1.05))


@pytest.mark.parametrize("seen", [(), (measurement(10, None),)])
def test_what_was_not_seen_is_broken_and_has_no_violation(seen: tuple[object, ...]) -> None:
    (found,) = judge(seen, Slo({"ttft_p95_ms": 500.0}), (10,))  # type: ignore[arg-type]
    assert (found.observed, found.violation, found.broken) == (None, None, True)


def test_a_measured_level_brings_the_intervals_of_its_percentiles() -> None:
    found = measure(level_run())  # 80 requests that are all alike
    assert found.ttft_ms is not None
    assert found.ttft_ms.p95_interval == pytest.approx((40.0, 40.0))
    assert found.ttft_ms.p99_interval[1] is None, "80 requests bound no p99"
    assert found.itl_ms is not None
    assert found.itl_ms.count > 368
    assert found.itl_ms.p99_interval[1] is None, "nor do the 80 requests' many gaps"


def test_goodput_is_the_good_share_of_the_requests_a_second() -> None:
    run = level_run()  # 2 in flight, 1.02 s each: 1.96 requests a second, TTFT 40 ms
    good = with_goodput(measure(run), run, {"ttft_ms": 50.0})
    assert good.good_share is not None
    assert good.goodput is not None
    assert good.good_share.value == 1.0
    assert good.goodput.value == pytest.approx(2 / 1.02, rel=0.02)
    assert good.goodput.low is not None
    assert good.goodput.low < good.goodput.value
    none = with_goodput(measure(run), run, {"ttft_ms": 30.0})
    assert none.goodput is not None
    assert none.goodput.value == 0.0


def test_at_a_rate_the_requests_a_second_are_the_rate() -> None:
    records = [record(sent_s=float(second), identity=f"r{second}") for second in range(10)]
    run = level_run(*records, window=(0.0, 10.0), rate=1.25)
    found = with_goodput(measure(run), run, {"ttft_ms": 500.0})
    assert found.goodput is not None
    assert found.goodput.value == pytest.approx(1.25)


def test_without_bounds_on_requests_there_is_no_goodput() -> None:
    run = level_run()
    assert with_goodput(measure(run), run, {}).goodput is None


def test_weighted_goodput_is_the_weighted_mean_over_the_levels() -> None:
    seen = (measurement(1, goodput=estimate(1.0, 0.1)), measurement(10, goodput=estimate(4.0, 0.1)))
    found = score(seen, GOODPUT, {1: 1.0, 10: 2.0}, None)
    assert found is not None
    assert found.estimate.value == pytest.approx(3.0)
    assert found.per_level == {1: 1.0, 10: 4.0}


NONE = (measurement(1, goodput=Estimate(0.0, 0.0, 0.1)),)
"""Of about 38 requests, one a second."""


def test_no_good_request_at_all_is_a_score_of_nothing_and_compares_as_half_a_one() -> None:
    some = (measurement(1, goodput=estimate(1.0, 0.1)),)
    found = score(NONE, GOODPUT, {1: 1.0}, None)
    assert found is not None
    assert found.estimate.value == 0.0
    for side, other, verdict in ((some, NONE, "better"), (NONE, some, "worse")):
        seen = compare(side, other, GOODPUT, {1: 1.0})
        assert seen is not None
        assert seen.verdict == verdict
        assert seen.ratio.low is not None
        assert seen.ratio.high is not None
        assert seen.ratio.high > 100 * seen.ratio.low  # there is nothing to know it by
    assert log_score(NONE, GOODPUT, {1: 1.0}) == (pytest.approx(math.log(0.1 * 0.5 / 3.8415)), math.sqrt(2), math.inf)


def test_two_servers_without_a_good_request_have_no_ratio() -> None:
    other = (measurement(1, goodput=Estimate(0.0, 0.0, 0.2)),)
    assert compare(other, NONE, GOODPUT, {1: 1.0}) is None


def test_where_no_interval_is_known_no_good_request_is_nothing_to_compare_with() -> None:
    bare = (measurement(1, goodput=Estimate(0.0)),)
    assert log_score(bare, GOODPUT, {1: 1.0}) is None


def test_a_level_whose_goodput_is_not_known_has_no_score() -> None:
    assert score((measurement(1),), GOODPUT, {1: 1.0}, None) is None
