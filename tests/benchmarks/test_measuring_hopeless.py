"""At which look the hopeless benchmark gives a level up, and what it says that saves."""

from __future__ import annotations

from builders import estimate

from benchmarks.measuring.hopeless import Level, measured, report

LEVEL = Level(100.0, 80.0, [(20.0, estimate(98.0, 12.0)), (30.0, estimate(99.0, 5.0)), (40.0, estimate(99.0, 3.0))])


def test_a_level_is_given_up_at_the_first_look_that_is_surely_below_what_is_needed() -> None:
    ends = {needed: LEVEL.given_up(needed) for needed in (1.0, 1.03, 1.05, 1.2)}
    assert {needed: None if end is None else end[0] for needed, end in ends.items()} == {
        1.0: None,
        1.03: 40.0,
        1.05: 30.0,
        1.2: 20.0,
    }


def test_the_table_tells_how_many_end_early_and_what_time_is_left() -> None:
    precise = Level(100.0, 20.0, [])
    assert "| 1.2 | 1 of 2 | 0.62 |" in report([LEVEL, precise])
    assert "| 1 | 0 of 2 | 1.00 |" in report([LEVEL, precise])


def test_every_look_of_a_level_that_is_not_precise_is_kept() -> None:
    level = measured("1 card", 4, 2, 0.002)
    ends = [end for end, _figure in level.looks]
    assert len(ends) >= 3
    assert ends == sorted(ends)
    assert ends[-1] <= level.whole_s
    assert all(abs(figure.value / level.truth - 1.0) < 0.1 for _end, figure in level.looks)
