from __future__ import annotations

from autotune.domain.engine import StreamEvent
from autotune.domain.workload import Prompt
from autotune.load.request import TEXT_KEPT, LiveRequest


def request() -> LiveRequest:
    live = LiveRequest(Prompt("id", "text"), 8, warmup=False)
    live.mark_sent(10.0)
    return live


def identity(stamp: float) -> float:
    return stamp


def test_only_events_with_new_tokens_are_chunks() -> None:
    live = request()
    assert not live.apply(StreamEvent(completion_tokens=0), 10.5)
    assert live.apply(StreamEvent(completion_tokens=2), 11.0)
    assert not live.apply(StreamEvent(text="no count"), 11.5)
    assert live.apply(StreamEvent(completion_tokens=8), 12.0)
    assert not live.apply(StreamEvent(completion_tokens=8, finish_reason="length"), 13.0)
    record = live.record(identity)
    assert record.chunk_times_s == (11.0, 12.0)
    assert record.chunk_tokens == (2, 8)
    assert (record.completion_tokens, record.finish_reason) == (8, "length")


def test_a_stream_without_counts_has_no_tokens_rather_than_zero() -> None:
    live = request()
    live.apply(StreamEvent(text="hello"), 11.0)
    live.apply(StreamEvent(done=True), 12.0)
    record = live.record(identity)
    assert record.completion_tokens is None
    assert record.prompt_tokens is None
    assert record.verify_count is None
    assert (record.chunk_times_s, record.chunk_tokens) == ((), ())


def test_the_last_word_of_the_server_stands_and_later_silence_does_not_erase_it() -> None:
    live = request()
    live.apply(StreamEvent(completion_tokens=1, verify_count=1, prompt_tokens=5), 11.0)
    live.apply(StreamEvent(completion_tokens=4, verify_count=2), 12.0)
    live.apply(StreamEvent(done=True), 13.0)
    record = live.record(identity)
    assert (record.verify_count, record.prompt_tokens) == (2, 5)


def test_a_request_is_finished_by_a_finish_reason_or_by_done() -> None:
    by_reason, by_done, neither = request(), request(), request()
    by_reason.apply(StreamEvent(completion_tokens=8, finish_reason="stop"), 11.0)
    by_done.apply(StreamEvent(done=True), 11.0)
    neither.apply(StreamEvent(completion_tokens=8), 11.0)
    assert (by_reason.finished, by_done.finished, neither.finished) == (True, True, False)


def test_long_answers_are_cut_in_the_record() -> None:
    live = request()
    live.apply(StreamEvent(completion_tokens=8, text="x" * 5000), 11.0)
    assert len(live.record(identity).text) == TEXT_KEPT


def test_every_tick_of_the_record_is_converted() -> None:
    live = request()
    live.apply(StreamEvent(completion_tokens=8), 12.0)
    record = live.record(lambda stamp: (stamp - 10.0) * 3)
    assert (record.sent_s, record.chunk_times_s) == (0.0, (6.0,))


def uncounted(*deltas: tuple[float, str]) -> LiveRequest:
    live = LiveRequest(Prompt("id", "text"), 8, warmup=False)
    live.mark_sent(0.0)
    for stamp, delta in deltas:
        assert live.apply(StreamEvent(delta=delta), stamp)
    return live


def test_a_count_that_comes_only_at_the_end_is_a_total_and_no_chunk() -> None:
    live = uncounted((1.0, "a "), (2.0, "b "), (3.0, "c"))
    live.apply(StreamEvent(finish_reason="length"), 3.5)
    assert not live.apply(StreamEvent(completion_tokens=8), 4.0)
    record = live.record(lambda stamp: stamp)
    assert (record.chunk_times_s, record.chunk_tokens) == ((), ())
    assert (record.completion_tokens, record.first_text_s, record.ended_s) == (8, 1.0, 3.5)
    assert record.text == "a b c"


def test_a_stream_that_never_counts_has_no_tokens_rather_than_its_chunks() -> None:
    live = uncounted((1.0, "a "), (2.0, "b "))
    live.apply(StreamEvent(done=True), 3.0)
    record = live.record(lambda stamp: stamp)
    assert (record.completion_tokens, record.chunk_tokens) == (None, ())
    assert record.ended_s == 3.0


def test_a_stream_with_counts_in_every_chunk_has_chunks_and_neither_of_the_two_stamps() -> None:
    live = LiveRequest(Prompt("id", "text"), 8, warmup=False)
    live.mark_sent(0.0)
    live.apply(StreamEvent(delta="a", completion_tokens=3), 1.0)
    live.apply(StreamEvent(delta="b", completion_tokens=8, finish_reason="length"), 2.0)
    live.apply(StreamEvent(completion_tokens=8), 2.1)
    record = live.record(lambda stamp: stamp)
    assert (record.chunk_times_s, record.chunk_tokens) == ((1.0, 2.0), (3, 8))
    assert (record.first_text_s, record.ended_s) == (None, None)
    assert record.text == "ab"
