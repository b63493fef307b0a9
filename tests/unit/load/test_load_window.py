from __future__ import annotations

from autotune.load.generator import spread_tokens
from autotune.load.window import Window


def warmed(concurrency: int, requests: int) -> Window:
    """All slots have sent, finished their warm-up, and sent again at 1, 2, … seconds."""
    window = Window(concurrency, requests)
    for _ in range(concurrency):
        window.sent(0.0)
    for slot in range(1, concurrency + 1):
        window.ended(float(slot))
        window.slot_is_warm()
        window.sent(float(slot))
    return window


def test_the_window_opens_when_the_last_slot_is_warm_and_has_sent_again() -> None:
    window = warmed(3, 15)
    assert window.opened == 3.0
    assert window.lowest == 3


def test_the_window_does_not_open_while_a_slot_is_without_a_request() -> None:
    window = Window(2, 10)
    window.sent(0.0)
    window.sent(0.0)
    for stamp in (1.0, 2.0):
        window.ended(stamp)
        window.slot_is_warm()
    assert not window.sent(3.0)
    assert window.opened is None
    assert window.sent(4.0)
    assert window.opened == 4.0


def test_the_window_closes_at_the_planned_number_of_ends() -> None:
    window = warmed(1, 2)
    assert not window.ended(2.0)
    window.sent(2.0)
    assert window.ended(3.0)
    assert window.bounds == (1.0, 3.0)


def test_an_end_that_was_stamped_before_the_opening_does_not_count() -> None:
    window = warmed(2, 1)
    assert not window.ended(1.5)
    window.sent(2.5)
    assert window.ended(3.0)


def test_an_empty_slot_inside_the_window_lowers_the_minimum_and_one_before_it_does_not() -> None:
    window = Window(2, 10)
    window.slot_is_empty()
    assert window.lowest is None
    window = warmed(2, 10)
    window.ended(3.0)
    window.slot_is_empty()
    window.sent(3.5)
    assert window.lowest == 1


def test_a_request_that_found_no_connection_was_never_in_flight() -> None:
    window = warmed(2, 10)
    window.ended(3.0)
    window.ended(3.1, was_in_flight=False)
    assert window.in_flight == 1


def test_closing_early_ends_at_the_last_end_inside() -> None:
    window = warmed(1, 50)
    window.ended(2.0)
    window.close_early()
    assert window.bounds == (1.0, 2.0)


def test_closing_early_without_any_end_inside_leaves_no_window() -> None:
    window = warmed(1, 50)
    window.close_early()
    assert window.bounds is None


def test_warm_up_lengths_are_spread_evenly_and_never_nothing() -> None:
    assert [spread_tokens(512, (i + 1) / 4) for i in range(4)] == [128, 256, 384, 512]
    assert [spread_tokens(2, (i + 1) / 8) for i in range(8)] == [1, 1, 1, 1, 1, 2, 2, 2]
    assert spread_tokens(512, 1.0) == 512
