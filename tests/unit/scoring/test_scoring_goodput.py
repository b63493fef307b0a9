from __future__ import annotations

from typing import Any

import pytest

from autotune.domain.measurement import ClientHealth, LevelRun, RequestRecord
from autotune.errors import InputError
from autotune.scoring import goodput, measure


def record(ttft_s: float = 0.1, tokens: int = 11, gap_s: float = 0.02, **overrides: Any) -> RequestRecord:
    times = tuple(5.0 + ttft_s + gap_s * i for i in range(tokens))
    fields: dict[str, Any] = {
        "identity": "a",
        "prompt": "p",
        "warmup": False,
        "requested_tokens": tokens,
        "sent_s": 5.0,
        "chunk_times_s": times,
        "chunk_tokens": tuple(range(1, tokens + 1)),
        "completion_tokens": tokens,
        "finish_reason": "length",
    }
    return RequestRecord(**{**fields, **overrides})


def test_goodput_is_the_share_of_requests_within_every_bound() -> None:
    records = [record(), record(), record(ttft_s=0.5), record(gap_s=0.2)]
    found = goodput(records, {"ttft_ms": 200, "tpot_ms": 50})
    assert found is not None
    assert found.value == 0.5
    assert found.low is not None
    assert found.high is not None
    assert 0.1 < found.low < 0.2 < 0.8 < found.high < 0.9


def test_a_bound_is_met_by_the_very_value() -> None:
    found = goodput([record(ttft_s=0.25)], {"ttft_ms": 250.0})
    assert found is not None
    assert found.value == 1.0


def test_a_failed_request_is_not_good_and_a_cancelled_or_warm_up_one_is_not_judged() -> None:
    records = [record(), record(error="HTTP 503"), record(cancelled=True, ttft_s=9), record(warmup=True, ttft_s=9)]
    found = goodput(records, {"e2e_s": 1})
    assert found is not None
    assert (found.value, found.batches) == (0.5, 2)


def test_nothing_to_judge_is_none_and_not_zero() -> None:
    assert goodput([], {"ttft_ms": 100}) is None
    unknown = record(chunk_times_s=(), chunk_tokens=(), completion_tokens=None)
    assert goodput([unknown], {"ttft_ms": 100}) is None


def test_one_bound_that_is_missed_decides_even_where_another_is_unknown() -> None:
    uncounted = record(chunk_times_s=(), chunk_tokens=(), first_text_s=5.9, ended_s=6.0)
    assert goodput([uncounted], {"tpot_ms": 10}) is None
    missed = goodput([uncounted], {"ttft_ms": 100, "tpot_ms": 10})
    assert missed is not None
    assert missed.value == 0.0


def test_an_answer_of_one_token_has_no_gap_that_is_too_long() -> None:
    found = goodput([record(tokens=1)], {"tpot_ms": 1})
    assert found is not None
    assert found.value == 1.0


def test_an_unknown_bound_is_refused() -> None:
    with pytest.raises(InputError, match="ttft_p95"):
        goodput([record()], {"ttft_p95": 3})


def test_streams_without_counts_give_throughput_at_their_ends_and_latencies_but_no_gaps() -> None:
    records = tuple(
        record(
            sent_s=float(i),
            chunk_times_s=(),
            chunk_tokens=(),
            completion_tokens=50,
            requested_tokens=50,
            first_text_s=i + 0.2,
            ended_s=i + 1.0,
        )
        for i in range(12)
    )
    seen = measure(LevelRun(1, records, (1.0, 11.0), ClientHealth(None, None)))
    assert seen.output_throughput is not None
    assert seen.output_throughput.value == 50.0
    assert seen.output_throughput.low is None
    assert seen.ttft_ms is not None
    assert seen.ttft_ms.p50 == pytest.approx(200)
    assert seen.e2e_s is not None
    assert seen.e2e_s.p50 == pytest.approx(1.0)
    assert (seen.itl_ms, seen.tpot_ms) == (None, None)
    assert any("carry no token counts" in remark for remark in seen.remarks)


def test_an_open_loop_counts_by_arrival_so_that_the_slowest_is_not_left_out() -> None:
    quick, slow, late = record(sent_s=5.0), record(sent_s=5.0, gap_s=3.0), record(sent_s=9.0)
    run = LevelRun(2, (quick, slow, late), (4.0, 8.0), ClientHealth(None, None), rate=1.0)
    seen = measure(run)
    assert (seen.requests_total, seen.requests_ok, seen.rate) == (2, 2, 1.0)
    assert seen.e2e_s is not None
    assert seen.e2e_s.p99 > 25
