"""The load against the server's ceilings: a level that is above a ceiling measures the ceiling."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.engines.dialect.figures import is_on, whole, whole_list
from autotune.engines.dialect.rules import Rule, Site
from autotune.engines.dialect.speculation import ALGORITHM, algorithm

_SPECULATIVE_CAP = 48
_CEILING, _SIZES, _CAP = "cuda_graph_max_bs", "cuda_graph_bs", "max_running_requests"
_NO_GRAPHS = ("disable_cuda_graph", "disable_decode_cuda_graph")
_GRAPHLESS = ("torch_native", "flex_attention")

_MARGIN = 1.25
"""76 requests in the batch were seen at 64 in flight (SGLang 0.5.15)."""

_CEILING_READS = (
    *(_CEILING, _SIZES, "device", "attention_backend", "dp_size", "attn_dp_size"),
    *("cuda_graph_backend_decode", *_NO_GRAPHS),
)


def _replicas(asked: Mapping[str, object]) -> int:
    """Schedulers that share the load: graphs and batches are counted for each."""
    return max(whole(asked["dp_size"]) or 1, whole(asked["attn_dp_size"]) or 1)


def _asked_ceiling(asked: Mapping[str, object]) -> tuple[str, int] | None:
    """The argument that sets how large a batch decodes from a graph, and the size; None where none is asked for."""
    sizes = whole_list(asked[_SIZES]) if asked[_SIZES] is not None else ()
    ceiling = max(sizes) if sizes else whole(asked[_CEILING])
    if ceiling is None or asked["device"] == "cpu":
        return None
    if any(is_on(asked[name]) for name in _NO_GRAPHS) or asked["attention_backend"] in _GRAPHLESS:
        return None
    if asked["cuda_graph_backend_decode"] == "disabled":
        return None
    return _SIZES if sizes else _CEILING, ceiling


def _graph_ceiling(asked: Mapping[str, object], site: Site) -> str | None:
    found = _asked_ceiling(asked)
    if found is None or site.largest_level is None:
        return None
    (name, ceiling), replicas = found, _replicas(asked)
    if ceiling * replicas >= site.largest_level:
        return None
    shared = f" on each of {replicas} replicas" if replicas > 1 else ""
    return (
        f"{name} must reach the largest concurrency level, but {ceiling}{shared} < {site.largest_level}: batches "
        f"above {ceiling} run without a graph, and a server that is behind stays behind"
    )


def _graph_margin(asked: Mapping[str, object], site: Site) -> str | None:
    found = _asked_ceiling(asked)
    if found is None or site.largest_level is None:
        return None
    (name, ceiling), level = found, site.largest_level
    if not level <= ceiling * _replicas(asked) < _MARGIN * level:
        return None
    return (
        f"{name} should lie well above the largest concurrency level, but {ceiling} < {_MARGIN:g} x {level}: a "
        "scheduler that runs ahead keeps finished requests in the batch, which then decodes without a graph"
    )


def _request_cap(asked: Mapping[str, object], site: Site) -> str | None:
    cap, level = whole(asked[_CAP]), site.largest_level
    if cap is None or level is None or cap >= level:
        return None
    return (
        f"{_CAP} must be at least the largest concurrency level, but {cap} < {level}: the other {level - cap} requests "
        "would wait in the queue, and the level would measure the cap"
    )


def _request_cap_given(asked: Mapping[str, object], site: Site) -> str | None:
    level = site.largest_level
    if algorithm(asked) is None or asked[_CAP] is not None or level is None or level <= _SPECULATIVE_CAP:
        return None
    return (
        f"{_CAP} must be given, at least {level}: speculation lowers it to {_SPECULATIVE_CAP} where it is not, and the "
        f"largest concurrency level is {level}"
    )


def _chunk_pages(asked: Mapping[str, object], site: Site) -> str | None:
    chunk, page = whole(asked["chunked_prefill_size"]), whole(asked["page_size"])
    if chunk is None or page is None or chunk <= 0 or page <= 0 or chunk % page == 0:
        return None
    return (
        f"chunked_prefill_size must be a multiple of page_size, but {chunk} = {chunk // page} x {page} + {chunk % page}"
    )


def _memory_share(asked: Mapping[str, object], site: Site) -> str | None:
    share = asked["mem_fraction_static"]
    if not isinstance(share, int | float) or isinstance(share, bool) or 0 <= share <= 1:
        return None
    return f"mem_fraction_static must be between 0 and 1, but got {share}"


RULES = (
    Rule(
        "graph-ceiling",
        "the decode graphs reach the largest concurrency level",
        "sglang 0.5.23 model_executor/runner/decode_cuda_graph_runner.py:845-891; sgl-project/sglang#33483",
        _CEILING_READS,
        _graph_ceiling,
        about=(_CEILING, _SIZES),
        bearable=True,
    ),
    Rule(
        "graph-margin",
        "the decode graphs reach a quarter beyond the largest concurrency level",
        "docs/studies/h200.md: 0.5.15 decoded at 37 and 50 % of the speed with graphs that ended at the level",
        _CEILING_READS,
        _graph_margin,
        about=(_CEILING, _SIZES),
        refuses=False,
    ),
    Rule(
        "request-cap",
        "max_running_requests reaches the largest concurrency level",
        "sglang 0.5.23 mem_cache/kv_cache_configurator.py:3119-3172",
        (_CAP,),
        _request_cap,
    ),
    Rule(
        "request-cap-given",
        "max_running_requests is given where drafts are verified and a level is above 48",
        "sglang 0.5.9 server_args.py:2362; 0.5.23 arg_groups/speculative_hook.py:438; sgl-project/sglang#34290",
        (ALGORITHM, _CAP),
        _request_cap_given,
    ),
    Rule(
        "chunk-pages",
        "chunked_prefill_size is a multiple of page_size",
        "sglang 0.5.23 arg_groups/validation_hook.py:243",
        ("chunked_prefill_size", "page_size"),
        _chunk_pages,
        about=("page_size",),
    ),
    Rule(
        "memory-share",
        "mem_fraction_static is a share of the GPU's memory",
        "sglang 0.5.23 arg_groups/memory_hook.py:89-188",
        ("mem_fraction_static",),
        _memory_share,
    ),
)
