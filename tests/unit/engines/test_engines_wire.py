from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from autotune.domain.engine import StreamEvent
from autotune.engines.dialect.wire import ENDPOINTS, GenerateWire

WIRE = GenerateWire()


def events(stream: str) -> list[StreamEvent]:
    return [WIRE.event(line.removeprefix("data: ").encode()) for line in stream.splitlines() if line]


def test_the_body_is_what_generate_takes_and_nothing_else() -> None:
    body = WIRE.body('def f():\n    "é"', 64, temperature=0.0, ignore_eos=True, rid="t1-7")
    assert json.loads(body) == {
        "text": 'def f():\n    "é"',
        "sampling_params": {"max_new_tokens": 64, "temperature": 0.0, "ignore_eos": True},
        "stream": True,
        "rid": "t1-7",
    }


def test_a_real_stream_is_cumulative_and_ends_with_the_verify_count(sample: Callable[[str], str]) -> None:
    *tokens, last, done = events(sample("stream_eagle3_0_5_23.txt"))
    assert [event.completion_tokens for event in tokens] == [1, 2, 3, 4, 5]
    assert all(event.finish_reason is None and event.verify_count is None for event in tokens)
    assert last == StreamEvent(
        completion_tokens=6,
        prompt_tokens=7,
        verify_count=5,
        finish_reason="length",
        text="umbers phraseumbers phrase Lo phrase",
    )
    assert done == StreamEvent(done=True)


def test_an_error_inside_a_stream_is_an_error_and_not_an_empty_answer(sample: Callable[[str], str]) -> None:
    refused, done = events(sample("stream_error_0_5_23.txt"))
    assert refused.error is not None
    assert refused.error.startswith("Requested token count exceeds the model's maximum context length of 4096")
    assert refused.completion_tokens is None
    assert done.done


def test_an_error_may_be_bare_text() -> None:
    assert WIRE.event(b'{"error": "out of pages"}').error == "out of pages"


def test_an_abort_is_a_finish_and_an_error() -> None:
    event = WIRE.event(b'{"text": "", "meta_info": {"finish_reason": {"type": "abort", "message": "Abort in queue"}}}')
    assert event.finish_reason == "abort"
    assert event.error == "Abort in queue"


def test_counts_that_are_missing_are_none_and_not_zero() -> None:
    event = WIRE.event(b'{"text": "a", "meta_info": {"finish_reason": null, "spec_verify_ct": 0}}')
    assert event.completion_tokens is None
    assert event.prompt_tokens is None
    assert event.verify_count == 0


@pytest.mark.parametrize("data", [b"", b"{", b"[1]", b"3", b'"x"', b"\xff\xfe"])
def test_what_cannot_be_read_raises_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        WIRE.event(data)


def test_the_abort_body_asks_for_all_requests() -> None:
    assert json.loads(ENDPOINTS.abort_body) == {"rid": "", "abort_all": True}
