"""What is said of the client when its records are held against what was really sent."""

from __future__ import annotations

import pytest

from autotune.client_test import ClientLevel, ClientTest, Truth, judge
from autotune.domain.measurement import ClientHealth, LevelRun, RequestRecord
from autotune.errors import InputError, LoadFailed

STEPS = tuple(100.0 + 0.1 * i for i in range(101))  # ten seconds of ten steps each


def truth(tokens: int = 2) -> Truth:
    return Truth(STEPS, (tokens,) * 101, (tokens,) * 101, (100.0,), (100.0,), cpu_share=0.1)


def seen(tokens: tuple[int, ...], *, window: tuple[float, float] | None = (1.0, 9.0)) -> LevelRun:
    record = RequestRecord(
        identity="a",
        prompt="p",
        warmup=False,
        requested_tokens=202,
        sent_s=0.0,
        chunk_times_s=tuple(0.1 * i for i in range(len(tokens))),
        chunk_tokens=tokens,
        completion_tokens=tokens[-1],
    )
    return LevelRun(1, (record,), window, ClientHealth(0.001, 0.3))


def test_a_client_that_sees_all_delivers_one() -> None:
    level = judge(seen(tuple(range(2, 204, 2))), truth())
    assert level.delivered == pytest.approx(1.0)
    assert level.true_rate == pytest.approx(20.0)
    assert level.holds


def test_a_client_that_misses_one_in_a_hundred_does_not_hold() -> None:
    level = judge(seen(tuple(range(99, 10099, 99))), truth(tokens=100))
    assert level.delivered == pytest.approx(0.99)
    assert not level.holds


def test_a_level_without_a_window_cannot_be_judged() -> None:
    with pytest.raises(LoadFailed, match="no window at 1 streams"):
        judge(seen((1, 2), window=None), truth())


def level(concurrency: int, rate: float, delivered: float = 1.0) -> ClientLevel:
    return ClientLevel(concurrency, rate, delivered, 0.002, 0.5)


def test_the_largest_rate_is_the_largest_that_was_delivered() -> None:
    test = ClientTest((level(8, 400.0), level(256, 12_000.0), level(256, 20_000.0, delivered=0.98)))
    assert test.largest_rate == 12_000.0
    assert ClientTest((level(8, 400.0, delivered=0.9),)).largest_rate is None


def test_a_level_beyond_what_was_shown_is_remarked_and_one_below_is_not() -> None:
    test = ClientTest((level(8, 400.0), level(256, 12_000.0)))
    assert test.finding(8, 11_000.0) is None  # 256 streams at 12,000 show it
    assert "tested up to 12,000 chunks/s" in str(test.finding(8, 13_000.0))
    assert "tested up to 0 chunks/s at 512 streams" in str(test.finding(512, 100.0))


def test_an_untested_client_is_remarked_on_nowhere_and_has_no_facts() -> None:
    run = seen(tuple(range(2, 204, 2)))
    assert ClientTest().finding_on(run) is None
    assert ClientTest().facts == {}
    assert ClientTest((level(1, 5.0),)).finding_on(run) is not None
    assert ClientTest((level(1, 50.0),)).finding_on(run) is None
    assert ClientTest((level(1, 50.0),)).finding_on(run, clock_rate=20.0) is not None


def test_a_level_as_fast_as_what_the_client_lost_is_void_and_one_in_between_is_marked() -> None:
    test = ClientTest((level(64, 3_200.0), level(256, 12_000.0), level(256, 20_000.0, delivered=0.97)))
    marked, void = test.finding(256, 15_000.0), test.finding(256, 21_000.0)
    assert marked is not None
    assert (marked.guard, marked.effect) == ("client_untested", "mark")
    assert void is not None
    assert (void.guard, void.effect) == ("client_disproved", "void")
    assert void.values == {"chunks_per_s": 21_000.0, "failed_at": 20_000.0}
    lost_at_more = test.finding(64, 21_000.0)  # that 256 streams were too many says nothing of 64
    assert lost_at_more is not None
    assert lost_at_more.guard == "client_untested"


def test_a_level_that_the_client_held_at_no_rate_is_refused_with_its_figures() -> None:
    test = ClientTest((level(8, 400.0), level(512, 20_000.0, delivered=0.8), level(512, 10_000.0, delivered=0.9)))
    with pytest.raises(InputError, match=r"level 512 \(512 streams at 20,000 tok/s: 80.00% delivered; 512"):
        test.refuse_levels()


def test_a_level_that_was_held_at_a_lower_rate_is_not_refused() -> None:
    ClientTest((level(512, 20_000.0, delivered=0.8), level(512, 10_000.0))).refuse_levels()
    ClientTest().refuse_levels()


def test_levels_that_were_tested_for_rates_refuse_nothing() -> None:
    test = ClientTest((level(8, 400.0), level(256, 12_000.0, delivered=0.9)))
    with pytest.raises(InputError, match="at no rate of level 256"):
        test.refuse_levels()
    test.refuse_levels((8,))
