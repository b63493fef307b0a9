"""What the study tells whoever watches it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from autotune.domain.trial import TrialRequest, TrialResult


@dataclass(frozen=True)
class StudyEvent:
    """asked: `request` is about to be evaluated. told: `result` of `request` is in. note: `text` is for the reader."""

    kind: Literal["asked", "told", "note"]
    request: TrialRequest | None = None
    result: TrialResult | None = None
    text: str = ""
