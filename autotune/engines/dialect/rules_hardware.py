"""Which kernels exist for which GPU generation."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from autotune.domain.trial import Hardware
from autotune.engines.dialect.figures import is_on
from autotune.engines.dialect.flag_table import Release
from autotune.engines.dialect.hardware import (
    generation,
    is_consumer_blackwell,
    is_datacentre_blackwell,
    is_hopper,
    is_pcie_only,
)
from autotune.engines.dialect.rules import Check, Rule, Site
from autotune.engines.dialect.speculation import ALGORITHM, algorithm

ATTENTION = (
    "attention_backend",
    "prefill_attention_backend",
    "decode_attention_backend",
    "speculative_draft_attention_backend",
)
_EVER: Release = (9999,)


def _known(hardware: Hardware) -> bool:
    return generation(hardware) is not None


def _consumer_blackwell(hardware: Hardware) -> bool:
    return is_consumer_blackwell(generation(hardware) or 0)


def _only_on(values: tuple[str, ...], names: tuple[str, ...], fits: Callable[[int], bool], where: str) -> Check:
    """Any of `values` for any of `names` needs a generation that `fits`; `where` says which, in words."""

    def check(asked: Mapping[str, object], site: Site) -> str | None:
        number = site.generation
        if number is None or fits(number):
            return None
        for name in names:
            if asked[name] in values:
                return f"{name} {asked[name]} has kernels for {where} only, but the GPU is sm{number}"
        return None

    return check


def _backend(
    rule: str, value: tuple[str, ...], fits: Callable[[int], bool], where: str, source: str, until: Release = _EVER
) -> Rule:
    text = f"attention backend {' and '.join(value)}: {where} only"
    return Rule(rule, text, source, ATTENTION, _only_on(value, ATTENTION, fits, where), until=until, hardware=_known)


def _choice(rule: str, name: str, values: tuple[str, ...], where: str, source: str) -> Rule:
    """Values that consumer Blackwell has no kernels for."""

    def fits(number: int) -> bool:
        return not is_consumer_blackwell(number)

    text = f"{name} {', '.join(values)}: not on sm120"
    return Rule(rule, text, source, (name,), _only_on(values, (name,), fits, where), hardware=_consumer_blackwell)


def _fp8_pages(asked: Mapping[str, object], site: Site) -> str | None:
    prefill = asked["prefill_attention_backend"] or asked["attention_backend"]
    if prefill != "trtllm_mha" or asked["kv_cache_dtype"] != "fp8_e4m3":
        return None
    return f"trtllm_mha prefills no fp8_e4m3 KV cache on sm{site.generation}; use fp8_e5m2 or another prefill backend"


def _hpc_ops(asked: Mapping[str, object], site: Site) -> str | None:
    if "hpc_ops" not in [asked[name] for name in ATTENTION] or site.generation is None or is_hopper(site.generation):
        return None
    return f"attention_backend hpc_ops has kernels for sm90 only, but the GPU is sm{site.generation}"


def _uno(asked: Mapping[str, object], site: Site) -> str | None:
    if algorithm(asked) != "UNO" or site.generation is None or is_hopper(site.generation):
        return None
    return f"{ALGORITHM} UNO runs on fa3, hence on sm90 only, but the GPU is sm{site.generation}"


def _needs(name: str, fits: Callable[[int], bool], where: str) -> Check:
    def check(asked: Mapping[str, object], site: Site) -> str | None:
        number, value = site.generation, asked[name]
        if number is None or fits(number) or value is None or value is False or str(value).lower() in ("0", "false"):
            return None
        return f"{name} works on {where} only, but the GPU is sm{number}: the server refuses it or runs without it"

    return check


def _nvls(asked: Mapping[str, object], site: Site) -> str | None:
    return "nccl_nvls needs an NVSwitch, but the GPUs are linked by PCIe" if is_on(asked["nccl_nvls"]) else None


def _sm90_or_sm10x(number: int) -> bool:
    return is_hopper(number) or is_datacentre_blackwell(number)


RULES = (
    _backend(
        "fa3-architecture",
        ("fa3",),
        lambda number: 80 <= number <= 90,
        "sm80 to sm90",
        "sglang layers/attention/attention_registry.py 0.5.9:133, 0.5.14:193, 0.5.23:244; sgl-project/sglang#12178",
    ),
    _backend(
        "trtllm-mla-architecture",
        ("trtllm_mla", "cutedsl_mla", "tokenspeed_mla"),
        is_datacentre_blackwell,
        "sm100",
        "sgl-project/sglang#24633, #17880: the gate lets sm120 through, and the kernel is missing",
    ),
    _backend(
        "flashmla-architecture",
        ("flashmla",),
        _sm90_or_sm10x,
        "sm90 and sm100",
        "sgl-project/sglang#26087",
    ),
    _backend(
        "trtllm-mha-architecture",
        ("trtllm_mha",),
        is_datacentre_blackwell,
        "sm100 (on this version)",
        "sglang 0.5.9 server_args.py:1797ff",
        until=(0, 5, 9),
    ),
    Rule(
        "trtllm-mha-generation",
        "attention backend trtllm_mha: sm90 and newer only",
        "sglang 0.5.23 arg_groups/attention_hook.py:198-228",
        ATTENTION,
        _only_on(("trtllm_mha",), ATTENTION, lambda number: number >= 90, "sm90, sm100 and sm120"),
        since=(0, 5, 10),
        hardware=_known,
    ),
    Rule(
        "trtllm-mha-fp8",
        "trtllm_mha prefills no fp8_e4m3 KV cache on sm120",
        "sglang 0.5.23 arg_groups/attention_hook.py:205-217",
        ("attention_backend", "prefill_attention_backend", "kv_cache_dtype"),
        _fp8_pages,
        since=(0, 5, 23),
        hardware=_consumer_blackwell,
        about=("kv_cache_dtype",),
    ),
    Rule(
        "fa4-architecture",
        "attention backend fa4: not on sm120 up to 0.5.14",
        "sglang 0.5.23 layers/attention/flashattention_backend.py:290-300, which 0.5.14 does not have",
        ATTENTION,
        _only_on(("fa4",), ATTENTION, lambda number: not is_consumer_blackwell(number), "sm100"),
        until=(0, 5, 14),
        hardware=_known,
    ),
    Rule(
        "hpc-ops-architecture",
        "attention backend hpc_ops: sm90 only",
        "sglang 0.5.23 arg_groups/choices.py:88",
        ATTENTION,
        _hpc_ops,
        hardware=_known,
    ),
    Rule(
        "uno-architecture",
        "UNO: sm90 only",
        "sglang 0.5.23 arg_groups/speculative_hook.py:494-556",
        (ALGORITHM,),
        _uno,
        since=(0, 5, 20),
        hardware=_known,
    ),
    _choice(
        "fp8-gemm-architecture",
        "fp8_gemm_backend",
        ("flashinfer_trtllm", "flashinfer_deepgemm", "flashinfer_cutedsl", "deep_gemm", "aiter"),
        "sm90 or sm100",
        "sglang 0.5.23 layers/quantization/fp8_utils.py:1108-1165",
    ),
    _choice(
        "fp4-gemm-architecture",
        "fp4_gemm_backend",
        ("flashinfer_trtllm", "flashinfer_cutedsl", "cutedsl"),
        "sm100",
        "sglang 0.5.23 arg_groups/fields/exec_.py:282: auto is flashinfer_cutlass on sm120",
    ),
    _choice(
        "moe-runner-architecture",
        "moe_runner_backend",
        ("flashinfer_trtllm", "flashinfer_trtllm_routed", "experimental_sgl_trtllm", "deep_gemm"),
        "sm90 or sm100",
        "sglang 0.5.23 arg_groups/overrides.py:1513: NVFP4 experts run on flashinfer_cutlass on sm120",
    ),
    Rule(
        "fusion-architecture",
        "FlashInfer's fused all-reduce: sm90 and sm100 only",
        "sglang 0.5.9 layers/communicator.py:92; 0.5.23 layers/flashinfer_comm_fusion.py:46-51",
        ("allreduce_fusion",),
        _needs("allreduce_fusion", _sm90_or_sm10x, "sm90 and sm100"),
        hardware=_known,
    ),
    Rule(
        "torch-symm-mem-architecture",
        "torch's symmetric memory: sm90 and sm100 only",
        "sglang 0.5.23 distributed/device_communicators/torch_symm_mem.py",
        ("torch_symm_mem",),
        _needs("torch_symm_mem", _sm90_or_sm10x, "sm90 and sm100"),
        hardware=_known,
    ),
    Rule(
        "nvls-link",
        "NVLS needs an NVSwitch",
        "NCCL 2.30 src/transport/nvls.cc; sglang 0.5.23 entrypoints/engine.py:1878-1937",
        ("nccl_nvls",),
        _nvls,
        hardware=is_pcie_only,
    ),
)
