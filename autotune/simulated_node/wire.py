"""Bytes of the answers. What does not change during a request is rendered once."""

from __future__ import annotations

import json
import zlib
from typing import Any

from autotune.simulated_node.plan import ServingPlan
from autotune.simulated_node.scheduler import Request

FILLER = "simulated text"
WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heron", "iris", "juniper", "kelp", "lotus")
DONE = b"data: [DONE]\n\n"


def final_text(request: Request, salt: int) -> str:
    """Constant in size. Its last words depend on the prompt and the length alone (`salt` 0: greedy)."""
    digest = zlib.crc32(f"{request.prompt_key}:{request.tokens}:{salt}".encode())
    word = WORDS[digest % len(WORDS)]
    return f"{FILLER} {word}-{digest:08x}"


def other_text(request: Request) -> str:
    """What no right server of this prompt says, from its first letter on."""
    return f"{zlib.crc32(str(request.prompt_key).encode()):08x} is no {FILLER}"


def looping_text() -> str:
    return "the same line again; " * 40


def chunk_head(request: Request) -> bytes:
    """All of a chunk up to the number of completion tokens, which `chunk_of` appends."""
    meta = {
        "id": request.rid,
        "finish_reason": None,
        "prompt_tokens": request.prompt_tokens,
        "cached_tokens": request.cached_tokens,
        "weight_version": "default",
    }
    head = json.dumps({"text": FILLER, "meta_info": meta}, separators=(",", ":")).encode()
    return b"data: " + head[:-2] + b',"completion_tokens":'


def chunk_of(head: bytes, tokens: int) -> bytes:
    return b"%s%d}}\n\n" % (head, tokens)


def final_answer(request: Request, plan: ServingPlan, salt: int) -> dict[str, Any]:
    meta: dict[str, Any] = {
        "id": request.rid,
        "finish_reason": _finish_reason(request),
        "prompt_tokens": request.prompt_tokens,
        "weight_version": "default",
        "completion_tokens": request.tokens,
        "cached_tokens": request.cached_tokens,
    }
    if plan.tree is not None and request.verify_count:
        proposed = request.verify_count * plan.tree.draft_tokens
        correct = sum(number * count for number, count in enumerate(request.histogram))
        meta |= {
            "spec_accept_rate": (correct + request.verify_count) / proposed,
            "spec_accept_length": request.tokens / request.verify_count,
            "spec_accept_histogram": request.histogram,
            "spec_accept_token_num": correct,
            "spec_draft_token_num": proposed,
            "spec_verify_ct": request.verify_count,
        }
    if request.finished_s is not None:
        meta["e2e_latency"] = request.finished_s - request.submitted_s
    return {"text": request.text or final_text(request, salt), "meta_info": meta}


def event(answer: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(answer, separators=(",", ":")).encode() + b"\n\n"


def error_body(message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "BadRequest", "code": 400}}


def _finish_reason(request: Request) -> dict[str, Any]:
    if request.finish_reason == "length":
        return {"type": "length", "length": request.tokens}
    if request.finish_reason == "abort":
        return {"type": "abort", "message": "Abort in waiting queue or by the client", "status_code": None}
    return {"type": "stop", "matched": 163585}
