from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from builders import level_run, record

from autotune.domain.measurement import Estimate, LevelRun, RequestRecord
from autotune.domain.stopping import Look
from autotune.scoring import measure
from autotune.scoring.intervals.stopping import SURELY, WarmAndPrecise, WhyHopeless


def look(
    precision: float | None, run: LevelRun, *, may_open_later: bool = True, hopeless: WhyHopeless | None = None
) -> Look:
    ended = tuple(one for one in run.records if not one.cancelled)
    live = [one for one in run.records if one.cancelled]
    rule = WarmAndPrecise(precision, hopeless)
    turns = rule.look(replace(run, records=ended), live, may_open_later=may_open_later)
    while True:
        try:
            next(turns)
        except StopIteration as done:
            found: Look = done.value
            return found


def of_paces(gaps: Sequence[float], *, slots: int = 4, tokens: int = 50) -> LevelRun:
    """Each slot sends one request after another; the k-th of each has gaps of `gaps[k]` seconds between its tokens."""
    requests: list[RequestRecord] = []
    for slot in range(slots):
        sent = -0.25 * slot
        for gap in gaps:
            requests.append(record(sent_s=sent, ttft_s=gap, gap_s=gap, tokens=tokens))
            sent += tokens * gap
    end = min(request.chunk_times_s[-1] for request in requests[len(gaps) - 1 :: len(gaps)])
    return level_run(*requests, concurrency=slots, window=(0.0, end))


def test_without_a_precision_a_steady_level_is_enough() -> None:
    assert look(None, of_paces([0.02] * 10)) == Look(enough=True)


def test_a_level_without_noise_is_precise_enough() -> None:
    assert look(0.02, of_paces([0.02] * 10)).enough


def test_a_level_that_varies_is_not_precise_enough_for_a_fine_precision_and_is_for_a_coarse_one() -> None:
    gaps = list(0.02 * (1 + np.random.default_rng(1).normal(0.0, 0.04, 12)))
    assert not look(0.005, of_paces(gaps), may_open_later=False).enough
    assert look(0.5, of_paces(gaps), may_open_later=False).enough


def test_a_slow_beginning_moves_the_opening_to_where_it_ends() -> None:
    run = of_paces([0.04, 0.04] + [0.02] * 16)
    found = look(None, run)
    assert not found.enough
    assert found.opens_s is not None
    assert 3.0 <= found.opens_s <= 5.0


def test_an_opening_that_may_not_move_stays() -> None:
    assert look(None, of_paces([0.04, 0.04] + [0.02] * 16), may_open_later=False) == Look(enough=True)


def test_a_run_without_streams_ends_by_its_floor_alone() -> None:
    silent = [replace(one, chunk_times_s=(), chunk_tokens=()) for one in of_paces([0.02] * 10).records]
    run = replace(of_paces([0.02] * 10), records=tuple(silent))
    assert look(None, run).enough
    assert not look(0.02, run).enough


def test_the_work_comes_in_turns() -> None:
    run = of_paces([0.02] * 40)
    turns = WarmAndPrecise(0.02).look(run, (), may_open_later=True)
    assert sum(1 for _turn in turns) >= len(run.records) // 16


@dataclass
class Below:
    """Gives up what is surely below `rate`, and keeps what it was asked about."""

    rate: float
    asked: list[Estimate] = field(default_factory=list)

    def __call__(self, figure: Estimate) -> str:
        self.asked.append(figure)
        return "too slow" if figure.high is not None and figure.high < self.rate else ""


VARIES = of_paces(list(0.02 * (1 + np.random.default_rng(1).normal(0.0, 0.04, 12))))


def test_a_hopeless_level_ends_at_a_look_that_is_not_precise_enough_and_says_why() -> None:
    assert look(0.005, VARIES, may_open_later=False, hopeless=Below(400.0)) == Look(enough=True, why="too slow")


def test_a_contender_goes_on_to_the_precision() -> None:
    below = Below(200.0)
    assert look(0.005, VARIES, may_open_later=False, hopeless=below) == Look(enough=False)
    assert len(below.asked) == 1


def test_a_figure_is_hopeless_only_by_an_interval_wider_than_that_on_record() -> None:
    below = Below(0.0)
    look(0.005, VARIES, may_open_later=False, hopeless=below)
    (asked,), shown = below.asked, measure(VARIES).output_throughput
    assert shown is not None
    assert shown.half_width is not None
    assert asked.half_width == pytest.approx(SURELY * shown.half_width, rel=1e-6)
    assert asked.value == pytest.approx(shown.value, rel=0.02)


@pytest.mark.parametrize(
    ("precision", "run"),
    [
        (None, VARIES),
        (0.5, VARIES),
        (0.005, of_paces([0.04, 0.04] + [0.02] * 16)),
        (0.005, replace(VARIES, window=None)),
        (0.005, replace(VARIES, window=(0.0, 0.1))),
    ],
    ids=["no precision asked", "precise enough", "still warming up", "no window", "no interval"],
)
def test_nobody_is_asked_whether_it_is_hopeless_where_that_does_not_decide(
    precision: float | None, run: LevelRun
) -> None:
    below = Below(1e9)
    assert look(precision, run, hopeless=below) == look(precision, run)
    assert below.asked == []
