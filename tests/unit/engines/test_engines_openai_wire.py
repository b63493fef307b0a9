from __future__ import annotations

import json

import pytest

from autotune import engines
from autotune.domain.engine import StreamEvent
from autotune.engines.dialect.openai_wire import ChatWire, CompletionsWire

CHAT = ChatWire("kimi", "hush")


def body(wire: ChatWire | CompletionsWire) -> dict[str, object]:
    return json.loads(wire.body("Sort a list. ✓", 64, temperature=0.0, ignore_eos=True, rid="r1"))


def event(wire: ChatWire | CompletionsWire = CHAT, **fields: object) -> StreamEvent:
    return wire.event(json.dumps(fields).encode())


def test_both_ask_for_a_stream_with_counts_in_every_chunk() -> None:
    for wire in (CHAT, CompletionsWire("kimi")):
        asked = body(wire)
        assert asked["stream"] is True
        assert asked["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
        assert (asked["model"], asked["max_tokens"], asked["ignore_eos"], asked["rid"]) == ("kimi", 64, True, "r1")
    assert body(CHAT)["messages"] == [{"role": "user", "content": "Sort a list. ✓"}]
    assert body(CompletionsWire("kimi"))["prompt"] == "Sort a list. ✓"


def test_the_key_is_a_header_and_stands_nowhere_else() -> None:
    assert CHAT.headers == {"Authorization": "Bearer hush"}
    assert ChatWire("kimi").headers == {}
    assert "hush" not in str(body(CHAT)) + repr(CHAT)


def test_a_chunk_brings_text_and_the_count_so_far() -> None:
    choice = {"index": 0, "delta": {"content": "a b"}, "finish_reason": None}
    seen = event(choices=[choice], usage={"prompt_tokens": 9, "completion_tokens": 2})
    assert seen == StreamEvent(completion_tokens=2, prompt_tokens=9, delta="a b")


def test_reasoning_is_text_too() -> None:
    assert event(choices=[{"delta": {"reasoning_content": "hm", "content": None}}]).delta == "hm"


def test_the_first_chunk_with_a_role_alone_brings_nothing() -> None:
    assert event(choices=[{"delta": {"role": "assistant", "content": ""}}], usage=None) == StreamEvent()


def test_the_end_is_a_reason_then_usage_without_choices_then_done() -> None:
    assert event(choices=[{"delta": {}, "finish_reason": "length"}]).finish_reason == "length"
    assert event(choices=[], usage={"completion_tokens": 64}).completion_tokens == 64
    assert CHAT.event(b"[DONE]").done


def test_completions_carry_their_text_in_the_choice() -> None:
    assert event(CompletionsWire("kimi"), choices=[{"text": "x = 1", "finish_reason": None}]).delta == "x = 1"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"error": {"message": "queue is full", "code": 503}}, "queue is full"),
        ({"object": "error", "message": "no such model"}, "no such model"),
        ({"choices": [{"delta": {}, "finish_reason": "abort"}]}, "aborted"),
    ],
)
def test_an_error_inside_the_stream_is_one(fields: dict[str, object], said: str) -> None:
    assert event(**fields).error == said


@pytest.mark.parametrize("data", [b"{not json", b"[1]", b'"text"'])
def test_what_is_no_event_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        CHAT.event(data)


@pytest.mark.parametrize(
    ("endpoint", "path"),
    [("generate", "/generate"), ("chat", "/v1/chat/completions"), ("completions", "/v1/completions")],
)
def test_every_endpoint_has_its_wire(endpoint: str, path: str) -> None:
    wire = engines.get("sglang").wire_for(endpoint, "kimi", api_key="hush")
    assert wire.path == path
    assert wire.headers["Authorization"] == "Bearer hush"
