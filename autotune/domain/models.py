"""What a model's folder says of the model, and what that says against a draft beside its target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ModelFiles:
    """`config`: its config.json. `tensors`: names and shapes of its weights, None where they could not be read.
    `vocabulary`: a digest of the tokenizer's tokens and their ids, None where there is none to read."""

    path: str
    config: Mapping[str, Any]
    tensors: Mapping[str, tuple[int, ...]] | None = None
    vocabulary: str | None = None


@dataclass(frozen=True)
class Misfit:
    """`certain`: the server would not start, or could never accept a draft token; else it is worth a warning."""

    text: str
    certain: bool


@dataclass(frozen=True)
class Speculation:
    """How a server speculates. `draft_tokens`: the most tokens one verify pass may yield, None if it is not said."""

    algorithm: str
    has_draft_model: bool
    draft_tokens: int | None = None
