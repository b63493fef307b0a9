"""A JSONL file of the user's own prompts, read and checked."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from autotune.domain.workload import Prompt
from autotune.errors import InputError

_FAULTS_SHOWN = 20


def read_prompts(path: Path) -> tuple[Prompt, ...]:
    """The distinct texts of a JSONL file, in its order; of equal texts the first is kept, blank lines are skipped.

    A line is {"prompt": …}, {"text": …} or a chat, {"messages": [{"role": …, "content": …}, …]}, and may have its own
    "max_tokens".
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}", hint="check the path in `prompts:`") from error
    found: dict[str, Prompt] = {}
    faults: list[str] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            prompt = _prompt_of(line)
            found.setdefault(prompt.text, prompt)
        except ValueError as error:
            faults.append(f"{path}:{number}: {error}")
    if len(faults) > _FAULTS_SHOWN:
        faults[_FAULTS_SHOWN:] = [f"… and {len(faults) - _FAULTS_SHOWN} more lines with faults"]
    if not faults and not found:
        faults.append(f"{path}: holds no prompt")
    if faults:
        raise InputError(
            "\n".join(faults), hint='each line is one JSON object, e.g. {"prompt": "Write a parser for …"}'
        )
    return tuple(found.values())


def _prompt_of(line: bytes) -> Prompt:
    """Raises ValueError, in words for the user, for a line that holds no prompt."""
    try:
        entry: Any = json.loads(line)
    except UnicodeDecodeError:
        raise ValueError("a line must be UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"a line must be JSON: {error.msg} at column {error.colno}") from None
    if not isinstance(entry, dict):
        raise ValueError(f"a line must be a JSON object, but got {type(entry).__name__}")
    text = _text_of(entry)
    return Prompt(hashlib.sha256(text.encode()).hexdigest()[:16], text, _max_tokens_of(entry))


def _text_of(entry: dict[str, Any]) -> str:
    if "messages" in entry:
        return _chat_text(entry["messages"])
    text = entry.get("prompt", entry.get("text"))
    if not isinstance(text, str) or not text.strip():
        shown = ", ".join(sorted(entry)) or "nothing"
        raise ValueError(f"a line must have a `prompt`, `text` or `messages` with text in it, but has: {shown}")
    return _sendable(text)


def _max_tokens_of(entry: dict[str, Any]) -> int | None:
    tokens = entry.get("max_tokens")
    if tokens is None:
        return None
    if isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 1:
        raise ValueError(f"`max_tokens` must be a whole number of at least 1, but got {json.dumps(tokens)}")
    return tokens


def _chat_text(messages: Any) -> str:
    """The contents, one after the other with a blank line between. Roles are left out: /generate takes plain text,
    and inventing a chat template here would be another model's."""
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise ValueError("`messages` must be a list of objects with `content`")
    contents = [message.get("content") for message in messages]
    if not all(isinstance(content, str) for content in contents):
        raise ValueError("each of `messages` must have a `content` that is text")
    joined = "\n\n".join(content for content in contents if content.strip())
    if not joined:
        raise ValueError("`messages` hold no text")
    return _sendable(joined)


def _sendable(text: str) -> str:
    """JSON can spell half a character (a lone surrogate), which no request can carry."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"the text holds half a surrogate pair at character {error.start}") from None
    return text
