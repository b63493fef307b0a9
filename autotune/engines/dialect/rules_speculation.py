"""What speculative arguments cannot be together. Sources are files of the named SGLang release, or public threads."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.engines.dialect.figures import is_on, whole
from autotune.engines.dialect.flag_table import Release
from autotune.engines.dialect.rules import Rule, Site
from autotune.engines.dialect.speculation import (
    ALGORITHM,
    DRAFT_TOKENS,
    SPEC_V2,
    STEPS,
    TOPK,
    TREES,
    algorithm,
    is_tree,
)

_SINCE: dict[str, Release] = {"DFLASH": (0, 5, 11), "DSPARK": (0, 5, 16), "UNO": (0, 5, 20)}
"""Algorithms that older versions do not have. A name that is not known here may be a plugin's."""

_ADAPTIVE = "speculative_adaptive"
_ADAPTIVE_CONFIG = "speculative_adaptive_config"
_ADAPTIVE_STEPS = (0, 1, 3, 5, 7)
_BACKENDS = ("attention_backend", "prefill_attention_backend", "decode_attention_backend")
_BREADTH = "speculative_ngram_max_bfs_breadth"
_DEFAULT_BREADTH = 10
_DP = ("enable_dp_attention", "attn_dp_size")


def _algorithm_version(asked: Mapping[str, object], site: Site) -> str | None:
    chosen = algorithm(asked)
    since = _SINCE.get(chosen or "")
    if since is None or site.release >= since:
        return None
    return f"{ALGORITHM} {chosen} exists since sglang {'.'.join(map(str, since))}; nearest there: EAGLE3 or NGRAM"


def _tree_complete(asked: Mapping[str, object], site: Site) -> str | None:
    if algorithm(asked) not in TREES or is_on(asked[_ADAPTIVE]):
        return None  # an adaptive draft's candidates bring steps of their own
    steps, topk, draft = (asked[name] for name in (STEPS, TOPK, DRAFT_TOKENS))
    if steps is None:
        given = [name for name in (TOPK, DRAFT_TOKENS) if asked[name] is not None]
        return f"{' and '.join(given)} must come with {STEPS}, or all three be left to the server" if given else None
    if topk is None:
        return f"{STEPS} must come with {TOPK}: the server compares the missing value with 1, and dies"
    levels, width = whole(steps), whole(topk)
    if levels is None or width is None or levels < 1 or width < 1:
        return f"{STEPS} and {TOPK} must be whole numbers of at least 1, but got {steps!r} and {topk!r}"
    if width > 1 and draft is None:
        return f"{DRAFT_TOKENS} must be given where {TOPK} is above 1, but {TOPK} is {topk}"
    return None


def _draft_tree(asked: Mapping[str, object], site: Site) -> str | None:
    levels, width, draft = whole(asked[STEPS]), whole(asked[TOPK]), asked[DRAFT_TOKENS]
    if not is_tree(asked) or is_on(asked[_ADAPTIVE]) or draft is None or width is None or not levels or levels < 1:
        return None
    tokens, bound = whole(draft), 1 + width + (levels - 1) * width**2
    if tokens is not None and 2 <= tokens <= bound:
        return None
    return (
        f"{DRAFT_TOKENS} must be in 2..{bound} (1 + topk + (steps - 1) x topk², all that the tree can hold) at "
        f"steps {levels} and topk {width}, but got {draft!r}"
    )


def _few_draft_tokens(asked: Mapping[str, object], site: Site) -> str | None:
    tokens = whole(asked[DRAFT_TOKENS])
    if algorithm(asked) != "NGRAM" or tokens is None or tokens >= 2:
        return None
    return f"{DRAFT_TOKENS} must be at least 2, the last accepted token and one draft, but got {tokens}"


def _trtllm_mha_chain(asked: Mapping[str, object], site: Site) -> str | None:
    named = [name for name in _BACKENDS if asked[name] == "trtllm_mha"]
    if not named or not is_tree(asked):
        return None
    return f"{named[0]} trtllm_mha verifies chains only, but {TOPK} is {asked[TOPK]}"


def _spec_v2_tree(asked: Mapping[str, object], site: Site) -> str | None:
    if asked[SPEC_V2] is not True or not is_tree(asked):
        return None
    return f"{SPEC_V2} takes {TOPK} above 1 since sglang 0.5.13, but {TOPK} is {asked[TOPK]}"


def _adaptive_chain(asked: Mapping[str, object], site: Site) -> str | None:
    if not is_on(asked[_ADAPTIVE]) or algorithm(asked) is None:
        return None
    if algorithm(asked) not in ("EAGLE", "EAGLE3", "NEXTN"):
        return (
            f"{_ADAPTIVE} works with EAGLE and EAGLE3 only, but {ALGORITHM} is {asked[ALGORITHM]}: it would be static"
        )
    if is_tree(asked):
        return f"{_ADAPTIVE} takes chains only, but {TOPK} is {asked[TOPK]}: the server would run static"
    if is_on(asked["enable_dp_attention"]) or (whole(asked["attn_dp_size"]) or 1) > 1:
        return f"{_ADAPTIVE} does not go with attention data parallelism: the server would run static"
    return None


def _adaptive_steps(asked: Mapping[str, object], site: Site) -> str | None:
    steps = whole(asked[STEPS])
    if not is_on(asked[_ADAPTIVE]) or asked[_ADAPTIVE_CONFIG] is not None or algorithm(asked) is None or steps is None:
        return None
    if steps in _ADAPTIVE_STEPS:
        return None
    return (
        f"{STEPS} must be one of the candidates 1, 3, 5, 7 where {_ADAPTIVE} has no config of its own, but got {steps}"
    )


def _tree_pages(asked: Mapping[str, object], site: Site) -> str | None:
    page, backend = whole(asked["page_size"]), asked["attention_backend"]
    if not is_tree(asked) or page is None or page <= 1 or backend is None:
        return None
    allowed = ("flashinfer", "fa3") if site.release < (0, 5, 10) else ("flashinfer", "fa3", "triton")
    if backend in allowed:
        return None
    return (
        f"{TOPK} above 1 with page_size above 1 works with {', '.join(allowed)} only, but got topk {asked[TOPK]}, "
        f"page_size {page} and attention_backend {backend}"
    )


def _ngram_pages(asked: Mapping[str, object], site: Site) -> str | None:
    page, backend = whole(asked["page_size"]), asked["attention_backend"]
    breadth = whole(asked[_BREADTH])
    breadth = _DEFAULT_BREADTH if breadth is None else breadth
    if algorithm(asked) != "NGRAM" or page is None or page <= 1 or breadth <= 1 or backend in (None, "flashinfer"):
        return None
    return f"NGRAM with page_size {page} works with attention_backend flashinfer only, but got {backend}"


def _flex(asked: Mapping[str, object], site: Site) -> str | None:
    if algorithm(asked) is None or asked["attention_backend"] not in ("flex_attention", "hpc_ops"):
        return None
    return f"attention_backend {asked['attention_backend']} cannot verify drafts, but {ALGORITHM} is {asked[ALGORITHM]}"


def _dp_attention(asked: Mapping[str, object], site: Site) -> str | None:
    if algorithm(asked) not in ("STANDALONE", "NGRAM"):
        return None
    if not is_on(asked["enable_dp_attention"]) and (whole(asked["attn_dp_size"]) or 1) <= 1:
        return None
    return f"{ALGORITHM} {asked[ALGORITHM]} does not go with attention data parallelism"


def _rejection_sampling(asked: Mapping[str, object], site: Site) -> str | None:
    if not is_on(asked["speculative_use_rejection_sampling"]) or algorithm(asked) is None:
        return None
    if algorithm(asked) in ("EAGLE", "EAGLE3", "NEXTN") and not is_tree(asked):
        return None
    return f"speculative_use_rejection_sampling takes EAGLE chains only, but got {asked[ALGORITHM]}, topk {asked[TOPK]}"


_TREE_READS = (ALGORITHM, STEPS, TOPK, DRAFT_TOKENS, _ADAPTIVE)

RULES = (
    Rule(
        "algorithm-version",
        "the algorithm exists on this version",
        "sglang 0.5.23 speculative/spec_info.py:32-65",
        (ALGORITHM,),
        _algorithm_version,
    ),
    Rule(
        "tree-complete",
        "steps, topk and draft tokens are given together, or none of them",
        "sglang 0.5.9 server_args.py:2422-2453; 0.5.23 arg_groups/speculative_hook.py:1159-1177",
        _TREE_READS,
        _tree_complete,
    ),
    Rule(
        "draft-tree",
        "2 <= draft tokens <= 1 + topk + (steps - 1) x topk²: a tree holds no more",
        "sglang 0.5.23 speculative/eagle_utils.py:100-113",
        _TREE_READS,
        _draft_tree,
    ),
    Rule(
        "few-draft-tokens",
        "NGRAM needs at least 2 draft tokens",
        "sglang 0.5.23 speculative/ngram_worker.py",
        (ALGORITHM, DRAFT_TOKENS),
        _few_draft_tokens,
    ),
    Rule(
        "trtllm-mha-chain",
        "trtllm_mha verifies chains only: topk 1",
        "sglang 0.5.9 server_args.py:2438; 0.5.23 arg_groups/speculative_hook.py:1176",
        (ALGORITHM, TOPK, *_BACKENDS),
        _trtllm_mha_chain,
    ),
    Rule(
        "spec-v2-tree",
        "before 0.5.13 the overlapped worker takes topk 1 only",
        "sglang 0.5.9 server_args.py:2368-2389; 0.5.11 server_args.py:3460-3483; sgl-project/sglang#13352",
        (ALGORITHM, TOPK, SPEC_V2),
        _spec_v2_tree,
        until=(0, 5, 12),
        about=(SPEC_V2,),
    ),
    Rule(
        "adaptive-chain",
        "adaptive speculation takes EAGLE or EAGLE3 at topk 1 without attention data parallelism",
        "sglang 0.5.23 speculative/adaptive_spec_params.py:55-100",
        (ALGORITHM, TOPK, _ADAPTIVE, *_DP),
        _adaptive_chain,
        since=(0, 5, 11),
        about=(_ADAPTIVE,),
    ),
    Rule(
        "adaptive-steps",
        "adaptive speculation starts from one of its candidates: 1, 3, 5, 7 by default",
        "sglang 0.5.23 speculative/adaptive_spec_params.py:28-52",
        (ALGORITHM, STEPS, _ADAPTIVE, _ADAPTIVE_CONFIG),
        _adaptive_steps,
        since=(0, 5, 23),
        about=(_ADAPTIVE,),
    ),
    Rule(
        "tree-pages",
        "topk above 1 with pages above 1 works with flashinfer, fa3 and, on newer versions, triton",
        "sglang 0.5.9 server_args.py:2452; 0.5.14 arg_groups/speculative_hook.py:395; 0.5.23 speculative_hook.py:1271",
        (ALGORITHM, TOPK, "page_size", "attention_backend"),
        _tree_pages,
        about=("page_size",),
    ),
    Rule(
        "ngram-pages",
        "NGRAM with pages above 1 works with flashinfer only",
        "sglang 0.5.9 server_args.py:2485; 0.5.23 arg_groups/speculative_hook.py:1356",
        (ALGORITHM, _BREADTH, "page_size", "attention_backend"),
        _ngram_pages,
        about=("page_size",),
    ),
    Rule(
        "backend-verifies",
        "flex_attention and hpc_ops cannot verify drafts",
        "sglang 0.5.23 arg_groups/attention_hook.py:161",
        (ALGORITHM, "attention_backend"),
        _flex,
    ),
    Rule(
        "drafts-dp-attention",
        "STANDALONE and NGRAM do not go with attention data parallelism",
        "sglang 0.5.23 arg_groups/speculative_hook.py:1281-1300",
        (ALGORITHM, *_DP),
        _dp_attention,
        about=_DP,
    ),
    Rule(
        "rejection-sampling",
        "rejection sampling takes EAGLE chains only",
        "sglang 0.5.14 arg_groups/speculative_hook.py",
        (ALGORITHM, TOPK, "speculative_use_rejection_sampling"),
        _rejection_sampling,
        since=(0, 5, 14),
        about=("speculative_use_rejection_sampling",),
    ),
)
