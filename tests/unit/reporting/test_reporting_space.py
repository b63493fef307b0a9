"""What `autotune check` says of a study's cost."""

from __future__ import annotations

from builders import spec

from autotune.domain.confirmation import Confirm
from autotune.domain.space import SpaceCount
from autotune.domain.study import Budget
from autotune.reporting import space_summary


def summary(budget: Budget) -> str:
    counted = SpaceCount(valid=4, combinations=5, servers=4, refused={}, exact=True)
    return space_summary(spec(budget=budget), counted, versions={}, tokens_per_second=40.0)


def test_the_confirmation_is_part_of_the_cost_that_is_shown() -> None:
    shown = summary(Budget(trials=10, confirm=Confirm(finalists=2, share=0.25, rounds=4)))
    assert "then a confirmation: up to 2 finalists and the baseline, at most 4 fresh servers of each, in 25 %" in shown


def test_no_confirmation_is_shown_where_none_is_asked_for() -> None:
    assert "confirmation" not in summary(Budget(trials=10, confirm=None))
