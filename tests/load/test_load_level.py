"""The client against a server that knows what it sent."""

from __future__ import annotations

import socket
import statistics
import time
from collections.abc import Callable

import pytest
from reference_server import Behaviour, ReferenceWire, Sent, ServerThread

from autotune.domain.measurement import LevelRun, RequestRecord
from autotune.domain.workload import LevelPlan, MeasurementPlan
from autotune.errors import LevelRefused, LoadFailed, NoTokens
from autotune.load import Clock, prompt_source, run_level, session


def measure(
    port: int, level: LevelPlan, *, max_tokens: int = 40, clock: Clock | None = None, **source: int
) -> LevelRun:
    prompts = prompt_source("coding", seed=7, **source)
    plan = MeasurementPlan((level,), max_tokens)
    return run_level(
        "127.0.0.1", port, wire=ReferenceWire(), plan=plan, level=level, prompts=prompts, clock=clock or Clock()
    )


def truth(thread: ServerThread) -> dict[str, Sent]:
    return {sent.prompt: sent for sent in thread.server.served}


def start_of_level(run: LevelRun, sent: dict[str, Sent]) -> float:
    """On the server's clock, but for the fraction of a millisecond that a request travels."""
    # One that left just before the end may be cut off before the server has read it.
    return min(sent[r.prompt].received - r.sent_s for r in run.records if r.prompt in sent)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def test_every_chunk_is_counted_with_the_tokens_that_the_server_reported() -> None:
    with ServerThread(Behaviour(tokens_per_chunk=3)) as thread:
        run = measure(thread.port, LevelPlan(6, 30))
        sent = truth(thread)
    finished = [record for record in run.records if record.ok]
    assert len(finished) >= 30 + 6  # more, where a slot was through with its first while another still connected
    for record in finished:
        assert record.chunk_tokens == tuple(count for _, count in sent[record.prompt].chunks)
        assert record.completion_tokens == record.requested_tokens == sent[record.prompt].tokens
        assert (record.prompt_tokens, record.verify_count) == (7, record.requested_tokens // 2)
        assert record.text == "word " * record.requested_tokens


def test_no_prompt_is_sent_twice() -> None:
    with ServerThread(Behaviour(chunk_delay_s=0)) as thread:
        run = measure(thread.port, LevelPlan(4, 20))
        served = [sent.prompt for sent in thread.server.served]
    assert len(set(served)) == len(served)
    assert len({record.identity for record in run.records}) == len(run.records)


def test_time_to_the_first_token_is_the_servers_and_not_the_clients() -> None:
    with ServerThread(Behaviour()) as thread:
        run = measure(thread.port, LevelPlan(6, 30))
        sent = truth(thread)
    start = start_of_level(run, sent)
    late = [record.chunk_times_s[0] + start - sent[record.prompt].chunks[0][0] for record in run.records if record.ok]
    assert abs(lower_quartile(late)) < 0.005
    to_first = [record.chunk_times_s[0] - record.sent_s for record in run.records if record.ok]
    assert 0 < lower_quartile(to_first) < 0.01


def lower_quartile(values: list[float]) -> float:
    """Server and client share one interpreter here and wait for each other; a quarter of the requests do not."""
    return statistics.quantiles(values, n=4)[0]


def test_the_window_holds_the_planned_requests_and_what_the_server_sent_in_it() -> None:
    with ServerThread(Behaviour()) as thread:
        run = measure(thread.port, LevelPlan(6, 30))
        sent = truth(thread)
    assert run.window is not None
    opened, closed = run.window
    warmups = [record for record in run.records if record.warmup]
    assert 0 < opened - max(record.chunk_times_s[-1] for record in warmups) < 0.1
    inside = [record for record in run.records if record.ok and opened < record.chunk_times_s[-1] <= closed]
    assert len(inside) == 30
    start = start_of_level(run, sent)
    counted = sum(
        tokens_between(list(zip(r.chunk_times_s, r.chunk_tokens, strict=True)), opened, closed) for r in run.records
    )
    true = sum(tokens_between(s.chunks, opened + start, closed + start) for s in sent.values())
    assert counted == pytest.approx(true, rel=0.05)


def tokens_between(chunks: list[tuple[float, int]], opened: float, closed: float) -> int:
    before, inside = 0, 0
    for stamp, count in chunks:
        inside += (count - before) * (opened < stamp <= closed)
        before = count
    return inside


def test_in_flight_never_falls_below_the_level_inside_the_window() -> None:
    with ServerThread(Behaviour()) as thread:
        run = measure(thread.port, LevelPlan(6, 30))
    assert run.in_flight_minimum == 6
    assert run.window is not None
    for moment in (run.window[0] + f * (run.window[1] - run.window[0]) for f in (0.1, 0.3, 0.5, 0.7, 0.9)):
        assert 4 <= sum(is_in_flight(record, moment) for record in run.records) <= 6


def is_in_flight(record: RequestRecord, moment: float) -> bool:
    return record.sent_s <= moment and (record.cancelled or record.chunk_times_s[-1] >= moment)


def test_warm_up_requests_have_spread_lengths_so_that_slots_do_not_march_in_step() -> None:
    with ServerThread(Behaviour()) as thread:
        run = measure(thread.port, LevelPlan(8, 40), max_tokens=40)
    assert sorted(record.requested_tokens for record in run.records if record.warmup) == [5, 10, 15, 20, 25, 30, 35, 40]
    assert {record.requested_tokens for record in run.records if not record.warmup} == {40}


def test_the_tail_is_cut_off_at_the_server_too() -> None:
    with ServerThread(Behaviour(chunk_delay_s=0.005)) as thread:
        run = measure(thread.port, LevelPlan(6, 30))
        wait_until(lambda: thread.server.open_connections == 0)
        cut = {sent.prompt for sent in thread.server.served if sent.cut_off}
        whole = {sent.prompt for sent in thread.server.served if sent.chunks and sent.chunks[-1][1] == sent.tokens}
    cancelled = {record.prompt for record in run.records if record.cancelled}
    assert len(cancelled) == 5
    assert cut
    assert cut <= cancelled <= cut | whole  # while the client was kept waiting, the server may have come to an end
    assert all(not record.ok and record.error is None for record in run.records if record.cancelled)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline, "the condition never came true"
        time.sleep(0.01)


def test_a_faster_node_clock_scales_every_tick() -> None:
    with ServerThread(Behaviour()) as thread:
        began = time.perf_counter()
        run = measure(thread.port, LevelPlan(4, 20), clock=Clock(rate=50.0))
        wall = time.perf_counter() - began
    assert run.window is not None
    gap = statistics.median(
        (r.chunk_times_s[-1] - r.chunk_times_s[0]) / (len(r.chunk_times_s) - 1)
        for r in run.records
        if r.ok and not r.warmup
    )
    assert gap == pytest.approx(50 * 0.002, rel=0.2)
    assert 25 * wall < run.window[1] < 50 * wall


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("status 503", "HTTP 503 queue full"),
        ("error_event", "scheduler is gone"),
        ("drop", "connection lost after 20 of 40 tokens"),
        ("garbage", "unreadable event"),
        ("no_end", "without a finish reason or [DONE]"),
    ],
)
def test_a_failed_request_is_recorded_and_its_slot_goes_on(fault: str, said: str) -> None:
    with ServerThread(Behaviour(fault=lambda n: fault if n in (12, 15) else None)) as thread:
        run = measure(thread.port, LevelPlan(4, 20))
    failed = [record for record in run.records if record.error is not None]
    assert len(failed) == 2
    assert all(said in str(record.error) for record in failed)
    assert run.window is not None
    assert sum(record.ok and not record.warmup for record in run.records) >= 18
    assert run.in_flight_minimum is not None
    assert run.in_flight_minimum < 4


def test_a_failed_warm_up_is_warmed_up_again_before_the_window_opens() -> None:
    with ServerThread(Behaviour(fault=lambda n: "drop" if n == 3 else None)) as thread:
        run = measure(thread.port, LevelPlan(4, 20))
    assert sum(record.warmup for record in run.records) == 5
    assert sum(record.warmup and record.ok for record in run.records) == 4
    assert run.in_flight_minimum == 4


def test_packet_borders_inside_an_event_change_nothing() -> None:
    with ServerThread(Behaviour(fault=lambda n: "split", tokens_per_chunk=4)) as thread:
        run = measure(thread.port, LevelPlan(3, 15))
    assert {record.error for record in run.records} == {None}
    assert {record.completion_tokens for record in run.records if record.ok and not record.warmup} == {40}


def test_a_server_that_closes_after_each_answer_is_measured_and_the_gap_is_reported() -> None:
    with ServerThread(Behaviour(fault=lambda n: "no_keep_alive")) as thread:
        run = measure(thread.port, LevelPlan(3, 15))
    assert {record.error for record in run.records} == {None}
    assert run.in_flight_minimum is not None
    assert run.in_flight_minimum < 3


def test_a_level_whose_first_requests_all_fail_ends_at_once_without_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "DEATH_NOTICE_S", 0.1)
    with ServerThread(Behaviour(fault=lambda n: "status 503")) as thread:
        run = measure(thread.port, LevelPlan(3, 300))
    assert len(run.records) == 6
    assert (run.window, run.in_flight_minimum) == (None, None)
    assert (run.client.lag_p99_s, run.client.cpu_share) == (None, None)


def test_a_level_with_too_many_failures_ends_early_and_returns_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "DEATH_NOTICE_S", 0.1)
    with ServerThread(Behaviour(fault=lambda n: "drop" if n >= 20 else None)) as thread:
        run = measure(thread.port, LevelPlan(4, 100))
    assert sum(record.error is not None for record in run.records) == 11
    assert run.window is not None
    assert run.window[1] > run.window[0]


def test_a_port_that_nobody_listens_on_is_told_by_the_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "DEATH_NOTICE_S", 0.1)
    run = measure(free_port(), LevelPlan(2, 10))
    assert len(run.records) == 4
    assert all("no connection" in str(record.error) for record in run.records)


def test_a_server_found_dead_after_its_connections_dropped_fails_the_level_with_the_reason() -> None:
    answers = iter([None, None, "killed by signal 9"])
    with pytest.raises(LoadFailed, match="killed by signal 9"):
        measure(free_port(), LevelPlan(2, 10), clock=Clock(alive=lambda: next(answers)))


def test_a_server_that_dies_while_requests_hang_ends_the_level_at_once() -> None:
    began = time.perf_counter()
    with (
        ServerThread(Behaviour(fault=lambda n: "silent")) as thread,
        pytest.raises(LoadFailed, match="exit status 1"),
    ):
        measure(thread.port, LevelPlan(2, 10), clock=Clock(alive=lambda: "exit status 1"))
    assert time.perf_counter() - began < 3


def test_silence_of_all_requests_ends_the_level_after_the_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "SHORTEST_PATIENCE_S", 0.2)
    with (
        ServerThread(Behaviour(fault=lambda n: "silent" if n >= 6 else None)) as thread,
        pytest.raises(NoTokens, match=r"no token for \d+ s while 3 requests are in flight \(patience 20 s\)"),
    ):
        measure(thread.port, LevelPlan(3, 15, patience_s=20.0), clock=Clock(rate=100.0))


def test_one_starved_request_does_not_hold_up_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "SHORTEST_PATIENCE_S", 0.1)
    with ServerThread(Behaviour(fault=lambda n: "silent" if n == 2 else None)) as thread:
        run = measure(thread.port, LevelPlan(3, 15, patience_s=0.1))
    assert [str(record.error)[:12] for record in run.records if record.error] == ["no token for"]
    assert run.window is not None


def test_an_exception_of_the_callers_own_code_comes_out_as_it_is() -> None:
    def alive() -> str | None:
        raise ZeroDivisionError("a bug")

    with ServerThread(Behaviour(fault=lambda n: "silent")) as thread, pytest.raises(ZeroDivisionError):
        measure(thread.port, LevelPlan(2, 10), clock=Clock(alive=alive))


def test_too_few_requests_for_the_level_are_refused_with_the_arithmetic() -> None:
    with pytest.raises(LevelRefused, match=r"level 250 needs 1,250 requests .* the plan has 30"):
        measure(free_port(), LevelPlan(250, 30))


def test_a_level_without_enough_prompts_left_is_not_begun() -> None:
    capacity = prompt_source("coding", seed=7).capacity
    with pytest.raises(LoadFailed, match=r"13 of the .* distinct prompts of `coding` are left"):
        measure(free_port(), LevelPlan(2, 10), skip=capacity - 13)


def test_the_clients_own_lag_and_cpu_are_reported() -> None:
    with ServerThread(Behaviour()) as thread:
        run = measure(thread.port, LevelPlan(4, 20))
    assert run.client.lag_p99_s is not None
    assert 0 <= run.client.lag_p99_s < 0.2
    assert run.client.cpu_share is not None
    assert 0 < run.client.cpu_share < 2
