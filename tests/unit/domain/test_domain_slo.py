"""Bounds by level, and what a check says of itself."""

from __future__ import annotations

import pytest
from builders import study_result, trial

from autotune.domain.slo import Slo, SloCheck, requests_needed


def check(observed: float | None, **overrides: object) -> SloCheck:
    fields: dict[str, object] = {
        "figure": "ttft_p95_ms",
        "level": 64,
        "bound": 500.0,
        "violation": None if observed is None else observed / 500.0 - 1.0,
        "requests": 320,
    }
    return SloCheck(observed=observed, **{**fields, **overrides})  # type: ignore[arg-type]


def test_a_level_has_the_general_bounds_with_its_own_in_their_place() -> None:
    slo = Slo({"ttft_p95_ms": 500.0, "tpot_p95_ms": 30.0}, {64: {"ttft_p95_ms": 2000.0, "e2e_p99_s": 20.0}})
    assert slo.at(1) == {"ttft_p95_ms": 500.0, "tpot_p95_ms": 30.0}
    assert slo.at(64) == {"ttft_p95_ms": 2000.0, "tpot_p95_ms": 30.0, "e2e_p99_s": 20.0}


def test_bounds_on_each_request_are_told_apart_from_those_on_figures() -> None:
    slo = Slo({"ttft_ms": 500.0, "good_share": 0.95})
    assert slo.at(1) == {"good_share": 0.95}
    assert slo.of_a_request(1) == {"ttft_ms": 500.0}


@pytest.mark.parametrize(
    ("slo", "there"), [(Slo(), False), (Slo({"ttft_ms": 1.0}), True), (Slo({}, {1: {"e2e_p50_s": 1.0}}), True)]
)
def test_an_slo_without_bounds_is_none(slo: Slo, there: bool) -> None:
    assert bool(slo) is there


@pytest.mark.parametrize(
    ("found", "broken", "clear", "said"),
    [
        (check(812.0, low=700.0, high=900.0), True, True, "ttft_p95_ms at level 64: 812 > 500"),
        (check(812.0, low=450.0), True, False, "ttft_p95_ms at level 64: 812 > 500 (unclear, 320 requests)"),
        (check(480.4, low=400.0, high=490.0), False, True, "ttft_p95_ms at level 64: 480 ≤ 500"),
        (check(480.0, low=400.0), False, False, "ttft_p95_ms at level 64: 480 ≤ 500 (unclear, 320 requests)"),
        (check(500.0, low=400.0, high=500.0), False, True, "ttft_p95_ms at level 64: 500 ≤ 500"),
        (check(None), True, False, "ttft_p95_ms at level 64: not seen, and 500 is the bound"),
        (
            check(25.04, figure="per_request_rate", bound=30.0, violation=0.165, low=24.0, high=29.0),
            True,
            True,
            "per_request_rate at level 64: 25 < 30",
        ),
        (
            check(31.0, figure="per_request_rate", bound=30.0, violation=-0.03, low=29.0, high=33.0),
            False,
            False,
            "per_request_rate at level 64: 31 ≥ 30 (unclear, 320 requests)",
        ),
    ],
)
def test_a_check_says_what_was_seen_and_whether_that_is_clear(
    found: SloCheck, broken: bool, clear: bool, said: str
) -> None:
    assert (found.broken, found.clear, str(found)) == (broken, clear, said)


@pytest.mark.parametrize(
    ("figure", "needed"),
    [("ttft_p50_ms", 6), ("tpot_p95_ms", 72), ("e2e_p99_s", 368), ("per_request_rate", 1), ("good_share", 1)],
)
def test_a_percentile_needs_so_many_requests_for_an_upper_end(figure: str, needed: int) -> None:
    assert requests_needed(figure) == needed


def test_a_trials_violation_is_the_sum_over_what_it_breaks() -> None:
    kept, broken, unseen = check(400.0), check(600.0), check(None)
    found = trial(1, slo=(kept, broken, unseen))
    assert found.broken == (broken, unseen)
    assert found.violation == pytest.approx(1.2)
    assert trial(1, slo=(kept,)).violation == 0


def test_the_best_is_the_best_that_keeps_to_the_slo() -> None:
    result = study_result(trial(0), trial(1, 400.0, slo=(check(600.0),)), trial(2, 350.0, slo=(check(400.0),)))
    assert result.best is result.trials[2]
    assert result.least_violating is None


def test_where_none_keeps_to_the_slo_there_is_no_best_and_one_that_comes_closest() -> None:
    result = study_result(
        trial(0, slo=(check(700.0),)), trial(1, 300.0, slo=(check(550.0),)), trial(2, 400.0, slo=(check(900.0),))
    )
    assert result.best is None
    assert result.least_violating is result.trials[1]
