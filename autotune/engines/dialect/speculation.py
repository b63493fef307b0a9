"""What the speculative arguments mean together: which are dead, which follow from others, which cannot be."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from autotune.engines.dialect.flag_table import Release

ALGORITHM = "speculative_algorithm"
STEPS = "speculative_num_steps"
TOPK = "speculative_eagle_topk"
DRAFT_TOKENS = "speculative_num_draft_tokens"
SPEC_V2 = "spec_v2"

_TREE = frozenset({"EAGLE", "EAGLE3", "NEXTN", "STANDALONE"})
"""Algorithms whose draft is a tree of `topk` branches and `steps` levels."""

_SINCE: dict[str, Release] = {"DFLASH": (0, 5, 11), "DSPARK": (0, 5, 16), "UNO": (0, 5, 20)}
"""Algorithms that older versions do not have. A name that is not known here may be a plugin's."""

_DRAFT_MODEL = ("speculative_draft_model", "speculative_draft_load_format", "speculative_token_map")
_BACKENDS = ("attention_backend", "prefill_attention_backend", "decode_attention_backend")
_NGRAM_OVERLAPS_SINCE: Release = (0, 5, 14)
_V2_TREES_SINCE: Release = (0, 5, 13)


def algorithm(asked: Mapping[str, object]) -> str | None:
    value = asked.get(ALGORITHM)
    return value.upper() if isinstance(value, str) and value else None


def dead(asked: Mapping[str, object], release: Release) -> Callable[[str], bool]:
    """Tells whether an argument of the space file has no effect beside these others, and is left out."""
    chosen = algorithm(asked)
    if chosen is None:
        return lambda name: name == SPEC_V2 or (name.startswith("speculative_") and name != ALGORITHM)
    if chosen == "NGRAM":
        overlaps = release >= _NGRAM_OVERLAPS_SINCE
        return lambda name: name in (STEPS, TOPK) or name.startswith(_DRAFT_MODEL) or (name == SPEC_V2 and not overlaps)
    if chosen == "DFLASH":  # steps and topk are forced to 1, draft tokens to the block size
        return lambda name: name in (STEPS, TOPK, DRAFT_TOKENS) or name.startswith("speculative_ngram_")
    chain = _is_chain(asked)
    return lambda name: name.startswith("speculative_ngram_") or (name == DRAFT_TOKENS and chain)


def derived_draft_tokens(asked: Mapping[str, object]) -> int | None:
    """At topk 1 the server uses steps + 1 whatever is asked, so that is what is asked. None where it is free."""
    steps = _whole(asked.get(STEPS))
    return steps + 1 if _is_chain(asked) and steps is not None else None


def problems(asked: Mapping[str, object], release: Release) -> list[str]:
    """Why the speculative arguments cannot go together. `asked` holds fixed and chosen ones, names underscored."""
    chosen = algorithm(asked)
    found: list[str] = []
    since = _SINCE.get(chosen or "")
    if since is not None and release < since:
        found.append(f"{ALGORITHM} {chosen} exists since sglang {'.'.join(map(str, since))}")
    if chosen not in _TREE:
        return found
    return found + _tree_problems(asked) + _combination_problems(asked, release)


def _tree_problems(asked: Mapping[str, object]) -> list[str]:
    if asked.get("speculative_adaptive") is True:
        return []  # its candidates bring steps of their own
    steps, topk, draft = (asked.get(name) for name in (STEPS, TOPK, DRAFT_TOKENS))
    if steps is None:
        given = [name for name in (TOPK, DRAFT_TOKENS) if asked.get(name) is not None]
        if not given:
            return []
        return [f"{' and '.join(given)} must come with {STEPS}, or all three be left to the server"]
    if topk is None:
        return [f"{STEPS} must come with {TOPK}: the server compares the missing value with 1, and dies"]
    levels, width = _whole(steps), _whole(topk)
    if levels is None or width is None or levels < 1 or width < 1:
        return [f"{STEPS} and {TOPK} must be whole numbers of at least 1, but got {steps!r} and {topk!r}"]
    if width == 1:
        return []  # draft tokens follow from the steps
    if draft is None:
        return [f"{DRAFT_TOKENS} must be given where {TOPK} is above 1, but {TOPK} is {topk}"]
    tokens, bound = _whole(draft), 1 + width + (levels - 1) * width**2
    if tokens is None or not 2 <= tokens <= bound:
        return [
            f"{DRAFT_TOKENS} must be in 2..{bound} (1 + topk + (steps - 1) x topk², all that the tree can hold) at "
            f"steps {levels} and topk {width}, but got {draft!r}"
        ]
    return []


def _combination_problems(asked: Mapping[str, object], release: Release) -> list[str]:
    topk = _whole(asked.get(TOPK))
    if topk is None or topk <= 1:
        return []
    found = [
        f"{name} trtllm_mha verifies chains only, but {TOPK} is {topk}"
        for name in _BACKENDS
        if asked.get(name) == "trtllm_mha"
    ]
    if asked.get(SPEC_V2) is True and release < _V2_TREES_SINCE:
        found.append(f"{SPEC_V2} takes {TOPK} above 1 since sglang 0.5.13, but {TOPK} is {topk}")
    return found


def _is_chain(asked: Mapping[str, object]) -> bool:
    return algorithm(asked) in _TREE and _whole(asked.get(TOPK)) == 1 and _whole(asked.get(STEPS)) is not None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
