import math
from dataclasses import dataclass, field

import numpy as np
import pytest
from builders import level_run, record

from autotune.domain.measurement import LevelRun, RequestRecord
from autotune.scoring import measure


def test_a_window_with_too_few_decode_steps_has_no_interval() -> None:
    requests = [record(sent_s=1.0 + i, ttft_s=0.5, gap_s=0.5, tokens=2) for i in range(5)]
    measured = measure(level_run(*requests, concurrency=1, window=(1.0, 6.0)))
    assert measured.output_throughput is not None
    assert measured.output_throughput.half_width is None
    assert "no interval: the window holds 10 decode steps, and 12 are needed" in measured.remarks


def test_one_request_that_outlives_its_window_has_no_interval() -> None:
    slow = record(sent_s=0.0, tokens=400, cancelled=True)
    before = record(sent_s=-1.0, warmup=True)
    measured = measure(level_run(before, slow, concurrency=1, window=(0.0, 6.0)))
    assert measured.output_throughput is not None
    assert measured.output_throughput.half_width is None
    assert "no interval: the window is worth 1.0 requests, and 2 are needed" in measured.remarks


def test_slots_whose_requests_outlive_the_window_tell_by_how_much_requests_differ() -> None:
    paces = (0.018, 0.02, 0.022, 0.019, 0.021, 0.02, 0.018, 0.022)
    live = [record(sent_s=0.0, gap_s=gap, tokens=600, cancelled=True) for gap in paces]
    before = [record(sent_s=-1.0, warmup=True) for _gap in paces]
    measured = measure(level_run(*before, *live, concurrency=8, window=(1.0, 6.0))).output_throughput
    assert measured is not None
    assert measured.half_width is not None
    per_slot = np.asarray([1.0 / gap for gap in paces])
    due = 8 * 2.365 * float(per_slot.std(ddof=1)) / math.sqrt(8)
    assert measured.half_width == pytest.approx(due, rel=0.02)


def test_slots_that_wait_in_line_are_not_taken_for_requests_that_differ() -> None:
    running = [record(sent_s=0.0, ttft_s=0.1, tokens=600, cancelled=True) for _ in range(4)]
    waiting = [record(sent_s=0.0, tokens=1, chunks=(), cancelled=True) for _ in range(4)]
    before = [record(sent_s=-1.0, warmup=True) for _ in range(4)]
    measured = measure(level_run(*before, *running, *waiting, concurrency=8, window=(1.0, 6.0))).output_throughput
    assert measured is not None
    assert measured.half_width is not None
    assert measured.half_width < 0.01 * measured.value


def test_a_server_without_noise_has_next_to_no_interval() -> None:
    estimate = measure(level_run(concurrency=4)).output_throughput
    assert estimate is not None
    assert estimate.half_width is not None
    assert 0.0 <= estimate.half_width < 0.002 * estimate.value


@dataclass
class _Slot:
    """One request in a server whose slots step together."""

    sent: float
    warmup: bool
    tokens_a_step: float
    chunks: list[tuple[float, int]] = field(default_factory=list)

    @property
    def tokens(self) -> int:
        return self.chunks[-1][1] if self.chunks else 0

    def as_record(self, *, cancelled: bool = False) -> RequestRecord:
        return record(sent_s=self.sent, chunks=self.chunks, warmup=self.warmup, cancelled=cancelled)


def _serve(seed: int, *, slots: int, requests: int, spread: float) -> LevelRun:
    """A closed loop of 64-token requests: prefills stall everyone, steps slow down as contexts grow and vary by
    2 % with memory, and the tokens a request gains in a step vary between requests by `spread`."""
    rng, now, noise, start = np.random.default_rng(seed), 0.0, 0.0, None
    active: list[_Slot] = []
    done: list[_Slot] = []
    while sum(not slot.warmup for slot in done) < requests:
        fresh = slots - len(active)
        active += [_Slot(now, start is None, float(rng.normal(2.0, spread))) for _ in range(fresh)]
        noise = 0.9 * noise + rng.normal(0.0, 0.02 * 0.44)
        depth = sum(slot.tokens for slot in active) / (64 * slots)
        now += 0.03 * fresh + 0.02 * (1 + 0.3 * depth) * (1 + noise)
        for slot in active:
            gained = 1 + rng.binomial(2, min(max((slot.tokens_a_step - 1) / 2, 0.05), 0.95))
            slot.chunks.append((now, min(slot.tokens + gained, 64)))
        done += [slot for slot in active if slot.tokens == 64]
        active = [slot for slot in active if slot.tokens < 64]
        if start is None and len(done) >= slots:
            start = now
    records = [slot.as_record() for slot in done] + [slot.as_record(cancelled=True) for slot in active]
    return level_run(*records, concurrency=slots, window=(start, now))


@pytest.mark.parametrize(("slots", "requests", "spread"), [(1, 10, 0.0), (4, 24, 0.0), (4, 24, 0.3)])
def test_the_interval_holds_the_true_throughput_about_as_often_as_it_says(
    slots: int, requests: int, spread: float
) -> None:
    measured = [measure(_serve(seed, slots=slots, requests=requests, spread=spread)) for seed in range(60)]
    estimates = [m.output_throughput for m in measured if m.output_throughput is not None]
    truth = float(np.mean([estimate.value for estimate in estimates]))
    held = [e.low is not None and e.high is not None and e.low <= truth <= e.high for e in estimates]
    assert len(held) == 60
    assert np.mean(held) >= 0.85
    widths = [e.half_width for e in estimates if e.half_width is not None]
    errors = float(np.std([estimate.value for estimate in estimates]))
    assert np.median(widths) < 5.0 * errors  # not bought by being wide: 2 to 3 standard errors are due
