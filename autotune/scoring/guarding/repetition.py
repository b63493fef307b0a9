"""Answers that loop: greedy decoding of a weak or broken model falls into them, and a draft guesses them all."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.domain.measurement import RequestRecord

GRAM = 12  # characters: no tokenizer is needed, and none of the text's language
LEAST_TAIL = 200  # characters of the second half of an answer, below which a refrain and a loop look alike
LOOPING = 0.25  # a passage that comes back four times
LOOKED_AT = 100  # answers of a level


def loops(text: str) -> bool | None:
    """Whether less than a quarter of the 12-grams in the second half of the text are different ones; None where the
    text is too short to tell. Prose and code stand at 0.8 to 1.0."""
    tail = text[len(text) // 2 :]
    if len(tail) < LEAST_TAIL:
        return None
    grams = [tail[start : start + GRAM] for start in range(len(tail) - GRAM + 1)]
    return len(set(grams)) < LOOPING * len(grams)


def looping_share(requests: Sequence[RequestRecord]) -> tuple[float | None, int]:
    """The share (0 to 1) among the first hundred answers that are long enough, and their number; None of none."""
    seen = [verdict for request in requests[:LOOKED_AT] if (verdict := loops(request.text)) is not None]
    return (sum(seen) / len(seen) if seen else None), len(seen)
