"""The order in which a trial's levels run."""

from collections.abc import Sequence
from dataclasses import dataclass

from builders import plan

from autotune.domain.measurement import Measurement
from autotune.domain.pruning import Bound
from autotune.trial_runner.ending import ordered


@dataclass(frozen=True)
class Order:
    order: tuple[int, ...]

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
