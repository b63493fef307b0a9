"""Which values are secrets. A name tells.

SECRET, PASSWORD and API_KEY anywhere in a name make its value a secret. TOKEN does too in the name of an environment
variable, and at the end of the name of an argument (`--hf-token`); but a number or a truth value under a TOKEN name
is a setting (`SGLANG_INIT_NEW_TOKEN_RATIO=0.7`), and what runs must be what is exported.
"""

from __future__ import annotations

import re

MASK = "***"
"""Stands on the disk in place of a secret."""

_ALWAYS = re.compile(r"SECRET|PASSW|API_?KEY")
_TOKEN = re.compile(r"TOKEN(?!S|IZ)")  # not TOKENIZERS_PARALLELISM, nor ..._MAX_TOKENS
_SETTING = re.compile(r"[-+]?[\d.]+(?:e[-+]?\d+)?|true|false|on|off|yes|no", re.IGNORECASE)
_NOTHING = frozenset({"", "None", "none", "null", "~", "unset", MASK})


def is_secret(name: str, value: str) -> bool:
    """Whether `value` must not be written. `name` is that of an environment variable (in capitals) or an argument
    (with or without leading dashes)."""
    if value.strip() in _NOTHING:
        return False
    upper = name.lstrip("-").replace("-", "_").upper()
    if _ALWAYS.search(upper):
        return True
    is_variable = name == upper
    named = bool(_TOKEN.search(upper)) if is_variable else upper.endswith("TOKEN")
    return named and _SETTING.fullmatch(value.strip()) is None
