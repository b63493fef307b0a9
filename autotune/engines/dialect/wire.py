"""Where the server is asked what, and how one request goes over `/generate`.

`/generate` rather than the OpenAI endpoints (openai_wire.py) where there is a choice: it reports exact token counts
and the verify count in every version.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from autotune.domain.engine import Endpoints, StreamEvent

ENDPOINTS = Endpoints(
    ready_line="The server is fired up and ready to roll!",
    health="/health",
    identity="/v1/models",
    server_info=("/server_info", "/get_server_info"),
    flush="/flush_cache",
    abort="/abort_request",
    abort_body=b'{"rid": "", "abort_all": true}',
)


class GenerateWire:
    """Streams over `/generate`. The text of an event is cumulative, and so are its counts."""

    path = "/generate"

    def __init__(self, api_key: str | None = None) -> None:
        self.headers = bearer(api_key)

    def body(self, prompt: str, max_tokens: int, *, temperature: float, ignore_eos: bool, rid: str) -> bytes:
        """JSON. `rid` must be unique among the requests that are running."""
        return encoded(
            {
                "text": prompt,
                "sampling_params": {
                    "max_new_tokens": max_tokens,
                    "temperature": temperature,
                    "ignore_eos": ignore_eos,
                },
                "stream": True,
                "rid": rid,
            }
        )

    def event(self, data: bytes) -> StreamEvent:
        """An error may come in the middle of a stream whose HTTP status was 200; so may an abort."""
        event = opened(data)
        if isinstance(event, StreamEvent):
            return event
        text = event.get("text")
        meta = event.get("meta_info")
        if not isinstance(meta, dict):
            return StreamEvent(text=text if isinstance(text, str) else None)
        reason, error = _finish(meta.get("finish_reason"))
        return StreamEvent(
            completion_tokens=count(meta, "completion_tokens"),
            prompt_tokens=count(meta, "prompt_tokens"),
            verify_count=count(meta, "spec_verify_ct"),
            finish_reason=reason,
            text=text if isinstance(text, str) else None,
            error=error,
        )


def encoded(body: Mapping[str, Any]) -> bytes:
    """Compact JSON in UTF-8."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def opened(data: bytes) -> dict[str, Any] | StreamEvent:
    """The object of an event; of `[DONE]` and of an error, what it says. Raises ValueError where it is no object."""
    if data.strip() == b"[DONE]":
        return StreamEvent(done=True)
    event = json.loads(data)
    if not isinstance(event, dict):
        raise ValueError(f"an event must be a JSON object, but got {data[:80]!r}")
    if event.get("error") is not None:
        return StreamEvent(error=_error_text(event["error"]))
    return StreamEvent(error=_error_text(event)) if event.get("object") == "error" else event


def bearer(api_key: str | None) -> Mapping[str, str]:
    return {} if api_key is None else {"Authorization": f"Bearer {api_key}"}


def count(meta: Mapping[str, Any], key: str) -> int | None:
    value = meta.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _finish(raw: object) -> tuple[str | None, str | None]:
    """The reason (stop, length, abort) and, of an abort, why. Older versions write the reason as a bare word."""
    if isinstance(raw, str):
        return raw, "aborted" if raw == "abort" else None
    if not isinstance(raw, dict):
        return None, None
    reason = str(raw.get("type", "unknown"))
    return reason, str(raw.get("message") or "aborted") if reason == "abort" else None


def _error_text(raw: object) -> str:
    if isinstance(raw, dict):
        return str(raw.get("message") or json.dumps(raw))
    return str(raw)
