from dataclasses import dataclass, field

import numpy as np
import pytest
from builders import level_run, record

from autotune.domain.measurement import LevelRun, RequestRecord
from autotune.scoring import measure
from autotune.scoring.interval import choose_batches


@pytest.mark.parametrize(
    ("spans", "batches"), [(3.0, 5), (5.0, 5), (9.6, 10), (20.2, 20), (21.0, 10), (50.0, 17), (200.0, 20)]
)
def test_a_batch_holds_whole_requests_and_there_are_between_5_and_20(spans: float, batches: int) -> None:
    assert choose_batches(spans * 2.0, 2.0, steps=10_000.0) == (batches, "")


def test_few_decode_steps_bound_the_number_of_batches() -> None:
    assert choose_batches(20.0, 1.0, steps=33.0)[0] == 8


@pytest.mark.parametrize(
    ("length", "request_s", "steps", "why"),
    [
        (10.0, None, 1000.0, "no request"),
        (10.0, 0.0, 1000.0, "no request"),
        (10.0, 3.5, 1000.0, "2.9 requests long"),
        (10.0, 1.0, 19.0, "19 decode steps"),
    ],
)
def test_too_short_a_window_has_no_interval(length: float, request_s: float | None, steps: float, why: str) -> None:
    batches, said = choose_batches(length, request_s, steps)
    assert batches is None
    assert why in said


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
    assert np.mean(widths) < 4.5 * errors  # not bought by being wide: 1.96 to 2.8 standard errors are due
