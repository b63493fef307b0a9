"""The open loop against a server that knows what it sent."""

from __future__ import annotations

import itertools
import statistics
import time

import pytest
from reference_server import Behaviour, ReferenceWire, ServerThread

from autotune.domain.measurement import LevelRun
from autotune.domain.workload import LevelPlan, MeasurementPlan, Prompt, PromptSource
from autotune.errors import LevelRefused, LoadFailed
from autotune.load import Clock, open_loop, prompt_source, run_level, session
from autotune.scoring import measure


def level(rate: float = 40.0, requests: int = 40, *, warmup: int = 8, room: int = 500) -> LevelPlan:
    return LevelPlan(room, requests, rate=rate, warmup_requests=warmup)


class StallingWire(ReferenceWire):
    """Holds up the client itself, once, in the middle of the level."""

    STALL_S = 0.2

    def __init__(self) -> None:
        self._asked = 0

    def body(self, prompt: str, max_tokens: int, *, temperature: float, ignore_eos: bool, rid: str) -> bytes:
        self._asked += 1
        if self._asked == 25:
            time.sleep(self.STALL_S)
        return super().body(prompt, max_tokens, temperature=temperature, ignore_eos=ignore_eos, rid=rid)


def arrive(
    port: int,
    plan: LevelPlan,
    *,
    tokens: int = 10,
    clock: Clock | None = None,
    wire: ReferenceWire | None = None,
    prompts: PromptSource | None = None,
) -> LevelRun:
    return run_level(
        "127.0.0.1",
        port,
        wire=wire or ReferenceWire(),
        plan=MeasurementPlan((plan,), tokens),
        level=plan,
        prompts=prompts or prompt_source("coding", seed=7),
        clock=clock or Clock(),
    )


def in_window(run: LevelRun) -> list[str]:
    assert run.window is not None
    opened, closed = run.window
    return [record.identity for record in run.records if opened <= record.sent_s < closed]


def test_the_planned_requests_arrive_inside_the_window_and_all_are_followed_to_their_end() -> None:
    with ServerThread(Behaviour()) as thread:
        run = arrive(thread.port, level())
    counted = {record.identity: record for record in run.records if not record.warmup}
    assert len(counted) == 40
    assert set(counted) == set(in_window(run))
    assert all(record.ok and record.completion_tokens == 10 for record in counted.values())
    assert run.rate == 40.0
    assert measure(run).requests_ok == 40


def test_arrivals_are_poisson_and_do_not_wait_for_answers() -> None:
    with ServerThread(Behaviour(chunk_delay_s=0.05)) as thread:  # an answer takes half a second
        run = arrive(thread.port, level(rate=60.0, requests=90, warmup=60))
    sent = [record.sent_s for record in run.records if not record.warmup]
    gaps = [after - before for before, after in itertools.pairwise(sent)]
    assert statistics.mean(gaps) == pytest.approx(1 / 60, rel=0.35)
    assert statistics.stdev(gaps) == pytest.approx(statistics.mean(gaps), rel=0.4)  # as of an exponential
    assert 15 < run.concurrency < 50  # 60 a second for half a second each: 27 in flight (Little's law)


def test_the_same_prompts_arrive_at_the_same_moments() -> None:
    with ServerThread(Behaviour(chunk_delay_s=0)) as thread:
        first, second = arrive(thread.port, level()), arrive(thread.port, level())
    shared = min(len(first.records), len(second.records))
    pairs = zip(first.records[:shared], second.records[:shared], strict=True)
    assert [a.identity for a, _ in pairs] == [b.identity for b in second.records[:shared]]
    assert first.records[20].sent_s == pytest.approx(second.records[20].sent_s, abs=0.02)


def test_a_latency_counts_from_the_arrival_and_not_from_when_the_client_found_time() -> None:
    with ServerThread(Behaviour()) as thread:
        quick = arrive(thread.port, level())
        stalled = arrive(thread.port, level(), wire=StallingWire())
    planned = {record.identity: record.sent_s for record in quick.records}
    both = [(planned[r.identity], r) for r in stalled.records if r.identity in planned and not r.warmup]
    assert all(record.sent_s == pytest.approx(due, abs=0.02) for due, record in both)
    to_first = sorted(r.chunk_times_s[0] - r.sent_s for _due, r in both)
    assert to_first[-1] > StallingWire.STALL_S * 0.8 > 10 * to_first[0]


def test_a_rate_on_a_fast_clock_is_that_of_the_node() -> None:
    with ServerThread(Behaviour(chunk_delay_s=0.001)) as thread:
        run = arrive(thread.port, level(rate=4.0), clock=Clock(rate=10.0))
    assert run.window is not None
    assert (run.window[1] - run.window[0]) == pytest.approx(40 / 4.0, rel=0.5)


def test_a_rate_that_is_too_high_ends_the_level_with_a_remark_and_its_requests_have_no_end() -> None:
    busy = {"answered": 0}

    def one_in_three_is_never_answered(_ordinal: int) -> str | None:
        busy["answered"] += 1
        return "silent" if busy["answered"] % 3 == 0 else None

    with ServerThread(Behaviour(chunk_delay_s=0.001, fault=one_in_three_is_never_answered)) as thread:
        run = arrive(thread.port, level(rate=200.0, requests=2000, warmup=10, room=2000))
    (remark,) = run.remarks
    assert remark.startswith("the rate is above what the server sustains: in flight grew from ")
    unfinished = [record for record in run.records if record.error == open_loop.UNFINISHED]
    assert unfinished
    assert measure(run).requests_total < 2000


def lasting(requests: int, most: int, *, rate: float = 100.0) -> LevelPlan:
    return LevelPlan(1000, requests, rate=rate, warmup_requests=5, most_requests=most)


def test_with_a_bound_warm_up_and_window_last_for_one_and_a_half_of_the_longest_latencies() -> None:
    with ServerThread(Behaviour(chunk_delay_s=0.04)) as thread:  # an answer takes 0.4 s, and 10 requests 0.1 s
        run = arrive(thread.port, lasting(10, 400))
    counted = [record for record in run.records if not record.warmup]
    assert run.window is not None
    assert run.window[0] >= 0.5
    assert run.window[1] - run.window[0] >= 0.5
    assert {record.identity for record in counted} == set(in_window(run))
    assert 10 < len(counted) < 400
    assert all(record.ok for record in counted)
    assert run.sustained


def test_the_bound_ends_warm_up_and_window_all_the_same() -> None:
    with ServerThread(Behaviour(chunk_delay_s=0.1)) as thread:  # an answer takes a second: nothing settles
        run = arrive(thread.port, lasting(10, 20))
    before = [record for record in run.records if run.window is not None and record.sent_s < run.window[0]]
    assert (len(before), len(in_window(run))) == (25, 20)


def test_growth_is_looked_for_when_the_window_ends_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "WATCH_PERIOD_S", 60.0)
    with ServerThread(Behaviour(chunk_delay_s=0.3)) as thread:  # an answer takes 3 s: all that come are in flight
        run = arrive(thread.port, lasting(10, 80, rate=400.0))
    (remark,) = run.remarks
    assert remark.startswith("the rate is above what the server sustains: in flight grew from ")
    assert not run.sustained
    assert measure(run).requests_ok == 0


def test_more_in_flight_than_there_is_room_for_ends_the_level() -> None:
    with ServerThread(Behaviour(fault=lambda _: "silent")) as thread:
        run = arrive(thread.port, level(rate=200.0, requests=100, room=20))
    assert run.remarks == ("the rate is above what the server sustains: 21 requests were in flight",)
    assert not run.sustained
    before = [record for record in run.records if run.window is not None and record.sent_s < run.window[0]]
    assert len(before) == 10  # half of the room, though its warm-up and patience are longer
    assert measure(run).requests_total > 0


class Few:
    """So many prompts, counted."""

    def __init__(self, capacity: int) -> None:
        self._source = prompt_source("coding", seed=7)
        self.capacity = capacity

    @property
    def position(self) -> int:
        return self._source.position

    def take(self, count: int) -> list[Prompt]:
        if self.position + count > self.capacity:
            raise LoadFailed("none left")
        return self._source.take(count)


@pytest.mark.parametrize("capacity", [45, 1000], ids=["no-more", "plenty"])
def test_arrivals_stop_after_the_window_where_the_prompts_of_the_level_are_used(capacity: int) -> None:
    plan = lasting(20, 20)  # an answer takes a second: 100 more would arrive until the last one
    prompts = Few(capacity)
    with ServerThread(Behaviour(chunk_delay_s=0.1)) as thread:
        run = arrive(thread.port, plan, prompts=prompts)
    assert plan.most_prompts == 45 == prompts.position
    assert [record.ok for record in run.records if not record.warmup] == [True] * 20
    assert run.sustained


def test_with_prompts_to_spare_arrivals_go_on_until_the_last_answer_of_the_window() -> None:
    with ServerThread(Behaviour(chunk_delay_s=0.04)) as thread:
        run = arrive(thread.port, lasting(10, 400))
    assert run.window is not None
    closed = run.window[1]
    after = [record for record in run.records if record.sent_s >= closed]
    assert max(record.sent_s for record in after) - closed > 0.2


def test_a_slow_rate_is_no_silence_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "SHORTEST_PATIENCE_S", 0.05)
    monkeypatch.setattr(session, "WATCH_PERIOD_S", 0.02)
    plan = LevelPlan(10, 6, patience_s=0.05, rate=4.0, warmup_requests=1)
    with ServerThread(Behaviour(chunk_delay_s=0.001)) as thread:
        run = arrive(thread.port, plan, tokens=4)
    assert measure(run).requests_ok == 6


def test_a_dead_server_ends_an_open_loop_as_well() -> None:
    with ServerThread(Behaviour()) as thread, pytest.raises(LoadFailed, match="died while rate 40 was measured: gone"):
        arrive(thread.port, level(), clock=Clock(alive=lambda: "gone"))


@pytest.mark.parametrize(
    "plan",
    [level(rate=0.0), level(rate=float("nan")), level(rate=float("inf")), level(requests=0), level(room=0)],
)
def test_a_rate_that_is_none_is_refused(plan: LevelPlan) -> None:
    with pytest.raises(LevelRefused):
        arrive(1, plan)
