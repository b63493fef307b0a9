import random
from dataclasses import replace

import pytest

from autotune.simulated_node.acceptance import DraftTree
from autotune.simulated_node.plan import ServingPlan
from autotune.simulated_node.scheduler import NoiseLaw, Request, Scheduler

PLAN = ServingPlan(
    tree=None,
    overlap=True,
    max_running=8,
    graph_max_bs=128,
    attention_backend="flashinfer",
    fusion=False,
    custom_all_reduce=False,
    kv_capacity_tokens=100_000,
    chunk_tokens=1000,
    prefill_limit_tokens=100_000,
    radix_cache=True,
    environment={},
)


class TenMilliseconds:
    """A step model whose decode steps take 10 ms and whose prefill takes 1 ms a token."""

    def prefill_s(self, tokens):
        return tokens * 0.001

    def decode_s(self, running, context_tokens):
        return 0.010

    def uses_graph(self, running):
        return True


def loop(plan=PLAN, noise=None, on_report=None, seed=1):
    return Scheduler(plan, TenMilliseconds(), random.Random(seed), noise, on_report)


def request(name="a", prompt=10, limit=5, reach=(), key=None):
    key = hash(name) if key is None else key
    return Request(name, prompt_key=key, prompt_tokens=prompt, limit=limit, reach=reach)


def test_one_request_takes_its_prefill_and_one_step_a_token():
    scheduler, one = loop(), request(prompt=10, limit=5)
    scheduler.submit(one, 2.0)
    assert scheduler.advance(2.049) == []
    assert one.tokens == 4
    assert scheduler.advance(2.1) == [one]
    assert one.first_token_s == pytest.approx(2.010)
    assert one.finished_s == pytest.approx(2.050)
    assert scheduler.totals.generated == 5


def test_the_clock_waits_for_the_next_request_when_idle():
    scheduler, late = loop(), request(limit=1)
    scheduler.submit(request("first", limit=1), 0.0)
    scheduler.advance(5.0)
    scheduler.submit(late, 7.0)
    scheduler.advance(8.0)
    assert late.finished_s == pytest.approx(7.010)


def test_a_late_catch_up_gives_the_same_times_as_many_small_ones():
    ends = []
    for pause in (0.001, 3.0):
        scheduler, one, two = loop(), request("a", limit=40), request("b", limit=70)
        scheduler.submit(one, 0.0)
        scheduler.submit(two, 0.0)
        time = 0.0
        while scheduler.unfinished:
            time += pause
            scheduler.advance(time)
        ends.append((one.finished_s, two.finished_s))
    assert ends[0] == ends[1]


def test_requests_above_the_cap_wait_in_line():
    scheduler = loop(replace(PLAN, max_running=2))
    requests = [request(str(number), limit=3) for number in range(3)]
    for each in requests:
        scheduler.submit(each, 0.0)
    scheduler.advance(0.025)
    assert (len(scheduler.running), len(scheduler.waiting)) == (2, 1)
    scheduler.advance(1.0)
    assert requests[2].first_token_s == pytest.approx(requests[0].finished_s + 0.010)


def test_requests_that_do_not_fit_the_kv_cache_wait_and_a_lone_one_always_runs():
    scheduler = loop(replace(PLAN, kv_capacity_tokens=30))
    first, second = request("a", prompt=10, limit=10), request("b", prompt=10, limit=15)
    scheduler.submit(first, 0.0)
    scheduler.submit(second, 0.0)
    scheduler.advance(0.05)
    assert scheduler.running == [first]
    assert len(scheduler.advance(9.0)) == 2


def test_long_prompts_are_prefilled_in_chunks():
    scheduler, long = loop(), request(prompt=2500, limit=1)
    scheduler.submit(long, 0.0)
    assert scheduler.next_step_end_s == pytest.approx(1.0)
    scheduler.advance(10.0)
    assert long.finished_s == pytest.approx(2.5)


def test_a_prompt_seen_before_is_cached_until_the_flush():
    scheduler = loop()
    cached = []
    for number in range(3):
        if number == 2:
            assert scheduler.flush()
        again = request(str(number), prompt=100, limit=1, key=7)
        scheduler.submit(again, scheduler.now_s)
        scheduler.advance(scheduler.now_s + 1)
        cached.append(again.cached_tokens)
    assert cached == [0, 99, 0]


def test_without_the_radix_cache_nothing_is_cached():
    scheduler = loop(replace(PLAN, radix_cache=False))
    for name in "ab":
        again = request(name, prompt=100, limit=1, key=7)
        scheduler.submit(again, scheduler.now_s)
        scheduler.advance(scheduler.now_s + 1)
        assert again.cached_tokens == 0


def test_flush_is_refused_while_requests_run():
    scheduler = loop()
    scheduler.submit(request(limit=50), 0.0)
    scheduler.advance(0.02)
    assert not scheduler.flush()


def test_speculation_counts_verify_passes_and_stops_at_the_limit():
    plan = replace(PLAN, tree=DraftTree("EAGLE3", 2, 1, 3))
    scheduler, sure = loop(plan), request(limit=8, reach=(1.0, 1.0))
    scheduler.submit(sure, 0.0)
    assert scheduler.advance(1.0) == [sure]
    assert (sure.tokens, sure.verify_count) == (8, 3)  # 1 from the prefill, then 3 + 3 + 1 of 3
    assert sure.histogram == [0, 0, 3]


def test_acceptance_averages_to_what_the_tree_reaches():
    plan = replace(PLAN, tree=DraftTree("EAGLE3", 2, 1, 3))
    scheduler, many = loop(plan), request(limit=20_000, reach=(0.6, 0.3))
    scheduler.submit(many, 0.0)
    scheduler.advance(1e6)
    assert many.tokens / many.verify_count == pytest.approx(1.9, rel=0.01)


@pytest.mark.parametrize("at_s", [0.005, 0.035])
def test_an_aborted_request_leaves_at_once_and_the_others_go_on(at_s):
    scheduler, gone, stays = loop(), request("gone", limit=90), request("stays", limit=10)
    scheduler.submit(gone, 0.0)
    scheduler.submit(stays, 0.0)
    scheduler.advance(at_s)
    scheduler.abort(gone)
    assert gone.finish_reason == "abort"
    assert scheduler.advance(2.0) == [stays]
    assert scheduler.unfinished == 0
    assert scheduler.context_tokens == 0


def test_a_waiting_request_can_be_aborted():
    scheduler = loop(replace(PLAN, max_running=1))
    first, second = request("a"), request("b")
    for each in (first, second):
        scheduler.submit(each, 0.0)
    scheduler.advance(0.012)
    scheduler.abort(second)
    assert scheduler.advance(9.0) == [first]


def test_a_hung_loop_makes_no_step():
    scheduler, stuck = loop(), request(limit=50)
    scheduler.submit(stuck, 0.0)
    scheduler.advance(0.03)
    scheduler.hung = True
    had = stuck.tokens
    assert scheduler.advance(100.0) == []
    assert stuck.tokens == had
    assert scheduler.next_step_end_s is None


def test_a_prefill_batch_beyond_memory_kills_the_loop():
    scheduler = loop(replace(PLAN, prefill_limit_tokens=150))
    for name in "ab":
        scheduler.submit(request(name, prompt=100), 0.0)
    scheduler.advance(1.0)
    assert "torch.OutOfMemoryError" in scheduler.failure


def test_acceptance_is_reported_every_interval_only():
    reports = []
    plan = replace(PLAN, tree=DraftTree("EAGLE3", 1, 1, 2), decode_log_interval=10)
    scheduler = loop(plan, on_report=reports.append)
    scheduler.submit(request(limit=60, reach=(1.0,)), 0.0)
    scheduler.advance(0.010 + 9 * 0.010 + 0.001)
    assert scheduler.totals.average_accept is None
    scheduler.advance(0.010 + 10 * 0.010 + 0.001)
    assert scheduler.totals.average_accept == 2.0
    assert [report.accept_length for report in reports] == [2.0]
    assert reports[0].throughput == pytest.approx(200.0)


def test_no_request_ends_before_the_quiet_time_is_over():
    scheduler = loop(replace(PLAN, tree=DraftTree("EAGLE3", 2, 1, 3)))
    one = request(limit=300, reach=(0.9, 0.8))
    scheduler.submit(one, 0.0)
    while one.finished_s is None:
        quiet_s = scheduler.quiet_until_s()
        assert scheduler.advance(quiet_s - 1e-9) == []
        scheduler.advance(scheduler.next_step_end_s)


def test_a_waiting_request_ends_the_quiet_time_with_the_step_in_progress():
    scheduler = loop(replace(PLAN, max_running=2))
    scheduler.submit(request("long", limit=300), 0.0)
    scheduler.advance(0.015)
    assert scheduler.quiet_until_s() > 1.0
    scheduler.submit(request("new", limit=300), 0.015)
    assert scheduler.quiet_until_s() == scheduler.next_step_end_s
    scheduler.advance(0.035)
    scheduler.submit(request("queued", limit=300), 0.035)  # no slot is free for it
    assert scheduler.quiet_until_s() > 1.0


def test_drift_makes_the_node_slower_with_its_age():
    scheduler, old = loop(noise=NoiseLaw(drift_per_hour=0.5, age_s=3600.0)), request(prompt=10, limit=2)
    scheduler.submit(old, 0.0)
    scheduler.advance(1.0)
    assert old.finished_s == pytest.approx(0.020 * 1.5, rel=1e-3)


def test_noise_keeps_the_mean_and_is_the_same_for_the_same_seed():
    def total(seed, relative):
        scheduler, long = loop(noise=NoiseLaw(relative), seed=seed), request(limit=30_001)
        scheduler.submit(long, 0.0)
        scheduler.advance(1e6)
        return long.finished_s

    assert total(1, 0.02) == total(1, 0.02)
    assert total(1, 0.02) != total(2, 0.02)
    assert total(1, 0.02) == pytest.approx(total(1, 0.0), rel=0.01)
