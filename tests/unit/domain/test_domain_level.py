"""What a level is known by: a number in flight, or a rate."""

from __future__ import annotations

import pytest
from builders import measurement, spec, workload

from autotune.domain.level import Level, Rate, as_data, in_file_name, label, level_of, named, named_all
from autotune.domain.workload import ROOM_AT_RATE, LevelPlan, at_rate


@pytest.mark.parametrize("level", [1, 250, Rate(4.0), Rate(0.5), Rate(0.001), Rate(12.345), Rate(1 / 3)])
def test_the_text_of_a_level_is_read_back_exactly(level: Level) -> None:
    assert level_of(str(level)) == level


@pytest.mark.parametrize(
    "text", ["", "four", "4.5", "4 rps", "-1 req/s", "0 req/s", "inf req/s", "nan req/s", " req/s"]
)
def test_any_other_text_is_no_level(text: str) -> None:
    with pytest.raises(ValueError):
        level_of(text)


def test_numbers_in_flight_come_first_and_each_kind_is_ascending() -> None:
    assert sorted([Rate(8.0), 250, Rate(0.5), 1]) == [1, 250, Rate(0.5), Rate(8.0)]
    assert max([Rate(0.5), 250]) == Rate(0.5)
    assert Rate(4.0) != 4
    assert len({4: 1, Rate(4.0): 2}) == 2


def test_a_level_has_a_label_a_name_and_a_file_name() -> None:
    assert [label(level, width=3) for level in (16, Rate(4.0))] == ["C= 16", "4 req/s"]
    assert [named(level) for level in (16, Rate(4.0))] == ["level 16", "4 req/s"]
    assert [in_file_name(level) for level in (16, Rate(0.5))] == ["C16", "R0.5"]
    assert [as_data(level) for level in (16, Rate(0.5))] == [{"concurrency": 16}, {"rate": 0.5}]


@pytest.mark.parametrize(
    ("levels", "text"),
    [
        ([16], "level 16"),
        ([64, 16], "levels 64 and 16"),
        ([Rate(4.0)], "4 req/s"),
        ([Rate(4.0), Rate(8.0)], "4 req/s and 8 req/s"),
        ([16, Rate(4.0)], "level 16 and 4 req/s"),
    ],
)
def test_several_levels_are_named_in_their_order(levels: list[Level], text: str) -> None:
    assert named_all(levels) == text


def test_rates_a_thousandth_apart_have_steps_of_their_own() -> None:
    assert (Rate(0.001).step, Rate(0.002).step, Rate(4.0).step) == (1, 2, 4000)


def test_a_plan_and_a_measurement_at_a_rate_are_known_by_it_and_not_by_what_is_in_flight() -> None:
    assert measurement(7, rate=4.0).level == Rate(4.0)
    assert measurement(7).level == 7
    assert LevelPlan(1000, 60, rate=4.0).level == Rate(4.0)


def test_a_workload_has_levels_of_both_kinds_with_their_weights() -> None:
    mixed = workload(concurrency={10: 2.0, 1: 1.0}, rates={8.0: 3.0, 4.0: 1.0})
    assert mixed.levels == (1, 10, Rate(4.0), Rate(8.0))
    assert mixed.weights == {1: 1.0, 10: 2.0, Rate(4.0): 1.0, Rate(8.0): 3.0}
    assert mixed.closed == (1, 10)


def test_a_rate_is_planned_with_sixty_requests_or_as_many_as_the_file_asks_for() -> None:
    at_rates = workload(concurrency={}, rates={4.0: 1.0})
    (plan,) = spec(workload=at_rates).plan().levels
    assert (plan.rate, plan.requests, plan.warmup_requests, plan.most_requests) == (4.0, 60, 12, 480)
    (more,) = spec(workload=at_rates, min_requests=100).plan().levels
    assert (more.requests, more.warmup_requests) == (100, 20)
    assert plan.prompts < plan.most_prompts


def test_the_warm_up_of_a_rate_leaves_half_of_the_room_to_the_window() -> None:
    assert at_rate(4.0, 2501).warmup_requests == ROOM_AT_RATE // 2
    assert at_rate(4.0, 2499).warmup_requests == 499


def test_what_a_rate_is_expected_to_take_stays_within_its_bounds() -> None:
    level = at_rate(8.0, 60, most_requests=480)
    assert level.expected(0.1) == (60, 12 + 60 + 1, pytest.approx(72 / 8 + 0.1))
    assert level.expected(10.0) == (120, 120 + 120 + 80, pytest.approx(240 / 8 + 10))
    requests, prompts, _seconds = level.expected(1000.0)
    assert (requests, prompts) == (480, level.most_prompts)
