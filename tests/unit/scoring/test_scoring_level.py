import numpy as np
import pytest
from builders import level_run, record

from autotune.domain.measurement import Measurement
from autotune.scoring import measure


def seen(measurement: Measurement) -> list[str]:
    """Names of the figures that are not None."""
    names = ("output_throughput", "per_request_rate", "ttft_ms", "itl_ms", "tpot_ms", "e2e_s", "accept_length")
    return [name for name in names if getattr(measurement, name) is not None]


def test_throughput_of_a_steady_closed_loop_is_tokens_over_time() -> None:
    measured = measure(level_run(concurrency=2))
    assert measured.output_throughput is not None
    assert measured.output_throughput.value == pytest.approx(2 * 50 / 1.02, rel=0.001)
    assert measured.output_throughput.batches == 24
    assert measured.window_s == pytest.approx(40.8)
    assert measured.requests_ok == measured.requests_total >= 78
    assert measured.remarks == ()


def test_latencies_of_a_steady_closed_loop_are_those_it_was_made_of() -> None:
    measured = measure(level_run(concurrency=2))
    assert measured.ttft_ms is not None
    assert measured.ttft_ms.p50 == pytest.approx(40.0)
    assert measured.itl_ms is not None
    assert measured.itl_ms.p99 == pytest.approx(20.0)
    assert measured.tpot_ms is not None
    assert measured.tpot_ms.mean == pytest.approx(20.0)
    assert measured.e2e_s is not None
    assert measured.e2e_s.p50 == pytest.approx(1.02)
    assert measured.per_request_rate == pytest.approx(50 / 1.02)


def test_tokens_count_when_their_chunk_arrives_inside_the_window() -> None:
    straddling = record(sent_s=0.0, chunks=[(1.0, 3), (2.0, 7), (3.0, 12)])
    measured = measure(level_run(straddling, window=(1.0, 2.5), concurrency=1))
    assert measured.completion_tokens == 4  # the chunk at the very start belongs to what came before
    assert measured.output_throughput is not None
    assert measured.output_throughput.value == pytest.approx(4 / 1.5)


def test_a_chunk_at_the_very_end_of_the_window_counts() -> None:
    measured = measure(level_run(record(chunks=[(1.0, 3), (2.0, 7)]), window=(0.0, 2.0), concurrency=1))
    assert measured.completion_tokens == 7


def test_warm_up_and_cancelled_requests_count_for_throughput_and_for_nothing_else() -> None:
    measured = measure(
        level_run(
            record(chunks=[(1.0, 5)], warmup=True),
            record(chunks=[(2.0, 6)], cancelled=True, completion_tokens=None),
            window=(0.0, 4.0),
        )
    )
    assert measured.completion_tokens == 11
    assert seen(measured) == ["output_throughput"]
    assert (measured.requests_total, measured.requests_ok) == (0, 0)


def test_a_request_sent_before_the_window_that_ends_inside_is_counted_and_has_no_latency() -> None:
    measured = measure(level_run(record(sent_s=-1.0, chunks=[(1.5, 1), (2.0, 2)]), window=(0.0, 10.0)))
    assert seen(measured) == ["output_throughput"]
    assert (measured.requests_total, measured.requests_ok) == (1, 1)


@pytest.mark.parametrize("chunks", [[(1.5, 1), (11.0, 2)], [(-0.5, 1), (0.0, 2)]], ids=["after", "at the very start"])
def test_a_request_that_ends_outside_the_window_is_not_counted(chunks: list[tuple[float, int]]) -> None:
    measured = measure(level_run(record(sent_s=-1.0, chunks=chunks), window=(0.0, 10.0)))
    assert (measured.requests_total, measured.requests_ok) == (0, 0)
    assert measured.e2e_s is None


def test_a_request_that_failed_without_an_answer_is_counted_where_it_was_sent() -> None:
    failed = [record(sent_s=sent, chunks=[], error="reset") for sent in (-1.0, 0.0, 5.0, 11.0)]
    assert measure(level_run(*failed, window=(0.0, 10.0))).requests_total == 2


def test_gaps_between_chunks_are_shared_among_the_tokens_of_the_later_chunk() -> None:
    measured = measure(level_run(record(chunks=[(1.0, 2), (1.3, 5), (1.4, 6)])))
    assert measured.itl_ms is not None
    assert measured.itl_ms.count == 4
    assert measured.itl_ms.mean == pytest.approx(100.0)
    assert measured.tpot_ms is not None
    assert measured.tpot_ms.mean == pytest.approx(100.0)  # 0.4 s over the 4 tokens after the first chunk
    assert measured.ttft_ms is not None
    assert measured.ttft_ms.mean == pytest.approx(1000.0)


def test_a_last_event_without_tokens_ends_the_request_and_is_no_token() -> None:
    measured = measure(level_run(record(chunks=[(1.0, 1), (1.2, 2), (1.9, 2)])))
    assert measured.itl_ms is not None
    assert (measured.itl_ms.count, measured.itl_ms.mean) == (1, pytest.approx(200.0))
    assert measured.e2e_s is not None
    assert measured.e2e_s.mean == pytest.approx(1.9)


def test_one_chunk_only_has_a_first_token_and_no_gaps() -> None:
    measured = measure(level_run(record(chunks=[(0.5, 8)])))
    assert seen(measured) == ["output_throughput", "per_request_rate", "ttft_ms", "e2e_s"]
    assert measured.itl_ms is None
    assert measured.tpot_ms is None


def test_percentiles_are_those_of_the_raw_samples() -> None:
    delays = np.random.default_rng(3).exponential(0.2, size=50)
    measured = measure(level_run(*(record(sent_s=i * 0.1, chunks=[(i * 0.1 + d, 1)]) for i, d in enumerate(delays))))
    assert measured.ttft_ms is not None
    assert measured.ttft_ms.p95 == pytest.approx(np.percentile(delays, 95) * 1000)
    assert measured.ttft_ms.mean == pytest.approx(delays.mean() * 1000)


def test_accept_length_is_tokens_over_verify_passes_of_all_requests_together() -> None:
    measured = measure(level_run(record(tokens=30, verify_count=10), record(tokens=10, verify_count=10)))
    assert measured.accept_length == pytest.approx(2.0)


def test_accept_length_looks_only_at_requests_that_tell() -> None:
    assert measure(level_run(record(tokens=30, verify_count=10), record(tokens=10))).accept_length == pytest.approx(3.0)
    assert measure(level_run(record(tokens=30))).accept_length is None
    assert measure(level_run(record(tokens=30, verify_count=0))).accept_length is None


def test_no_records_give_no_figures() -> None:
    measured = measure(level_run(record(), window=(5.0, 9.0)))
    assert seen(measured) == []
    assert measured.completion_tokens is None
    assert any("no token arrived" in remark for remark in measured.remarks)


def test_a_run_in_which_every_request_failed_has_no_figures_and_says_why() -> None:
    failed = [record(sent_s=1.0 + i, chunks=[], error="connection reset") for i in range(3)]
    measured = measure(level_run(*failed))
    assert seen(measured) == []
    assert (measured.requests_total, measured.requests_ok) == (3, 0)
    assert "3 of 3 requests failed, mostly: connection reset" in measured.remarks


def test_failed_requests_count_among_all_and_not_among_the_good() -> None:
    measured = measure(level_run(record(), record(error="timeout", completion_tokens=None)))
    assert (measured.requests_total, measured.requests_ok) == (2, 1)
    assert measured.e2e_s is not None
    assert measured.e2e_s.count == 1


@pytest.mark.parametrize(
    ("window", "says"), [(None, "never reached 2"), ((3.0, 3.0), "no length")], ids=["no window", "zero length"]
)
def test_without_a_window_there_is_no_figure(window: tuple[float, float] | None, says: str) -> None:
    measured = measure(level_run(record(), window=window))
    assert seen(measured) == []
    assert measured.window_s is None
    assert says in measured.remarks[0]


@pytest.mark.parametrize(
    ("run", "says"),
    [
        (level_run(in_flight_minimum=1), "in flight fell to 1 of 2"),
        (level_run(record(requested_tokens=9, tokens=8)), "1 of 1 requests ended with another number of tokens"),
        (level_run(record(completion_tokens=None)), "did not count the tokens of 1 of 1"),
        (level_run(record()), "no interval: the window is worth 1.0 requests"),
        (level_run(record(), window=(0.0, 0.2)), "no interval: the window holds 7 decode steps"),
    ],
)
def test_what_a_reader_must_know_is_remarked(run: object, says: str) -> None:
    assert any(says in remark for remark in measure(run).remarks)  # type: ignore[arg-type]
