"""How one request goes over the OpenAI-compatible endpoints, `/v1/chat/completions` and `/v1/completions`.

Tokens are counted from `usage` alone. It is asked for with every chunk (`continuous_usage_stats`, which SGLang and
vLLM know); a server that sends it only at the end gives no stamps of tokens, and its chunks are not counted instead.
"""

from __future__ import annotations

import abc
from typing import Any

from autotune.domain.engine import StreamEvent
from autotune.engines.dialect.wire import bearer, count, encoded, opened


class _OpenAIWire(abc.ABC):
    """What the two endpoints share. `ignore_eos` and `rid` are SGLang's (and vLLM's) additions to the protocol."""

    path: str

    def __init__(self, model: str, api_key: str | None = None) -> None:
        self.headers = bearer(api_key)
        self._model = model

    @abc.abstractmethod
    def asked(self, prompt: str) -> dict[str, Any]:
        """The part of the body that holds the prompt."""

    @abc.abstractmethod
    def said(self, choice: dict[str, Any]) -> str | None:
        """The new text of one chunk's choice."""

    def body(self, prompt: str, max_tokens: int, *, temperature: float, ignore_eos: bool, rid: str) -> bytes:
        """JSON. `rid` must be unique among the requests that are running."""
        return encoded(
            {
                "model": self._model,
                **self.asked(prompt),
                "max_tokens": max_tokens,
                "temperature": temperature,
                "ignore_eos": ignore_eos,
                "stream": True,
                "stream_options": {"include_usage": True, "continuous_usage_stats": True},
                "rid": rid,
            }
        )

    def event(self, data: bytes) -> StreamEvent:
        """The last event has no choices, only `usage`. An error may come in the middle of a stream."""
        event = opened(data)
        if isinstance(event, StreamEvent):
            return event
        usage = event.get("usage")
        counts = usage if isinstance(usage, dict) else {}
        choices = event.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
        reason = choice.get("finish_reason")
        return StreamEvent(
            completion_tokens=count(counts, "completion_tokens"),
            prompt_tokens=count(counts, "prompt_tokens"),
            finish_reason=str(reason) if reason else None,
            delta=self.said(choice),
            error="aborted" if reason == "abort" else None,
        )


class ChatWire(_OpenAIWire):
    """The prompt is one message of the user; the server's own chat template is applied to it."""

    path = "/v1/chat/completions"

    def asked(self, prompt: str) -> dict[str, Any]:
        return {"messages": [{"role": "user", "content": prompt}]}

    def said(self, choice: dict[str, Any]) -> str | None:
        """Reasoning is text as well: its tokens are in the counts."""
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            return None
        parts = [delta.get(key) for key in ("reasoning_content", "content")]
        return "".join(part for part in parts if isinstance(part, str)) or None


class CompletionsWire(_OpenAIWire):
    """The prompt goes to the model as it is."""

    path = "/v1/completions"

    def asked(self, prompt: str) -> dict[str, Any]:
        return {"prompt": prompt}

    def said(self, choice: dict[str, Any]) -> str | None:
        text = choice.get("text")
        return text if isinstance(text, str) and text else None
