"""From a name of the space file to the flag or the variable that carries it on a given version.

A name in UPPER_CASE is an environment variable. A name in the table of knobs is a concept whose carrier changed from
version to version, or whose flag says the opposite. Any other name is SGLang's own flag with underscores for dashes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from autotune.engines.dialect.flag_table import Flag, Release

_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
_EVER: Release = (9999,)


@dataclass(frozen=True)
class Knob:
    """What carries `name` on the releases since..until, both included: a flag, or a variable.

    `negated`: the flag switches the concept off. `words`: how a variable spells true and false. `on`: the word that
    true is written as. `off`: the switch that false is written as. `lacking`: why there is no such thing on these
    releases, and what comes nearest there.
    """

    name: str
    flag: str = ""
    variable: str = ""
    since: Release = (0,)
    until: Release = _EVER
    negated: bool = False
    words: tuple[str, str] = ("1", "0")
    on: str = ""
    off: str = ""
    lacking: str = ""


_FUSION, _NO_FUSION = "--enable-flashinfer-allreduce-fusion", "--enforce-disable-flashinfer-allreduce-fusion"

_NO_PCIE_IPC = "the PCIe-IPC all-reduce exists since 0.5.21; nearest: custom_all_reduce, or NCCL_PROTO and NCCL_ALGO"

KNOBS = (
    Knob("spec_v2", variable="SGLANG_ENABLE_SPEC_V2", until=(0, 5, 12), words=("True", "False")),
    Knob("spec_v2", flag="--disable-overlap-schedule", since=(0, 5, 13), negated=True),
    Knob("overlap_schedule", flag="--disable-overlap-schedule", negated=True),
    Knob("cuda_graph_max_bs", flag="--cuda-graph-max-bs", until=(0, 5, 13)),
    Knob("cuda_graph_max_bs", flag="--cuda-graph-max-bs-decode", since=(0, 5, 14)),
    Knob("cuda_graph_max_bs_decode", flag="--cuda-graph-max-bs", until=(0, 5, 13)),
    Knob("cuda_graph_bs", flag="--cuda-graph-bs", until=(0, 5, 13)),
    Knob("cuda_graph_bs", flag="--cuda-graph-bs-decode", since=(0, 5, 14)),
    Knob("cuda_graph_bs_decode", flag="--cuda-graph-bs", until=(0, 5, 13)),
    Knob("prefill_cuda_graph", flag="--enable-piecewise-cuda-graph", until=(0, 5, 9)),
    Knob("prefill_cuda_graph", flag="--disable-piecewise-cuda-graph", since=(0, 5, 10), until=(0, 5, 13), negated=True),
    Knob("prefill_cuda_graph", flag="--disable-prefill-cuda-graph", since=(0, 5, 14), negated=True),
    Knob("custom_all_reduce", flag="--disable-custom-all-reduce", negated=True),
    Knob("allreduce_fusion", flag=_FUSION, until=(0, 5, 9)),
    Knob("allreduce_fusion", flag=_FUSION, since=(0, 5, 10), until=(0, 5, 13), off=_NO_FUSION),
    Knob("allreduce_fusion", flag="--flashinfer-allreduce-fusion-backend", since=(0, 5, 14), on="auto", off=_NO_FUSION),
    Knob("symm_mem", flag="--enable-symm-mem"),
    Knob("torch_symm_mem", flag="--enable-torch-symm-mem"),
    Knob("nccl_nvls", flag="--enable-nccl-nvls"),
    Knob("mscclpp", flag="--enable-mscclpp"),
    Knob(
        "pcie_ipc_allreduce",
        until=(0, 5, 20),
        lacking=_NO_PCIE_IPC,
    ),
    Knob("pcie_ipc_allreduce", variable="SGLANG_ENABLE_PCIE_IPC_ALLREDUCE", since=(0, 5, 21)),
    Knob("radix_cache", flag="--disable-radix-cache", negated=True),
    Knob("mixed_chunk", flag="--enable-mixed-chunk"),
    Knob("mamba_radix_cache_strategy", flag="--mamba-scheduler-strategy", until=(0, 5, 13)),
    Knob("mamba_scheduler_strategy", flag="--mamba-radix-cache-strategy", since=(0, 5, 20)),
    Knob("nsa_prefill_backend", flag="--dsa-prefill-backend", since=(0, 5, 20)),
    Knob("nsa_decode_backend", flag="--dsa-decode-backend", since=(0, 5, 20)),
    Knob("speculative_ngram_max_trie_depth", flag="--speculative-ngram-branch-length", until=(0, 5, 9)),
    Knob("speculative_ngram_branch_length", flag="--speculative-ngram-max-trie-depth", since=(0, 5, 10)),
)
"""One row for each name and range of releases."""

_YOUNG: Mapping[str, tuple[Release, str]] = MappingProxyType(
    {"SGLANG_ENABLE_PCIE_IPC_ALLREDUCE": ((0, 5, 21), _NO_PCIE_IPC)}
)
"""Variables that older versions pass over without a word."""

KNOB_NAMES = tuple(sorted({knob.name for knob in KNOBS}))

NEAREST: Mapping[str, str] = MappingProxyType(
    {
        "speculative_adaptive": "search speculative_num_steps instead",
        "speculative_adaptive_config": "search speculative_num_steps instead",
        "speculative_draft_window_size": "the draft's own context there is the target's",
        "speculative_draft_kv_cache_dtype": "kv_cache_dtype is the draft's too",
        "bf16_gemm_backend": "fp8_gemm_backend and fp4_gemm_backend are chosen there",
        "piecewise_cuda_graph_max_tokens": "cuda_graph_max_bs_prefill",
        "piecewise_cuda_graph_tokens": "cuda_graph_bs_prefill",
        "cuda_graph_max_bs_prefill": "piecewise_cuda_graph_max_tokens",
        "cuda_graph_bs_prefill": "piecewise_cuda_graph_tokens",
        "attn_dp_size": "enable_dp_attention with dp_size",
        "torchao_config": "quantization",
        "enable_piecewise_cuda_graph": "prefill_cuda_graph",
        "disable_piecewise_cuda_graph": "prefill_cuda_graph",
        "enforce_piecewise_cuda_graph": "prefill_cuda_graph",
        "flashinfer_allreduce_fusion_backend": "allreduce_fusion",
        "enforce_disable_flashinfer_allreduce_fusion": "allreduce_fusion",
    }
)
"""What to do where a version lacks a flag that other versions have."""

_STABLE: Mapping[str, str] = MappingProxyType(
    {
        "tensor_parallel_size": "tp_size",
        "data_parallel_size": "dp_size",
        "expert_parallel_size": "ep_size",
        "pipeline_parallel_size": "pp_size",
        "attention_data_parallel_size": "attn_dp_size",
        "speculative_draft_model": "speculative_draft_model_path",
        "cuda_graph_max_bs_decode": "cuda_graph_max_bs",
        "cuda_graph_bs_decode": "cuda_graph_bs",
        "enable_flashinfer_allreduce_fusion": "allreduce_fusion",
        "flashinfer_allreduce_fusion_backend": "allreduce_fusion",
        "enable_symm_mem": "symm_mem",
        "enable_torch_symm_mem": "torch_symm_mem",
        "enable_nccl_nvls": "nccl_nvls",
        "enable_mscclpp": "mscclpp",
        "enable_mixed_chunk": "mixed_chunk",
        "SGLANG_ENABLE_PCIE_IPC_ALLREDUCE": "pcie_ipc_allreduce",
        "dsa_prefill_backend": "nsa_prefill_backend",
        "dsa_decode_backend": "nsa_decode_backend",
    }
)
_OPPOSITE: Mapping[str, str] = MappingProxyType(
    {
        "disable_custom_all_reduce": "custom_all_reduce",
        "disable_overlap_schedule": "overlap_schedule",
        "disable_radix_cache": "radix_cache",
        "enforce_disable_flashinfer_allreduce_fusion": "allreduce_fusion",
    }
)


def stable_name(name: str) -> tuple[str, bool]:
    """The name under which rules know the argument `name` (underscored), on every version; and whether `name` says
    the opposite of it."""
    return (_OPPOSITE[name], True) if name in _OPPOSITE else (_STABLE.get(name, name), False)


def is_variable(name: str) -> bool:
    return _VARIABLE.fullmatch(name) is not None


def underscored(name: str) -> str:
    """The name of the space file for a name as engine.args or a command line writes it."""
    return name.removeprefix("--").replace("-", "_")


def carrier(name: str, release: Release) -> Knob:
    """`name` as the space file or engine.args writes it. An unknown name is taken for a flag of its own."""
    if is_variable(name):
        since, lacking = _YOUNG.get(name, ((0,), ""))
        return Knob(name, variable=name) if release[:3] >= since else Knob(name, lacking=lacking)
    name = underscored(name)
    row = next((knob for knob in KNOBS if knob.name == name and knob.since <= release[:3] <= knob.until), None)
    return row or Knob(name, flag="--" + name.replace("_", "-"))


def variable_text(knob: Knob, value: object) -> str | None:
    """None: the variable is not set."""
    if value is None:
        return None
    if isinstance(value, bool):
        return knob.words[0] if value else knob.words[1]
    return _text(value)


def flag_words(knob: Knob, flag: Flag | None, value: object) -> tuple[str, ...]:
    """The words of the command line for `value`; none where the flag is to be left out. `flag` None: not known."""
    if knob.off and value is False:
        return (knob.off,)
    if knob.on and value is True:
        return (knob.flag, knob.on)
    if knob.negated and isinstance(value, bool):
        value = not value
    if value is None:
        return ()
    kind = flag.kind if flag is not None else "switch" if isinstance(value, bool) else "text"
    if kind in ("switch", "toggle") and isinstance(value, bool):
        if value:
            return (knob.flag,)
        return (f"--no-{knob.flag.removeprefix('--')}",) if kind == "toggle" else ()
    if isinstance(value, list | tuple):
        return (knob.flag, *(_text(item) for item in value))
    if kind in ("ints", "floats", "texts") and isinstance(value, str):
        return (knob.flag, *value.split())
    return (knob.flag, _text(value))


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)
