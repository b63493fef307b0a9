"""The order in which a trial's levels run."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from builders import plan

from autotune.domain.level import Level, Rate
from autotune.domain.measurement import Measurement
from autotune.domain.pruning import Bound
from autotune.domain.workload import LevelPlan, MeasurementPlan, Prompt, at_rate
from autotune.trial_runner.ending import hopeless_at, ordered, with_rule


@dataclass(frozen=True)
class Order:
    order: tuple[Level, ...]

    def bound(self, measurements: Sequence[Measurement]) -> Bound | None:
        return None


def levels(order: tuple[int, ...]) -> list[int]:
    return [level.concurrency for level in ordered(plan(1, 10, 64), Order(order)).levels]


def test_without_a_screen_the_plan_is_as_it_was() -> None:
    assert ordered(plan(1, 10, 64), None) == plan(1, 10, 64)


def test_a_screen_says_which_level_is_first() -> None:
    assert levels((64, 1, 10)) == [64, 1, 10]


def test_a_level_that_the_screen_does_not_name_runs_last() -> None:
    assert levels((64,)) == [64, 1, 10]


class Prompts:
    """So many left, of which none is taken."""

    position = 0

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity

    def take(self, count: int) -> list[Prompt]:
        raise AssertionError("a rule is made before anything is sent")


@pytest.mark.parametrize(
    ("capacity", "most"),
    [(10_000, 480), (132 + 300, 60 + 100), (132, 60), (0, 60)],
    ids=["many", "few", "none", "less"],
)
def test_what_a_rate_may_take_beyond_its_floor_is_a_third_of_what_can_be_spared(capacity: int, most: int) -> None:
    level = at_rate(4.0, 60, most_requests=480)
    made = with_rule(MeasurementPlan((level,), 64), level, Prompts(capacity), precision=None, promised=0)
    assert made.most_requests == most
    assert made.most_prompts <= max(132, capacity)  # what later trials need is left to them


def test_a_screen_orders_rates_as_it_orders_levels() -> None:
    both = MeasurementPlan((LevelPlan(4, 20), at_rate(4.0, 60)), 64)
    assert [level.level for level in ordered(both, Order((Rate(4.0), 4))).levels] == [Rate(4.0), 4]
    assert hopeless_at(both.levels[1], None, ()) is None
