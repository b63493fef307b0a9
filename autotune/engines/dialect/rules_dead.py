"""What SGLang accepts and does not read. An effect that a search reports for it is noise."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.engines.dialect.flag_table import Release
from autotune.engines.dialect.rules import Check, Rule, Site

_EVER: Release = (9999,)


def _unread(name: str, why: str) -> Check:
    def check(asked: Mapping[str, object], site: Site) -> str | None:
        return f"{name} may not be searched: {why}" if site.chose(name, asked) else None

    return check


def _dead(rule: str, name: str, why: str, source: str, since: Release = (0,), until: Release = _EVER) -> Rule:
    return Rule(rule, f"{name}: {why}", source, (name,), _unread(name, why), since, until)


def _simulated(asked: Mapping[str, object], site: Site) -> str | None:
    for name in _SIMULATE:
        if asked[name] is not None:
            return f"{name} makes up the acceptance of drafts: no figure of such a trial is real"
    return None


_SIMULATE = ("SGLANG_SIMULATE_ACC_LEN", "SGLANG_SIMULATE_ACC_METHOD", "SGLANG_SIMULATE_ACC_TOKEN_MODE")

RULES = (
    _dead(
        "dead-decode-steps",
        "num_continuous_decode_steps",
        "no version reads it",
        "sglang 0.5.9, 0.5.14 and 0.5.23: no use outside its definition",
    ),
    _dead(
        "dead-triton-reduce",
        "triton_attention_reduce_in_fp32",
        "only double sparsity of 0.5.9 reads it",
        "sglang 0.5.14 and 0.5.23: no use outside its definition",
        (0, 5, 14),
    ),
    _dead(
        "dead-spec-trace",
        "spec_trace_dir",
        "this version does not read it",
        "sglang 0.5.23: no use outside its definition",
        (0, 5, 23),
    ),
    _dead(
        "overwritten-connections",
        "CUDA_DEVICE_MAX_CONNECTIONS",
        "the server overwrites it with 8",
        "sglang entrypoints/engine.py 0.5.9:806-830, 0.5.14:1237-1260, 0.5.23:1878-1937",
    ),
    _dead(
        "overwritten-module-loading",
        "CUDA_MODULE_LOADING",
        "the server overwrites it with AUTO",
        "sglang entrypoints/engine.py 0.5.9:806-830, 0.5.14:1237-1260",
        until=(0, 5, 14),
    ),
    _dead(
        "dead-spec-v2-variable",
        "SGLANG_ENABLE_SPEC_V2",
        "the variable is gone since 0.5.14, and 0.5.21 ignores it without a word; write spec_v2, which becomes the "
        "overlap flag",
        "sglang 0.5.14 arg_groups/speculative_hook.py:67-74; no match in the 0.5.23 tree",
        (0, 5, 14),
    ),
)

REMARKS = (
    Rule(
        "simulated-acceptance",
        "SGLANG_SIMULATE_ACC_* makes up the acceptance of drafts",
        "sglang 0.5.23 environ.py:527",
        _SIMULATE,
        _simulated,
        refuses=False,
    ),
)
