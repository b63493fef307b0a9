"""Which values are secrets. A name tells.

SECRET, PASSWORD and API_KEY anywhere in a name make its value a secret. So does TOKEN at its end (`--hf-token`), and
in the name of an environment variable anywhere (`HF_TOKEN_2`); not where other words say that it speaks of a model's
tokens (`..._TOKEN_RATIO`, `time-to-first-token`), nor inside a variable's name of SGLang or NCCL, which end with TOKEN
where they hold one (`SGLANG_SLACK_TOKEN`, but `SGLANG_SIMULATE_ACC_TOKEN_MODE`). A name of a file is none.

A number or a truth value under a TOKEN name is a setting, and what runs must be what is exported.
"""

from __future__ import annotations

import re

MASK = "***"
"""Stands on the disk in place of a secret."""

_ALWAYS = re.compile(r"SECRET|PASSW|API_?KEY")
_PLACE = re.compile(r"_(?:FILE|PATH|DIR)$")
_TOKEN_LAST = re.compile(r"TOKEN$")
_TOKEN_WITHIN = re.compile(r"TOKEN(?!S|IZ)")  # not TOKENIZERS_PARALLELISM, nor ..._MAX_TOKENS
_ENGINES = ("SGLANG_", "SGL_", "NCCL_")
_COUNTS = ("RATIO", "RATE", "COUNT", "NUM", "MAX", "MIN", "LIMIT", "LEN", "LENGTH", "SIZE", "BUDGET", "USAGE", "PER")
_PLACES = ("FIRST", "INTER", "NEXT", "LAST", "BOS", "EOS", "PAD", "UNK", "STOP", "MAP")
_OF_A_MODEL = frozenset(_COUNTS + _PLACES)
_SETTING = re.compile(r"[-+]?[\d.]+(?:e[-+]?\d+)?|true|false|on|off|yes|no", re.IGNORECASE)
_NOTHING = frozenset({"", "None", "none", "null", "~", "unset", MASK})


def names_secret(name: str) -> bool:
    """Whether what stands under `name` is a secret, as far as the name tells. `name` is that of an environment variable
    (in capitals), or of an argument or a parameter (with or without leading dashes)."""
    upper = _upper(name)
    if _PLACE.search(upper):
        return False
    return bool(_ALWAYS.search(upper)) or _holds_token(upper, variable=name == upper)


def is_secret(name: str, value: str) -> bool:
    """Whether `value` must not be written."""
    stripped = value.strip()
    if stripped in _NOTHING or not names_secret(name):
        return False
    return bool(_ALWAYS.search(_upper(name))) or _SETTING.fullmatch(stripped) is None


def _holds_token(upper: str, *, variable: bool) -> bool:
    within = variable and not upper.startswith(_ENGINES)
    found = (_TOKEN_WITHIN if within else _TOKEN_LAST).search(upper)
    return found is not None and _OF_A_MODEL.isdisjoint(upper.split("_"))


def _upper(name: str) -> str:
    return name.lstrip("-").replace("-", "_").upper()
