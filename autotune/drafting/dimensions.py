"""What is worth searching, where, and why; and what of a command is of no use there. Tables, no code.

Conditions are expressions over the names of `facts.NAMES`; the first row of a name whose condition holds is taken.
The order is that of the file that is written, hence of the greedy pass: what moves most comes first. `source` says
where the reason can be looked up: SGLang's own files, NCCL's, or a public thread.
"""

from __future__ import annotations

from dataclasses import dataclass

from autotune.domain.configuration import Value

_TREES = "algorithm in [EAGLE, EAGLE3, NEXTN, STANDALONE]"
_DRAFTING = "speculative_algorithm != unset"
_SPEC = "sglang speculative hook"


@dataclass(frozen=True)
class Dimension:
    """`name` is a knob or a variable, `why` one line. The command's own value is added to `values`, unless `own` is
    False. `absent`: what a command that does not speak of it has. `when` becomes the parameter's condition. `least`:
    only values of at least the largest concurrency level."""

    name: str
    values: tuple[Value, ...]
    why: str
    source: str
    condition: str = "true"
    when: str = ""
    env: bool = False
    own: bool = True
    absent: Value = None
    least: bool = False


@dataclass(frozen=True)
class Unfit:
    """A flag (with dashes) or variable that is left out where the condition holds."""

    name: str
    why: str
    source: str
    condition: str = "true"


DIMENSIONS = (
    Dimension(
        "speculative_algorithm", (None,), "Whether the draft pays at all; it often does at low concurrency only.",
        "sgl-project/sglang issues 4759 and 6949", "algorithm != unset",
    ),
    Dimension(
        "speculative_algorithm", (None, "NGRAM"),
        "NGRAM drafts from the text itself and needs no draft model; pays where answers repeat their prompt.",
        _SPEC, "algorithm == unset and not (dp_attention == true)",
    ),
    Dimension(
        "speculative_num_steps", (1, 2, 3, 5), "A longer chain wins more in one pass and wastes more in a full batch.",
        "sgl-project/sglang issue 6949", _TREES, _DRAFTING,
    ),
    Dimension(
        "speculative_eagle_topk", (1,), "A tree needs page size 1 with this backend, so the draft is a chain.",
        _SPEC, f"{_TREES} and page > 1 and not (own_backend in [flashinfer, fa3])", _DRAFTING,
    ),
    Dimension(
        "speculative_eagle_topk", (1, 2, 4), "Above 1 the draft is a tree: better acceptance, more tokens to verify.",
        _SPEC, _TREES, _DRAFTING,
    ),
    Dimension(
        "speculative_num_draft_tokens", (4, 8, 16), "How much of the tree is verified; a chain verifies steps + 1.",
        "sglang speculative/eagle_utils.py", _TREES, "speculative_eagle_topk > 1",
    ),
    Dimension(
        "speculative_num_draft_tokens", (4, 8, 16), "How many tokens one pass verifies.", _SPEC,
        "algorithm == unset or algorithm == NGRAM", "speculative_algorithm == NGRAM",
    ),
    Dimension(
        "spec_v2", (True, False), "Overlap of draft and verification; how it is switched differs by version.",
        "sglang environ.py to 0.5.12, --disable-overlap-schedule from 0.5.13", _TREES, _DRAFTING,
    ),
    Dimension(
        "spec_v2", (True, False), "Overlap of the scheduler with the GPU under speculation.",
        _SPEC, "(algorithm == unset or algorithm == NGRAM) and release >= 514", _DRAFTING,
    ),
    Dimension(
        "speculative_adaptive", (False, True), "The server changes the number of steps with the batch; chains only.",
        "sglang speculative/adaptive_spec_params.py",
        "algorithm in [EAGLE, EAGLE3] and release >= 511 and not (dp_attention == true)",
        "speculative_eagle_topk == 1 and speculative_num_steps in [1, 3, 5]", absent=False,
    ),
    Dimension(
        "pcie_ipc_allreduce", (False, True), "An all-reduce made for PCIe; what it carries, NCCL does not.",
        "sglang distributed/device_communicators/pcie_ipc_ar.py",
        "release >= 521 and link == pcie and tp in [2, 4, 8] and sm >= 90", absent=False,
    ),
    Dimension(
        "NCCL_PROTO", (None, "LL", "Simple"),
        "All-reduce is most of a small step over PCIe. LL128 is left out: it can corrupt data there.",
        "NCCL src/graph/tuning.cc", "tp > 1 and link == pcie", env=True, own=False,
    ),
    Dimension(
        "NCCL_PROTO", (None, "LL", "Simple"), "Decode's all-reduces are small, and the protocol decides their latency.",
        "NCCL src/graph/tuning.cc", "tp > 1 and link == unset", env=True, own=False,
    ),
    Dimension(
        "NCCL_ALGO", (None, "allreduce:ring", "allreduce:tree"),
        "With `allreduce:`, since a plain `tree` is asked of AllGather too, which has none, and the start fails.",
        "NCCL src/enqueue.cc", "tp > 1 and (link == pcie or link == unset)", env=True, own=False,
    ),
    Dimension(
        "NCCL_P2P_LEVEL", (None, "PHB", "SYS"), "Cards on root ports reach each other directly only from PHB on.",
        "NCCL src/graph/paths.cc", "tp > 1 and (link == pcie or link == unset)", env=True, own=False,
    ),
    Dimension(
        "custom_all_reduce", (True, False), "SGLang's own all-reduce against NCCL's on two cards over PCIe.",
        "sglang custom_all_reduce_utils.py", "tp == 2 and link == pcie", absent=True,
    ),
    Dimension(
        "custom_all_reduce", (True, False), "SGLang's own all-reduce against NCCL's.",
        "sglang custom_all_reduce_utils.py", "tp in [2, 4, 6, 8] and (link == nvlink or link == nvswitch)", absent=True,
    ),
    Dimension(
        "allreduce_fusion", (False, True), "All-reduce and norm in one kernel; sm90 and sm100 only.",
        "sglang layers/flashinfer_comm_fusion.py",
        "tp > 1 and sm in [90, 100, 103] and (link == nvlink or link == nvswitch)",
    ),
    Dimension(
        "symm_mem", (False, True), "NCCL's symmetric memory; takes 4 GB of each card.",
        "sglang entrypoints/engine.py", "tp > 1 and sm in [90, 100, 103] and link == nvswitch", absent=False,
    ),
    Dimension(
        "attention_backend", ("fa3", "flashinfer", "triton"), "What sm90 has; fa3 is what SGLang picks itself.",
        "sglang attention_registry.py", "sm == 90 and not (split_attention == true)",
    ),
    Dimension(
        "attention_backend", ("flashinfer", "triton", "trtllm_mha"),
        "What sm100 has for models without MLA; trtllm_mha verifies chains only and changes the page size.",
        "sglang attention_registry.py", "sm in [100, 103] and not (split_attention == true)",
    ),
    Dimension(
        "attention_backend", ("flashinfer", "triton"),
        "Both exist there and verify trees; left to itself, SGLang has picked backends that this card lacks.",
        "sgl-project/sglang issues 12178 and 24633", "sm >= 120 and not (split_attention == true)",
    ),
    Dimension(
        "attention_backend", ("flashinfer", "triton"), "The two that every NVIDIA generation has.",
        "sglang attention_registry.py", "not (split_attention == true)",
    ),
    Dimension(
        "cuda_graph_max_bs", (64, 128, 256, 512),
        "Batches above it run without a graph, and large graphs take memory from the KV cache.",
        "sgl-project/sglang issue 33483", "not (graphs == false)", least=True,
    ),
    Dimension(
        "ep_size", (1,), "Experts whole on one card each, or every expert cut over all cards.",
        "sglang layers/moe", "moe == true and tp > 1", absent=1,
    ),
    Dimension(
        "fp8_gemm_backend", ("auto", "cutlass", "triton"), "Three kernels for FP8 on sm120; auto is cutlass in 0.5.23.",
        "sglang layers/quantization/fp8_utils.py", "sm >= 120 and quantization == fp8",
    ),
)  # fmt: skip

UNFIT = (
    Unfit("--num-continuous-decode-steps", "SGLang accepts it and reads it nowhere", "sglang, every version here"),
    Unfit(
        "--triton-attention-reduce-in-fp32", "SGLang accepts it and reads it nowhere since 0.5.14",
        "sglang, 0.5.14 to 0.5.23", "release >= 514",
    ),
    Unfit(
        "--enable-flashinfer-allreduce-fusion", "does nothing on sm120, where 0.5.23 even refuses to start with it",
        "sglang layers/flashinfer_comm_fusion.py", "sm >= 120",
    ),
    Unfit(
        "SGLANG_ENABLE_SPEC_V2", "does nothing since 0.5.14; --disable-overlap-schedule took its place",
        "sglang speculative hook", "release >= 514",
    ),
    Unfit("CUDA_DEVICE_MAX_CONNECTIONS", "SGLang always overwrites it with 8", "sglang entrypoints/engine.py"),
    Unfit("SGLANG_SIMULATE_ACC_LEN", "fakes the acceptance of drafts", "sglang environ.py"),
    Unfit("SGLANG_SIMULATE_ACC_METHOD", "fakes the acceptance of drafts", "sglang environ.py"),
    Unfit("SGLANG_SIMULATE_ACC_TOKEN_MODE", "fakes the acceptance of drafts", "sglang environ.py"),
)  # fmt: skip

HINTS = (
    Unfit(
        "speculative_algorithm: [unset, EAGLE3]",
        "with a draft model for this target: its path under engine.args.speculative-draft-model-path, then this here",
        _SPEC, "algorithm == unset",
    ),
    Unfit("ep_size: [1, 8]", "for a model with experts: whole experts on each card", "sglang layers/moe",
          "not (moe == true) and tp == 8"),
    Unfit("attention_backend: [trtllm_mha, fa4]", "experimental on sm120; compare the answers",
          "sglang attention_registry.py", "sm >= 120 and release >= 523"),
)  # fmt: skip
"""Lines that are written as comments, for the owner to switch on."""
