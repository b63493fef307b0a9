"""What the speculative arguments mean together: which are dead, and which follow from others."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from autotune.engines.dialect.figures import whole
from autotune.engines.dialect.flag_table import Release

ALGORITHM = "speculative_algorithm"
STEPS = "speculative_num_steps"
TOPK = "speculative_eagle_topk"
DRAFT_TOKENS = "speculative_num_draft_tokens"
SPEC_V2 = "spec_v2"

TREES = frozenset({"EAGLE", "EAGLE3", "NEXTN", "STANDALONE"})
"""Algorithms whose draft is a tree of `topk` branches and `steps` levels."""

_DRAFT_MODEL = ("speculative_draft_model", "speculative_draft_load_format", "speculative_token_map")
_NGRAM_OVERLAPS_SINCE: Release = (0, 5, 14)

Signature = tuple[str | None, bool]


def algorithm(asked: Mapping[str, object]) -> str | None:
    value = asked.get(ALGORITHM)
    return value.upper() if isinstance(value, str) and value else None


def signature(asked: Mapping[str, object]) -> Signature:
    """All that decides which arguments are dead: the algorithm, and whether its tree is a chain."""
    return algorithm(asked), is_chain(asked)


def dead(signed: Signature, release: Release) -> Callable[[str], bool]:
    """Tells whether an argument of the space file has no effect beside these others, and is left out."""
    chosen, chain = signed
    if chosen is None:
        return lambda name: name == SPEC_V2 or (name.startswith("speculative_") and name != ALGORITHM)
    if chosen == "NGRAM":
        overlaps = release >= _NGRAM_OVERLAPS_SINCE
        return lambda name: (
            name in (STEPS, TOPK)
            or name.startswith((*_DRAFT_MODEL, "speculative_adaptive"))
            or (name == SPEC_V2 and not overlaps)
        )
    if chosen == "DFLASH":  # steps and topk are forced to 1, draft tokens to the block size
        return lambda name: name in (STEPS, TOPK, DRAFT_TOKENS) or name.startswith("speculative_ngram_")
    return lambda name: name.startswith("speculative_ngram_") or (name == DRAFT_TOKENS and chain)


def derived_draft_tokens(asked: Mapping[str, object]) -> int | None:
    """At topk 1 the server uses steps + 1 whatever is asked, so that is what is asked. None where it is free."""
    steps = _whole(asked.get(STEPS))
    return steps + 1 if is_chain(asked) and steps is not None else None


def is_chain(asked: Mapping[str, object]) -> bool:
    return algorithm(asked) in TREES and _whole(asked.get(TOPK)) == 1 and _whole(asked.get(STEPS)) is not None


def is_tree(asked: Mapping[str, object]) -> bool:
    topk = whole(asked.get(TOPK))
    return algorithm(asked) in TREES and topk is not None and topk > 1


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
