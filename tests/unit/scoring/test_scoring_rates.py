"""What a level at a rate shows, and what becomes of it where the server falls behind."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import estimate, level_run, measurement, percentiles, trial

from autotune.domain.finding import Effect, Finding
from autotune.domain.level import Rate
from autotune.domain.measurement import UNSUSTAINED, Measurement, Objective
from autotune.domain.slo import UNSEEN, Slo
from autotune.scoring import Evidence, guarded, judge, measure, score
from autotune.scoring.trials.readings import level_reading

BEHIND = "the rate is above what the server sustains: in flight grew from 3 to 90"


def at_rate(rate: float = 4.0, in_flight: int = 9, *, sustained: bool = True, **overrides: object) -> Measurement:
    found = () if sustained else (Finding(UNSUSTAINED, Effect.MARK, BEHIND, Rate(rate)),)
    return replace(measurement(in_flight, rate=rate, findings=found), **overrides)  # type: ignore[arg-type]


def test_goodput_of_several_rates_is_weighted_by_the_rates_whatever_is_in_flight() -> None:
    seen = (at_rate(4.0, 9, goodput=estimate(3.8, 0.1)), at_rate(8.0, 9, goodput=estimate(6.0, 0.2)))
    made = score(seen, Objective("weighted_goodput"), {Rate(4.0): 1.0, Rate(8.0): 3.0}, None)
    assert made is not None
    assert made.estimate.value == pytest.approx((3.8 + 3 * 6.0) / 4)
    assert made.per_level == {Rate(4.0): 3.8, Rate(8.0): 6.0}


def test_levels_and_rates_are_weighted_together() -> None:
    seen = (measurement(4, goodput=estimate(2.0)), at_rate(4.0, 4, goodput=estimate(3.0)))
    made = score(seen, Objective("weighted_goodput"), {4: 1.0, Rate(4.0): 1.0}, None)
    assert made is not None
    assert made.estimate.value == pytest.approx(2.5)


def test_a_rate_whose_goodput_was_not_seen_gives_no_score() -> None:
    assert score((at_rate(goodput=None),), Objective("weighted_goodput"), {Rate(4.0): 1.0}, None) is None


def test_what_a_rate_is_about_is_its_goodput_and_a_level_its_throughput() -> None:
    seen = trial(measurements=(measurement(9, 450.0), at_rate(4.0, 9, goodput=estimate(3.0, 0.3))))
    of_rate, of_level = level_reading(seen, Rate(4.0)), level_reading(seen, 9)
    assert of_rate is not None
    assert of_level is not None
    assert (of_rate.value, of_level.value) == (pytest.approx(1.0986, abs=1e-3), pytest.approx(6.109, abs=1e-3))
    assert level_reading(seen, Rate(8.0)) is None


def test_bounds_at_a_rate_are_judged_as_at_a_level() -> None:
    (kept,) = judge((at_rate(ttft_ms=percentiles(80.0)),), Slo({}, {Rate(4.0): {"ttft_p95_ms": 100.0}}), (Rate(4.0),))
    assert not kept.broken
    assert str(kept) == "ttft_p95_ms at 4 req/s: 80.8 ≤ 100 (unclear, 60 requests)"


def test_a_rate_that_is_not_sustained_keeps_no_bound_whatever_was_seen() -> None:
    seen = at_rate(sustained=False, ttft_ms=percentiles(80.0))
    (kept_so_far,) = judge((seen,), Slo({"ttft_p95_ms": 100.0}), (Rate(4.0),))
    assert kept_so_far.broken
    assert kept_so_far.clear
    assert kept_so_far.violation is None, f"counts for {UNSEEN}"
    assert str(kept_so_far) == "ttft_p95_ms at 4 req/s: the rate is not sustained, and 100 is the bound"


def test_a_bound_that_was_far_exceeded_before_the_rate_was_given_up_counts_for_what_was_seen() -> None:
    seen = at_rate(sustained=False, ttft_ms=percentiles(500.0))
    (far,) = judge((seen,), Slo({"ttft_p95_ms": 100.0}), (Rate(4.0),))
    assert far.violation == pytest.approx(4.05)


def test_findings_at_a_rate_name_the_rate_and_not_the_number_in_flight() -> None:
    run = level_run(rate=2.0, remarks=(BEHIND,))
    assert not run.sustained
    made = guarded(Evidence(run, measure(run), request_cap=1))
    assert {found.level for found in made.findings} == {Rate(2.0)}
    assert not made.sustained
    assert guarded(Evidence(replace(run, remarks=()), measure(run))).sustained
