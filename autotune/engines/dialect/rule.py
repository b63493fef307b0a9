"""One rule of a diagnosis: what is found where, and what it means."""

from __future__ import annotations

import re
from dataclasses import dataclass

from autotune.domain.trial import FailureReason
from autotune.engines.dialect.phases import Phase


@dataclass(frozen=True)
class Rule:
    """Where `pattern` is found, `reason` is why. `kinds`: only in exceptions of these classes; `frames`: only where
    the traceback went through such code; `phases`: only while the server did that."""

    pattern: re.Pattern[str]
    reason: FailureReason
    message: str
    hint: str = ""
    phases: frozenset[Phase] = frozenset(Phase)
    kinds: frozenset[str] = frozenset()
    frames: re.Pattern[str] | None = None


def any_of(*parts: str) -> re.Pattern[str]:
    return re.compile("|".join(parts))
