from __future__ import annotations

import pytest

from autotune.domain.stopping import Look
from autotune.domain.workload import ENDS_FOR_A_BOUND
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


def looked_at(requests: int, **bounds: float) -> Window:
    """One slot, warm, in flight, the window open at 1 second."""
    most = int(bounds["most"]) if "most" in bounds else None
    window = Window(1, requests, looks=True, most=most, seconds=bounds.get("seconds"))
    window.sent(0.0)
    window.ended(1.0)
    window.slot_is_warm()
    window.sent(1.0)
    return window


def serve(window: Window, *stamps: float) -> bool:
    """Requests that end at the stamps, one after another; whether the window closed by the last."""
    closed = False
    for stamp in stamps:
        closed = window.ended(stamp)
        window.sent(stamp)
    return closed


def test_a_look_is_due_at_the_floor_and_closes_the_window_where_it_was_due() -> None:
    window = looked_at(2)
    assert not serve(window, 2.0, 3.0)
    assert window.look_is_due
    serve(window, 4.0)
    assert window.settle(Look(enough=True), 3.0, None)
    assert window.bounds == (1.0, 3.0)


def test_the_next_look_is_due_after_half_as_many_requests_more() -> None:
    window = looked_at(4)
    serve(window, 2.0, 3.0, 4.0, 5.0)
    window.look_is_due = False
    assert not window.settle(Look(enough=False), 5.0, None)
    serve(window, 6.0)
    assert not window.look_is_due
    serve(window, 7.0)
    assert window.look_is_due


def test_a_look_moves_the_opening_to_the_next_end_and_the_floor_is_due_again() -> None:
    window = looked_at(4)
    serve(window, 2.0, 3.0, 4.0, 5.0)
    window.settle(Look(enough=False, opens_s=2.5), 5.0, 2.5)
    assert window.opened == 3.0
    assert window.opened_late == 2.0
    assert not window.has_its_floor
    serve(window, 6.0)
    assert not window.look_is_due
    serve(window, 7.0)
    assert window.look_is_due
    assert window.settle(Look(enough=True), 7.0, None)
    assert window.bounds == (3.0, 7.0)


def test_no_more_requests_than_the_floor_are_left_before_the_opening() -> None:
    window = looked_at(2)
    serve(window, 2.0, 3.0, 4.0, 5.0)
    window.settle(Look(enough=False, opens_s=4.5), 5.0, 4.5)
    assert window.opened == 3.0
    assert not window.may_open_later


def test_the_most_requests_close_the_window_whatever_looks_say() -> None:
    window = looked_at(2, most=4)
    assert serve(window, 2.0, 3.0, 4.0, 5.0)
    assert window.bounds == (1.0, 5.0)
    assert not window.settle(Look(enough=True), 3.0, None)


def test_the_time_closes_the_window_at_the_next_end_even_below_the_floor() -> None:
    window = looked_at(10, seconds=1.5)
    assert not serve(window, 2.0)
    assert serve(window, 3.0)
    assert window.bounds == (1.0, 3.0)


def test_where_several_requests_have_ended_the_time_closes_the_window_at_the_last_of_them() -> None:
    window = looked_at(10, seconds=6.5)
    assert serve(window, *(float(stamp) for stamp in range(2, 9)))
    assert window.bounds == (1.0, 7.0)


@pytest.mark.parametrize("inside_by_then", range(10))
def test_a_window_that_outlasts_its_time_holds_few_enough_ends_to_be_marked(inside_by_then: int) -> None:
    window = looked_at(20, seconds=inside_by_then + 0.5)
    ends = [float(stamp) for stamp in range(2, inside_by_then + 3)]
    assert serve(window, *ends)
    assert window.bounds is not None
    closed = window.bounds[1]
    assert closed <= 1.0 + inside_by_then + 0.5 or sum(end <= closed for end in ends) < ENDS_FOR_A_BOUND
    assert closed == (ends[-1] if len(ends) < ENDS_FOR_A_BOUND else ends[-2])


def test_ends_before_a_later_opening_do_not_count_as_lying_inside() -> None:
    window = looked_at(3, seconds=6.5)
    serve(window, 2.0, 3.0, 4.0)
    window.settle(Look(enough=False, opens_s=2.5), 4.0, 2.5)
    assert serve(window, 5.0, 6.0, 7.0, 8.0)
    assert window.bounds == (3.0, 8.0)
