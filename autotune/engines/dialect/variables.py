"""Names of the environment that somebody reads."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources

from autotune.domain.engine import Problem
from autotune.engines.dialect.flag_table import FlagTable, all_variables
from autotune.engines.dialect.nearest import did_you_mean

_OURS = ("NCCL_", "SGLANG_", "SGL_")
"""Prefixes whose every name is known. Anybody may read a variable of another name."""
_RULE = "unread-variable: a variable of the space is read by NCCL or by this SGLang"


@cache
def nccl_variables() -> frozenset[str]:
    """What NCCL 2.30 reads."""
    text = resources.files("autotune.engines.dialect").joinpath("nccl_variables.json").read_text(encoding="utf-8")
    return frozenset(json.loads(text)["variables"])


def unread(name: str, table: FlagTable, version: str) -> Problem | None:
    """A remark on a variable that nothing reads. Where this version's names are not known, any version's will do."""
    if not name.startswith(_OURS):
        return None
    if name.startswith("NCCL_"):
        known, reader = nccl_variables(), "NCCL"
    else:
        known, reader = table.variables or all_variables(), f"sglang {version}" if table.variables else "any sglang"
    name_now = name.replace("SGL_", "SGLANG_", 1) if name.startswith("SGL_") else name  # SGLang renames these itself
    if not known or name_now in known:
        return None
    return Problem(f"{name} is read by nothing in {reader}{did_you_mean(name, known)} [unread-variable]", _RULE)
