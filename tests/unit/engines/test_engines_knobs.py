from __future__ import annotations

from collections.abc import Mapping

import pytest

from autotune import engines
from autotune.domain.configuration import Configuration, Value
from autotune.domain.engine import LaunchSite
from autotune.domain.study import EngineSpec
from autotune.domain.trial import EngineVersion
from autotune.engines.dialect.flag_table import lifetime, release_of

SGLANG = engines.get("sglang")
SITE = LaunchSite("127.0.0.1", 31007, "autotune-t7", "/venv/bin/python")
FUSION, NO_FUSION = "--enable-flashinfer-allreduce-fusion", "--enforce-disable-flashinfer-allreduce-fusion"


def version(text: str) -> EngineVersion:
    return EngineVersion(text, release_of(text))


def spec(args: Mapping[str, Value] | None = None) -> EngineSpec:
    return EngineSpec("sglang", "/sglang/bin/python", "/models/target", {"tp-size": 8, **(args or {})})


def words(values: Mapping[str, Value], on: str, args: Mapping[str, Value] | None = None) -> str:
    """Variables and what follows `--tp-size 8`."""
    command = SGLANG.command(spec(args), version(on), Configuration(values), SITE)
    variables = [f"{name}={value}" for name, value in command.chosen.items()]
    return " ".join((*variables, *command.argv[13:]))


@pytest.mark.parametrize(
    ("knob", "value", "on", "expected"),
    [
        ("custom_all_reduce", False, "0.5.9", "--disable-custom-all-reduce"),
        ("custom_all_reduce", True, "0.5.23", ""),
        ("allreduce_fusion", True, "0.5.9", FUSION),
        ("allreduce_fusion", False, "0.5.9", ""),
        ("allreduce_fusion", False, "0.5.13", NO_FUSION),
        ("allreduce_fusion", True, "0.5.13", FUSION),
        ("allreduce_fusion", True, "0.5.23", "--flashinfer-allreduce-fusion-backend auto"),
        ("allreduce_fusion", "trtllm", "0.5.23", "--flashinfer-allreduce-fusion-backend trtllm"),
        ("allreduce_fusion", False, "0.5.23", NO_FUSION),
        ("pcie_ipc_allreduce", True, "0.5.21", "SGLANG_ENABLE_PCIE_IPC_ALLREDUCE=1"),
        ("symm_mem", True, "0.5.9", "--enable-symm-mem"),
        ("torch_symm_mem", True, "0.5.23", "--enable-torch-symm-mem"),
        ("mscclpp", True, "0.5.9", "--enable-mscclpp"),
        ("nccl_nvls", True, "0.5.23", "--enable-nccl-nvls"),
        ("prefill_cuda_graph", True, "0.5.9", "--enable-piecewise-cuda-graph"),
        ("prefill_cuda_graph", False, "0.5.9", ""),
        ("prefill_cuda_graph", False, "0.5.13", "--disable-piecewise-cuda-graph"),
        ("prefill_cuda_graph", False, "0.5.23", "--disable-prefill-cuda-graph"),
        ("overlap_schedule", False, "0.5.9", "--disable-overlap-schedule"),
        ("cuda_graph_max_bs_decode", 64, "0.5.9", "--cuda-graph-max-bs 64"),
        ("mamba_scheduler_strategy", "auto", "0.5.23", "--mamba-radix-cache-strategy auto"),
        ("mamba_radix_cache_strategy", "auto", "0.5.9", "--mamba-scheduler-strategy auto"),
        ("expert_parallel_size", 8, "0.5.23", "--expert-parallel-size 8"),
        ("stream_interval", 4, "0.5.9", "--stream-interval 4"),
    ],
)
def test_a_concept_becomes_what_the_version_has(knob: str, value: Value, on: str, expected: str) -> None:
    assert words({knob: value}, on) == expected


@pytest.mark.parametrize(
    ("fixed", "value", "on", "expected"),
    [
        ("disable-custom-all-reduce", True, "0.5.23", ""),
        ("disable-custom-all-reduce", None, "0.5.23", ""),
        ("disable-custom-all-reduce", False, "0.5.23", "--disable-custom-all-reduce"),
    ],
)
def test_a_concept_overrides_the_fixed_flag_that_says_its_opposite(
    fixed: str, value: Value, on: str, expected: str
) -> None:
    assert words({"custom_all_reduce": value}, on, {fixed: True}) == expected


@pytest.mark.parametrize("fixed", ["enable-flashinfer-allreduce-fusion", "enforce-disable-flashinfer-allreduce-fusion"])
def test_a_concept_takes_the_place_of_another_flag_of_the_same_concept(fixed: str) -> None:
    assert words({"allreduce_fusion": "trtllm"}, "0.5.23", {fixed: True}) == (
        "--flashinfer-allreduce-fusion-backend trtllm"
    )
    assert words({"allreduce_fusion": False}, "0.5.23", {fixed: True}) == NO_FUSION


def refusal(values: Mapping[str, Value], on: str) -> str:
    (problem,) = SGLANG.problems(spec(), version(on), Configuration(values))
    return problem


@pytest.mark.parametrize(
    ("values", "on", "expected"),
    [
        ({"pcie_ipc_allreduce": True}, "0.5.20", ("exists since 0.5.21", "nearest: custom_all_reduce")),
        ({"SGLANG_ENABLE_PCIE_IPC_ALLREDUCE": 1}, "0.5.20", ("exists since 0.5.21", "nearest: custom_all_reduce")),
        ({"bf16_gemm_backend": "auto"}, "0.5.9", ("it is in 0.5.15.post1 to 0.5.23", "nearest: fp8_gemm_backend")),
        ({"torchao_config": "int4"}, "0.5.23", ("it is in 0.5.9 to 0.5.17", "nearest: quantization")),
        ({"cuda_graph_tc_compiler": "eager"}, "0.5.23", ("it is in 0.5.14 to 0.5.21",)),
    ],
)
def test_what_a_version_lacks_is_refused_with_the_versions_that_have_it(
    values: Mapping[str, Value], on: str, expected: tuple[str, ...]
) -> None:
    problem = refusal(values, on)
    for words_ in expected:
        assert words_ in problem


def test_to_go_without_what_a_version_lacks_is_no_problem() -> None:
    for value in (None, False):
        assert SGLANG.problems(spec(), version("0.5.9"), Configuration({"pcie_ipc_allreduce": value})) == ()


def test_the_lifetime_of_a_flag_spans_the_known_versions() -> None:
    assert lifetime("--speculative-adaptive") == ("0.5.11", "0.5.23")
    assert lifetime("--never-there") is None


def test_on_one_gpu_traffic_between_gpus_is_dropped_from_command_and_canonical_form() -> None:
    alone = EngineSpec("sglang", "/p", "/m", {})
    values = Configuration({"NCCL_PROTO": "LL", "symm_mem": True, "attention_backend": "triton"})
    assert SGLANG.canonical(alone, version("0.5.23"), values) == Configuration({"attention_backend": "triton"})
    command = SGLANG.command(alone, version("0.5.23"), values, SITE)
    assert command.chosen == {}
    assert "--enable-symm-mem" not in command.argv
    two = Configuration({**values, "tp_size": 2})
    assert SGLANG.canonical(alone, version("0.5.23"), two) == two


def test_names_that_no_version_has_are_told_even_where_they_would_be_dead() -> None:
    told = SGLANG.disproved(spec(), version("0.5.23"), {"speculative_num_stpes": (1, 2), "page_size": (1,)}, "")
    assert told == ("sglang 0.5.23 has no --speculative-num-stpes; did you mean speculative_num_steps?",)
