"""How rates are shown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from builders import estimate, measurement, spec, study_result, trial, workload

from autotune.domain.finding import Effect, Finding
from autotune.domain.level import Rate
from autotune.domain.measurement import UNSUSTAINED, Estimate, Measurement, Objective, Score
from autotune.domain.slo import Slo, SloCheck
from autotune.domain.space import SpaceCount
from autotune.domain.study import StudyResult, StudySpec
from autotune.domain.trial import TrialResult
from autotune.reporting import (
    best_at,
    clearness,
    level_line,
    markdown_report,
    space_summary,
    summary,
    terminal_report,
)
from autotune.reporting.sections.fronts import left_out
from autotune.reporting.sections.nccl import nccl_rows

BEHIND = Finding(UNSUSTAINED, Effect.MARK, "in flight grew from 3 to 90", Rate(8.0))


def asked(**overrides: Any) -> StudySpec:
    base = spec(
        objective=Objective("weighted_goodput"),
        workload=workload(concurrency={}, rates={4.0: 1.0, 8.0: 2.0}),
        slo=Slo({"ttft_ms": 500.0}),
    )
    return replace(base, **overrides)


def seen(rate: float, good: float, *, behind: bool = False) -> Measurement:
    return measurement(
        9,
        rate=rate,
        good_share=Estimate(good / rate, good / rate - 0.02, good / rate + 0.02),
        goodput=estimate(good, 0.1),
        findings=(BEHIND,) if behind else (),
    )


def shown(number: int, low: float, high: float, *, behind: bool = False, **overrides: Any) -> TrialResult:
    value = Score("weighted_goodput", estimate((low + 2 * high) / 3, 0.1), {Rate(4.0): low, Rate(8.0): high})
    return trial(number, measurements=(seen(4.0, low), seen(8.0, high, behind=behind)), score=value, **overrides)


def study(*trials: TrialResult) -> StudyResult:
    return study_result(*trials, spec=asked())


FOUND = study(shown(0, 3.9, 3.0, behind=True), shown(1, 3.8, 7.8), shown(2, 2.0, 7.9, behind=True))


def test_the_line_of_a_rate_begins_with_it_and_says_what_was_good() -> None:
    assert level_line(seen(4.0, 3.8)).startswith("rate 4/s | C=  9 | 60 requests")
    assert level_line(seen(4.0, 3.8)).endswith("| good 95.0%")
    assert level_line(seen(8.0, 3.0, behind=True)).endswith("| good 37.5% | not sustained")
    assert "good" not in level_line(measurement())


def test_the_best_at_a_rate_is_that_of_the_highest_goodput_which_sustains_it() -> None:
    best = best_at(FOUND, Rate(8.0))
    assert best is not None
    assert (best.point.trial.number, clearness(best)) == (1, "the only one")
    low = best_at(FOUND, Rate(4.0))
    assert low is not None
    assert (low.point.trial.number, [r.trial.number for r in low.rivals]) == (0, [1])
    assert best_at(FOUND, Rate(5.0)) is None
    assert best_at(FOUND, 9) is None, "what was in flight is no level"


def test_a_trial_that_breaks_a_bound_at_a_rate_is_not_the_best_there() -> None:
    broken = (SloCheck("ttft_p95_ms", Rate(4.0), 500.0, 812.0, 0.624, 100),)
    best = best_at(study(shown(0, 3.0, 3.0), shown(1, 3.9, 7.0, slo=broken)), Rate(4.0))
    assert best is not None
    assert best.point.trial.number == 0


@pytest.mark.parametrize("render", [terminal_report, markdown_report])
def test_reports_show_goodput_at_each_rate_and_no_front(render: Any) -> None:
    text = render(FOUND)
    assert "oodput at rates, good requests/s (95 % intervals)" in text
    assert "utput throughput, tok/s" not in text
    assert "3.00 ± 0.10, not sustained" in text
    assert "est at each rate" in text or "`autotune export --rate R` gives the command" in text
    assert "ront of per-request rate" not in text


def test_the_method_says_how_requests_arrived() -> None:
    text = markdown_report(FOUND)
    assert "Open loop: at each rate requests arrive as a Poisson process" in text
    assert "60 at 4 req/s, 60 at 8 req/s" in text
    assert "Closed loop" not in text


def test_the_json_names_the_rate_where_it_would_name_the_level() -> None:
    data = summary(FOUND, run_dir="runs/x")
    assert [(one["rate"], one["trial"], one["goodput"]) for one in data["best_per_level"]] == [
        (4.0, 0, 3.9),
        (8.0, 1, 7.8),
    ]
    assert data["front"] == []


def test_levels_and_rates_stand_in_one_table() -> None:
    both = asked(workload=workload(concurrency={10: 1.0}, rates={4.0: 1.0}))
    found = study_result(trial(0, measurements=(measurement(10), seen(4.0, 3.8))), spec=both)
    text = terminal_report(found)
    assert "output throughput, tok/s; goodput at rates, good requests/s (95 % intervals)" in text
    assert "453.2 ± 1.2" in text
    assert "3.80 ± 0.10" in text


def test_a_trial_without_goodput_at_a_rate_says_so() -> None:
    lost = shown(1, 3.0, 3.0)
    lost = replace(lost, score=None, measurements=(seen(4.0, 3.0), replace(seen(8.0, 3.0), goodput=None)))
    assert "no goodput at 8 req/s" in terminal_report(study(shown(0, 3.0, 3.0), lost))


def test_what_a_rate_costs_follows_from_the_rate_and_from_how_long_a_request_lasts() -> None:
    counted = SpaceCount(valid=4, combinations=5, servers=4, refused={}, exact=True)
    text = space_summary(asked(), counted, versions={}, tokens_per_second=0.8)  # 64 tokens take 80 s
    line = next(line for line in text.splitlines() if line.startswith("  4 req/s"))
    # warm-up and window last for 1.5 requests: 480 arrivals each; then 320 more until the last one ends
    assert line.split() == ["4", "req/s", "1", "480", "30,720", "5.3", "min"]
    # at 8 a second warm-up is given up after 492, and arrivals end with the 1,392 prompts of the level
    assert "one trial: 2,672 prompts" in text
    assert "  8 req/s: good: ttft_ms ≤ 500" in text


def test_bounds_broken_at_a_rate_leave_nothing_out_of_the_front() -> None:
    both = asked(workload=workload(concurrency={10: 1.0}, rates={4.0: 1.0}))
    broken = tuple(SloCheck("ttft_p95_ms", level, 500.0, 812.0, 0.624, 100) for level in (10, Rate(4.0)))
    assert left_out(study_result(replace(shown(0, 3.0, 3.0), slo=broken), spec=both)) == 1


def test_the_table_of_nccl_settings_shows_goodput_at_rates() -> None:
    proof = {"allreduce_us.8192": "9"}
    table = nccl_rows(study(shown(0, 3.9, 3.0, behind=True, proof=proof), shown(1, 3.8, 7.8, proof=proof)))
    places = [table.header.index(f"{rate} req/s goodput") for rate in (4, 8)]
    assert [[row[place] for place in places] for row in table.rows] == [
        ["3.90 ± 0.10", "3.00 ± 0.10, not sustained"],
        ["3.80 ± 0.10", "7.80 ± 0.10"],
    ]
