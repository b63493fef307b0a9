"""The virtual-time harness measures what the real client measures on a real process, and around the truth."""

from __future__ import annotations

import itertools
import statistics
import sys
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from autotune import engines
from autotune.domain.measurement import LevelRun, RequestRecord
from autotune.domain.stopping import Look
from autotune.domain.workload import LevelPlan, MeasurementPlan
from autotune.errors import LoadFailed
from autotune.load import Clock, prompt_source, run_level
from autotune.scoring import measure
from benchmarks.measuring.virtual import TUNED, Noise, VirtualNode

sys.path.append(str(Path(__file__).parents[1] / "simulated"))
from node_process import BASE, READY, TREE, Node

CHAIN = [*TREE, "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "3"]
OVERLAP = {**TUNED, "SGLANG_ENABLE_SPEC_V2": "1"}
PLAIN_FLAGS, CHAIN_FLAGS = BASE[2:], [*BASE[2:], *CHAIN]
SMALL = ["--mem-fraction-static", "0.88", "--cuda-graph-max-bs", "16"]
LEVEL = LevelPlan(8, 60)
TOKENS = 96


def value_of(run: LevelRun) -> float:
    shown = measure(run).output_throughput
    assert shown is not None
    return shown.value


@pytest.fixture(scope="module", params=["plain", "chain"])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[LevelRun, ...]:
    """The same level by the harness and by the client on a process, with the same prompts, no noise."""
    flags, environment = ([], TUNED) if request.param == "plain" else (CHAIN, OVERLAP)
    folder = tmp_path_factory.mktemp("node")
    process = Node(folder, flags, {"speed": 4, "seed": 1}, environment=environment)
    try:
        process.wait_for(READY)
        real = run_level(
            "127.0.0.1",
            process.port,
            wire=engines.get("simulated").wire,
            plan=MeasurementPlan((LEVEL,), TOKENS),
            level=LEVEL,
            prompts=prompt_source("coding", seed=5),
            clock=Clock(rate=4.0),
        )
    finally:
        process.end()
    node = VirtualNode(
        "rtx-pro-6000-x8",
        [*BASE[2:], *flags],
        environment,
        seed=1,
        noise=Noise(relative=0.0),
        prompts=prompt_source("coding", seed=5),
    )
    return node.level(LEVEL, TOKENS), real


def test_harness_and_client_on_a_process_measure_the_same(both: tuple[LevelRun, LevelRun]) -> None:
    """Both intervals are of 95 %, so that their sum is passed about once in 200 runs; 2 % more for the client, whose
    half a millisecond of lag is 2 ms of this node, once a request of about two seconds."""
    ours, real = (measure(run).output_throughput for run in both)
    assert ours is not None
    assert real is not None
    assert ours.half_width is not None
    assert real.half_width is not None
    assert abs(ours.value - real.value) < ours.half_width + real.half_width + 0.02 * real.value


def test_harness_and_client_send_the_same_requests(both: tuple[LevelRun, LevelRun]) -> None:
    ours, real = both
    for run in both:
        warmup = [record.requested_tokens for record in run.records if record.warmup]
        assert sorted(warmup) == [12, 24, 36, 48, 60, 72, 84, 96]
        seen = measure(run)
        assert (seen.requests_total, seen.requests_ok, run.in_flight_minimum) == (60, 60, 8)
        assert [record.warmup for record in run.records] == [True] * 8 + [False] * (len(run.records) - 8)
    paired = {record.identity: record for record in real.records}
    same = [(record, paired[record.identity]) for record in ours.records if record.identity in paired]
    assert len(same) >= 75
    answered = [(mine, theirs) for mine, theirs in same if mine.chunk_tokens and theirs.chunk_tokens]
    assert all(mine.prompt_tokens == theirs.prompt_tokens for mine, theirs in answered)
    finished = [pair for pair in same if pair[0].ok and pair[1].ok]
    assert all(mine.completion_tokens == theirs.completion_tokens for mine, theirs in finished)
    assert all((mine.verify_count is None) == (theirs.verify_count is None) for mine, theirs in finished)


@pytest.mark.parametrize("flags", [PLAIN_FLAGS, CHAIN_FLAGS], ids=["plain", "chain"])
@pytest.mark.parametrize("concurrency", [1, 8, 40])
def test_the_mean_of_many_levels_is_the_truth(flags: list[str], concurrency: int) -> None:
    node = VirtualNode("rtx-pro-6000-x8", flags, OVERLAP, seed=4, noise=Noise(relative=0.02))
    values = [value_of(node.level(LevelPlan(concurrency, max(10, 5 * concurrency)), 64)) for _ in range(25)]
    error = statistics.stdev(values) / 5
    truth = node.truth(concurrency, 64)
    assert abs(statistics.mean(values) - truth) < 3.7 * error + 0.002 * truth  # t of 24 at 0.1 %; edges of the window
    assert error < 0.02 * truth


def test_a_seed_gives_one_level_and_another_seed_another() -> None:
    def run(seed: int) -> LevelRun:
        return VirtualNode("one-card-8b", SMALL, {}, seed=seed).level(LevelPlan(4, 20), 32)

    assert run(1) == run(1)
    assert value_of(run(1)) != value_of(run(2))


def test_launch_noise_is_drawn_anew_at_each_launch_and_stays_through_one() -> None:
    node = VirtualNode("one-card-8b", SMALL, {}, noise=Noise(relative=0.0, launch=0.05))
    first, again = (value_of(node.level(LevelPlan(2, 10), 32)) for _ in range(2))
    node.restart()
    assert first == pytest.approx(again, rel=1e-9)
    assert value_of(node.level(LevelPlan(2, 10), 32)) != pytest.approx(first, rel=1e-4)


def test_drift_goes_on_through_levels_and_launches() -> None:
    node = VirtualNode("one-card-8b", SMALL, {}, noise=Noise(relative=0.0, drift_per_hour=0.05), startup_s=1800.0)
    first = value_of(node.level(LevelPlan(2, 10), 32))
    node.restart()
    node.rest(1800.0)
    assert value_of(node.level(LevelPlan(2, 10), 32)) / first == pytest.approx(1.025 / 1.075, rel=2e-3)


def test_history_is_a_factor_by_the_nodes_clock() -> None:
    node = VirtualNode(
        "one-card-8b", SMALL, {}, noise=Noise(relative=0.0, history=lambda s: 1.08 if s > 500 else 1.0), startup_s=60.0
    )
    before = value_of(node.level(LevelPlan(2, 10), 32))
    node.rest(600.0)
    assert before / value_of(node.level(LevelPlan(2, 10), 32)) == pytest.approx(1.08, rel=1e-3)


def test_the_servers_cap_keeps_requests_waiting_though_all_are_in_flight() -> None:
    capped = VirtualNode("one-card-8b", [*SMALL, "--max-running-requests", "4"], {}, noise=Noise(relative=0.0))
    run = capped.level(LevelPlan(8, 40), 32)
    assert run.in_flight_minimum == 8
    free = VirtualNode("one-card-8b", SMALL, {}, noise=Noise(relative=0.0))
    assert value_of(run) < 0.7 * value_of(free.level(LevelPlan(8, 40), 32))
    assert value_of(run) == pytest.approx(capped.truth(8, 32), rel=0.01)


def test_time_between_two_requests_of_a_slot_costs_throughput() -> None:
    def run(turnaround_s: float) -> LevelRun:
        node = VirtualNode("one-card-8b", SMALL, {}, noise=Noise(relative=0.0), turnaround_s=turnaround_s)
        return node.level(LevelPlan(1, 10), 50)

    quick, slow = run(0.0), run(0.1)
    spans = [later.sent_s - sooner.sent_s for sooner, later in itertools.pairwise(slow.records)]
    assert value_of(slow) == pytest.approx(50 / (50 / value_of(quick) + 0.1), rel=0.01)
    assert spans[1] == pytest.approx(50 / value_of(slow), rel=0.01)


@dataclass
class Rule:
    """Warm-up lasts until `opens_s`; enough is what `requests` have ended inside."""

    requests: int
    opens_s: float | None = None
    looks: list[int] = field(default_factory=list)

    def look(
        self, run: LevelRun, live: Iterable[RequestRecord], *, may_open_later: bool
    ) -> Generator[None, None, Look]:
        yield
        assert len(list(live)) == 4
        seen = measure(run).requests_total
        self.looks.append(seen)
        opens_s, self.opens_s = self.opens_s, None
        assert opens_s is None or may_open_later
        return Look(enough=opens_s is None and seen >= self.requests, opens_s=opens_s)


def test_a_level_goes_on_until_the_rule_of_its_plan_has_enough() -> None:
    node, rule = VirtualNode("one-card-8b", SMALL, {}), Rule(40)
    run = node.level(LevelPlan(4, 20, rule=rule), 32)
    assert rule.looks == [20, 30, 45]
    assert measure(run).requests_total == 45
    assert value_of(run) == pytest.approx(node.truth(4, 32), rel=0.05)
    assert node.scheduler.unfinished == 0


def test_a_rule_may_open_the_window_later() -> None:
    node, rule = VirtualNode("one-card-8b", SMALL, {}), Rule(20, opens_s=3.0)
    run = node.level(LevelPlan(4, 20, rule=rule), 32)
    assert run.window is not None
    assert run.window[0] >= 3.0
    assert run.opened_late_s == pytest.approx(run.window[0], abs=1.5)
    assert measure(run).requests_total == 20


def test_the_most_requests_and_the_seconds_of_a_plan_end_a_level_whatever_its_rule_says() -> None:
    node = VirtualNode("one-card-8b", SMALL, {})
    assert measure(node.level(LevelPlan(4, 20, rule=Rule(10**9), most_requests=50), 32)).requests_total == 50
    short = node.level(LevelPlan(4, 400, rule=Rule(10**9), seconds=5.0), 32)
    assert short.window is not None
    assert short.window[1] - short.window[0] == pytest.approx(5.0, abs=1.0)


def test_a_burst_of_thirty_is_the_same_load_at_every_level_from_thirty_on() -> None:
    node = VirtualNode("rtx-pro-6000-x8", PLAIN_FLAGS, TUNED, noise=Noise(relative=0.0))
    shown = [node.burst(concurrency, 30, 64).throughput for concurrency in (10, 30, 70, 250)]
    assert shown[1] == pytest.approx(shown[2], rel=1e-6) == pytest.approx(shown[3], rel=1e-6)
    assert shown[0] < 0.8 * shown[1]


def test_a_burst_counts_all_tokens_over_all_of_its_time() -> None:
    node = VirtualNode("one-card-8b", SMALL, {})
    before = node.clock_s
    burst = node.burst(4, 10, 32)
    assert burst.tokens == 10 * 32
    assert len(burst.latencies_s) == 10
    assert burst.wall_s == pytest.approx(node.clock_s - before)
    assert burst.throughput == pytest.approx(320 / burst.wall_s)


def test_a_server_that_cannot_start_is_refused() -> None:
    with pytest.raises(ValueError, match="dies while starting"):
        VirtualNode("rtx-pro-6000-x8", [*PLAIN_FLAGS[:2], "--attention-backend", "fa3"], TUNED)


def test_a_server_that_dies_ends_the_level() -> None:
    node = VirtualNode("rtx-pro-6000-x8", PLAIN_FLAGS, TUNED)
    node.scheduler.plan = replace(node.scheduler.plan, prefill_limit_tokens=50)
    with pytest.raises(LoadFailed, match=r"died while level 4 was measured: torch.*OutOfMemoryError"):
        node.level(LevelPlan(4, 20), 32)
