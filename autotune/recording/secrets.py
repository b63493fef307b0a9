"""Secrets never reach the disk: their values are replaced by `***` before anything is written.

What a secret is, domain/secrets.py says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from autotune.domain.secrets import MASK, is_secret
from autotune.domain.trial import LaunchCommand

_NAME = r"[A-Za-z0-9_-]*(?:SECRET|PASSW|API[_-]?KEY|TOKEN)[A-Za-z0-9_-]*"
_QUOTED = r"\"(?P<double>(?:[^\"\\\n]|\\.)*)\"|'(?P<single>[^'\n]*)'"
_IN_TEXT = re.compile(
    rf"(?P<before>(?:(?P<name>{_NAME})[\"']?\s*[=:]|--(?P<option>{_NAME})\s)\s*)(?:{_QUOTED}|(?P<bare>[^\s,;)\"'\]}}]+))",
    re.IGNORECASE,
)
_IN_YAML = re.compile(
    rf"(?P<before>(?P<name>{_NAME})[\"']?:[ \t]+)(?:{_QUOTED}|(?P<bare>[^\s,{{}}\[\]#&*!|>'\"][^,}}\n]*))",
    re.IGNORECASE,
)


def mask_environment(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: MASK if is_secret(name, value) else value for name, value in environment.items()}


def mask_argv(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Both spellings: `--api-key VALUE` and `--api-key=VALUE`."""
    masked: list[str] = []
    option = ""
    for word in argv:
        if option and is_secret(option, word):
            masked.append(MASK)
            option = ""
            continue
        name, sign, value = word.partition("=")
        option = name if name.startswith("--") and not sign else ""
        masked.append(f"{name}={MASK}" if name.startswith("--") and sign and is_secret(name, value) else word)
    return tuple(masked)


def mask_command(command: LaunchCommand) -> LaunchCommand:
    return replace(
        command,
        argv=mask_argv(command.argv),
        environment=mask_environment(command.environment),
        chosen=mask_environment(command.chosen),
    )


def mask_data(data: Any, name: str = "") -> Any:
    """Plain data (`/server_info`): the values under secret names, at any depth."""
    if isinstance(data, Mapping):
        return {key: mask_data(value, str(key)) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [mask_data(item, name) for item in data]
    if isinstance(data, str):
        return MASK if name and is_secret(name, data) else mask_text(data)
    return data


def mask_text(text: str) -> str:
    """A log or a JSON document: `api_key='...'`, `"api_key": "..."`, `--api-key ...`, `HF_TOKEN=...`."""
    return _IN_TEXT.sub(_masked_in_text, text)


def mask_yaml(text: str) -> str:
    """A YAML document in block or flow style, one scalar to a key; it stays a YAML document."""
    return _IN_YAML.sub(_masked_in_yaml, text)


def _masked_in_text(found: re.Match[str]) -> str:
    if not is_secret(found["name"] or found["option"], _value_of(found)):
        return found[0]
    quote = '"' if found["double"] is not None else "'" if found["single"] is not None else ""
    return f"{found['before']}{quote}{MASK}{quote}"


def _masked_in_yaml(found: re.Match[str]) -> str:
    return f"{found['before']}'{MASK}'" if is_secret(found["name"], _value_of(found)) else found[0]


def _value_of(found: re.Match[str]) -> str:
    return next(value for value in found.group("double", "single", "bare") if value is not None)
