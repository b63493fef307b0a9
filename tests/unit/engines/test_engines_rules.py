from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from autotune import engines
from autotune.domain.configuration import Configuration, Value
from autotune.domain.engine import Problem
from autotune.domain.study import EngineSpec
from autotune.domain.trial import EngineVersion, Hardware
from autotune.engines.dialect.flag_table import release_of
from autotune.engines.dialect.problems import all_rules
from autotune.engines.dialect.rules_page import put_into

SGLANG = engines.get("sglang")
PCIE = Hardware("sm120", 8, link="pcie")
PAIR = Hardware("sm120", 2, link="pcie")
HOPPER = Hardware("sm90", 8, link="nvswitch")
BLACKWELL = Hardware("sm100", 8, link="nvswitch")
AMPERE = Hardware("sm80", 8, link="nvlink")
CHAIN: dict[str, Value] = {
    "speculative_algorithm": "EAGLE3",
    "speculative_num_steps": 3,
    "speculative_eagle_topk": 1,
}
TREE: dict[str, Value] = {**CHAIN, "speculative_eagle_topk": 4, "speculative_num_draft_tokens": 8}
ADAPTIVE: dict[str, Value] = {**CHAIN, "speculative_adaptive": True}


def ask(
    values: Mapping[str, Value],
    on: str = "0.5.23",
    *,
    hardware: Hardware | None = None,
    level: int | None = None,
    args: Mapping[str, Value] | None = None,
    env: Mapping[str, str] | None = None,
) -> tuple[set[str], set[str]]:
    """Identities of the rules that refuse, and of those that only remark."""
    spec = EngineSpec("sglang", "/sglang/bin/python", "/models/target", {"tp-size": 8, **(args or {})}, env or {})
    version = EngineVersion(on, release_of(on), {}, hardware, level)
    problems = SGLANG.problems(spec, version, Configuration(values))
    remarks = SGLANG.remarks(spec, version, Configuration(values))
    return {_rule(line) for line in problems}, {_rule(line) for line in remarks}


def _rule(line: str) -> str:
    assert isinstance(line, Problem)
    return line.rule.partition(":")[0]


def refused(values: Mapping[str, Value], on: str = "0.5.23", **place: object) -> set[str]:
    return ask(values, on, **place)[0]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rule", "bad", "good", "place"),
    [
        ("adaptive-chain", {**TREE, "speculative_adaptive": True}, ADAPTIVE, {}),
        ("adaptive-chain", {**ADAPTIVE, "enable_dp_attention": True}, {**CHAIN, "enable_dp_attention": True}, {}),
        ("adaptive-steps", {**ADAPTIVE, "speculative_num_steps": 2}, {**CHAIN, "speculative_num_steps": 2}, {}),
        (
            "tree-pages",
            {**TREE, "page_size": 16, "attention_backend": "fa4"},
            {**TREE, "page_size": 16, "attention_backend": "triton"},
            {},
        ),
        (
            "ngram-pages",
            {"speculative_algorithm": "NGRAM", "page_size": 16, "attention_backend": "triton"},
            {"speculative_algorithm": "NGRAM", "page_size": 16, "attention_backend": "flashinfer"},
            {},
        ),
        ("few-draft-tokens", {"speculative_algorithm": "NGRAM", "speculative_num_draft_tokens": 1}, TREE, {}),
        ("backend-verifies", {**CHAIN, "attention_backend": "flex_attention"}, {"attention_backend": "fa4"}, {}),
        (
            "drafts-dp-attention",
            {"speculative_algorithm": "NGRAM", "enable_dp_attention": True},
            {**CHAIN, "enable_dp_attention": True},
            {},
        ),
        ("rejection-sampling", {**TREE, "speculative_use_rejection_sampling": True}, TREE, {}),
        (
            "chunk-pages",
            {"chunked_prefill_size": 1000, "page_size": 64},
            {"chunked_prefill_size": -1, "page_size": 64},
            {},
        ),
        ("memory-share", {"mem_fraction_static": 85}, {"mem_fraction_static": 0.85}, {}),
        ("graph-ceiling", {"cuda_graph_max_bs": 64}, {"cuda_graph_max_bs": 100}, {"level": 100}),
        ("graph-ceiling", {"cuda_graph_bs": "1 2 64"}, {"cuda_graph_bs": "1 2 128"}, {"level": 100}),
        ("graph-ceiling", {"cuda_graph_max_bs": 64}, {"cuda_graph_max_bs": 64, "dp_size": 2}, {"level": 100}),
        ("request-cap", {"max_running_requests": 48}, {"max_running_requests": 100}, {"level": 100}),
        ("request-cap-given", CHAIN, {**CHAIN, "max_running_requests": 100}, {"level": 100}),
        ("fa3-architecture", {"attention_backend": "fa3"}, {"attention_backend": "triton"}, {"hardware": PCIE}),
        ("trtllm-mla-architecture", {"decode_attention_backend": "trtllm_mla"}, {}, {"hardware": HOPPER}),
        ("flashmla-architecture", {"attention_backend": "flashmla"}, {}, {"hardware": PCIE}),
        ("trtllm-mha-generation", {"attention_backend": "trtllm_mha"}, {}, {"hardware": AMPERE}),
        (
            "trtllm-mha-fp8",
            {"attention_backend": "trtllm_mha", "kv_cache_dtype": "fp8_e4m3"},
            {"attention_backend": "flashinfer", "kv_cache_dtype": "fp8_e4m3"},
            {"hardware": PCIE},
        ),
        ("hpc-ops-architecture", {"attention_backend": "hpc_ops"}, {}, {"hardware": PCIE}),
        ("uno-architecture", {"speculative_algorithm": "UNO"}, {}, {"hardware": BLACKWELL}),
        (
            "fp8-gemm-architecture",
            {"fp8_gemm_backend": "deep_gemm"},
            {"fp8_gemm_backend": "cutlass"},
            {"hardware": PCIE},
        ),
        (
            "fp4-gemm-architecture",
            {"fp4_gemm_backend": "flashinfer_trtllm"},
            {"fp4_gemm_backend": "marlin"},
            {"hardware": PCIE},
        ),
        (
            "moe-runner-architecture",
            {"moe_runner_backend": "flashinfer_trtllm"},
            {"moe_runner_backend": "triton"},
            {"hardware": PCIE},
        ),
        ("fusion-architecture", {"allreduce_fusion": True}, {"allreduce_fusion": False}, {"hardware": PCIE}),
        ("torch-symm-mem-architecture", {"torch_symm_mem": True}, {"torch_symm_mem": False}, {"hardware": PCIE}),
        ("nvls-link", {"nccl_nvls": True}, {"nccl_nvls": False}, {"hardware": PCIE}),
        ("nccl-algo-words", {"NCCL_ALGO": "Tree"}, {"NCCL_ALGO": "allreduce:tree"}, {}),
        ("nccl-algo-words", {"NCCL_ALGO": "allreduce:star"}, {"NCCL_ALGO": "Tree,Ring"}, {}),
        ("nccl-algo-words", {"NCCL_ALGO": "ring;tree"}, {"NCCL_ALGO": "ring;allreduce:tree"}, {}),
        ("nccl-proto-words", {"NCCL_PROTO": "LLL"}, {"NCCL_PROTO": "^ll128"}, {}),
        ("ll128-link", {"NCCL_PROTO": "LL,LL128"}, {"NCCL_PROTO": "^LL128"}, {"hardware": PCIE}),
        ("nccl-p2p-level-words", {"NCCL_P2P_LEVEL": "sys"}, {"NCCL_P2P_LEVEL": "SYS"}, {}),
        ("nccl-p2p-level-words", {"NCCL_P2P_LEVEL": "NODE"}, {"NCCL_P2P_LEVEL": 3}, {}),
        (
            "nccl-sockets",
            {"NCCL_P2P_DISABLE": 1, "NCCL_SHM_DISABLE": 1},
            {"NCCL_P2P_DISABLE": 1, "NCCL_SHM_DISABLE": 0},
            {},
        ),
        ("nccl-switches", {"NCCL_P2P_DISABLE": "maybe"}, {"NCCL_P2P_DISABLE": True}, {}),
        (
            "nccl-channels",
            {"NCCL_MIN_NCHANNELS": 8, "NCCL_MAX_NCHANNELS": 4},
            {"NCCL_MIN_NCHANNELS": 4, "NCCL_MAX_NCHANNELS": 4},
            {},
        ),
        ("nccl-channels", {"NCCL_MAX_NCHANNELS": 65}, {"NCCL_MAX_NCHANNELS": 64}, {}),
        ("nccl-threads", {"NCCL_NTHREADS": 100}, {"NCCL_NTHREADS": 128}, {}),
        ("nccl-carries", {"NCCL_PROTO": "LL"}, {"NCCL_PROTO": "LL", "custom_all_reduce": False}, {"hardware": HOPPER}),
        (
            "nccl-deterministic",
            {"NCCL_ALGO": "Ring", "enable_deterministic_inference": True},
            {"NCCL_ALGO": "Ring"},
            {},
        ),
        ("pcie-ipc-ranks", {"pcie_ipc_allreduce": True, "tp_size": 6}, {"pcie_ipc_allreduce": True, "tp_size": 8}, {}),
        ("dead-decode-steps", {"num_continuous_decode_steps": 4}, {"num_continuous_decode_steps": None}, {}),
        ("dead-triton-reduce", {"triton_attention_reduce_in_fp32": True}, {}, {}),
        ("overwritten-connections", {"CUDA_DEVICE_MAX_CONNECTIONS": 4}, {}, {}),
        ("dead-spec-v2-variable", {"SGLANG_ENABLE_SPEC_V2": "True"}, {"spec_v2": True}, {}),
        ("bug-mamba-no-buffer", {"mamba_radix_cache_strategy": "no_buffer", "page_size": 16}, {"page_size": 16}, {}),
    ],
    ids=lambda value: str(value)[:30],
)  # fmt: skip
def test_a_rule_refuses_what_breaks_it_and_nothing_else(
    rule: str, bad: Mapping[str, Value], good: Mapping[str, Value], place: Mapping[str, object]
) -> None:
    assert rule in refused(bad, **place)
    assert rule not in refused(good, **place)


@pytest.mark.parametrize(
    ("rule", "values", "on", "elsewhere"),
    [
        ("spec-v2-tree", {**TREE, "spec_v2": True}, "0.5.12.post1", "0.5.13.post1"),
        ("tree-pages", {**TREE, "page_size": 16, "attention_backend": "triton"}, "0.5.9", "0.5.14"),
        ("dead-spec-v2-variable", {"SGLANG_ENABLE_SPEC_V2": "1"}, "0.5.14", "0.5.12.post1"),
        ("overwritten-module-loading", {"CUDA_MODULE_LOADING": "LAZY"}, "0.5.14", "0.5.23"),
    ],
)
def test_a_rule_holds_on_its_versions_only(rule: str, values: Mapping[str, Value], on: str, elsewhere: str) -> None:
    assert rule in refused(values, on)
    assert rule not in refused(values, elsewhere)


@pytest.mark.parametrize(
    ("rule", "values", "on", "elsewhere"),
    [
        ("fa3-architecture", {"attention_backend": "fa3"}, PCIE, HOPPER),
        ("ll128-link", {"NCCL_PROTO": "LL128"}, PCIE, HOPPER),
        ("fusion-architecture", {"allreduce_fusion": "trtllm"}, PCIE, BLACKWELL),
        ("nccl-carries", {"NCCL_PROTO": "LL"}, PAIR, PCIE),
        ("fp8-gemm-architecture", {"fp8_gemm_backend": "deep_gemm"}, PCIE, HOPPER),
    ],
)
def test_a_rule_about_hardware_is_silent_where_the_hardware_is_another_or_unknown(
    rule: str, values: Mapping[str, Value], on: Hardware, elsewhere: Hardware
) -> None:
    ranks: dict[str, Value] = {"tp-size": on.gpu_count}
    assert rule in refused(values, hardware=on, args=ranks)
    assert rule not in refused(values, hardware=elsewhere, args=ranks)
    assert rule not in refused(values, hardware=None, args=ranks)


def test_nothing_about_the_load_is_said_where_the_load_is_not_known() -> None:
    assert refused({**CHAIN, "cuda_graph_max_bs": 1, "max_running_requests": 1}) == set()


def test_a_graph_ceiling_means_nothing_without_graphs() -> None:
    for off in ({"disable_cuda_graph": True}, {"device": "cpu"}, {"attention_backend": "torch_native"}):
        assert refused({"cuda_graph_max_bs": 8, **off}, level=100) == set()


def test_only_what_a_baseline_may_be_is_bearable() -> None:
    bearable = {rule.id for rule in all_rules() if rule.bearable}
    assert bearable == {"graph-ceiling", "nccl-carries"}


def test_what_a_working_command_brought_along_is_not_held_against_the_space() -> None:
    assert refused({}, args={"num-continuous-decode-steps": 4}, env={"CUDA_DEVICE_MAX_CONNECTIONS": "1"}) == set()
    assert refused({}, hardware=HOPPER, env={"NCCL_PROTO": "LL"}) == set()


def test_on_one_gpu_communication_is_dead_and_no_rule_speaks_of_it() -> None:
    one: dict[str, Value] = {"tp-size": 1}
    assert refused({"NCCL_ALGO": "Tree", "allreduce_fusion": True}, args=one, hardware=PCIE) == set()


def test_known_bugs_warn_or_refuse_by_version_combination_and_hardware() -> None:
    ngram: dict[str, Value] = {"speculative_algorithm": "NGRAM", "attention_backend": "flashinfer"}
    assert "bug-ngram-flashinfer-sm120" in refused(ngram, "0.5.12.post1", hardware=PCIE)
    assert "bug-ngram-flashinfer-sm120" not in refused(ngram, "0.5.13.post1", hardware=PCIE)
    assert "bug-ngram-flashinfer-sm120" not in refused(ngram, "0.5.12.post1", hardware=HOPPER)
    assert "bug-tree-illegal-access" in ask(TREE, "0.5.12.post1")[1]
    assert "bug-tree-illegal-access" not in ask(CHAIN, "0.5.12.post1")[1]


def test_an_unset_argument_can_be_a_bug_too() -> None:
    assert "bug-fa3-default-sm120" in ask({}, hardware=PCIE)[1]
    assert "bug-fa3-default-sm120" not in ask({"attention_backend": "triton"}, hardware=PCIE)[1]


@pytest.mark.parametrize(
    ("tight", "roomy", "level"),
    [
        ({"cuda_graph_max_bs": 64}, {"cuda_graph_max_bs": 80}, 64),
        ({"cuda_graph_bs": "1 2 64"}, {"cuda_graph_bs": "1 2 128"}, 60),
        ({"cuda_graph_max_bs": 64}, {"cuda_graph_max_bs": 64, "dp_size": 2}, 64),
    ],
)
def test_graphs_that_end_at_the_level_are_remarked_on(
    tight: Mapping[str, Value], roomy: Mapping[str, Value], level: int
) -> None:
    assert "graph-margin" in ask(tight, level=level)[1]
    assert "graph-margin" not in ask(roomy, level=level)[1]


def test_graphs_that_end_below_the_level_are_refused_and_not_remarked_on_as_well() -> None:
    refusals, remarks = ask({"cuda_graph_max_bs": 32}, level=64)
    assert "graph-ceiling" in refusals
    assert "graph-margin" not in remarks


def test_made_up_acceptance_is_allowed_and_remarked_on() -> None:
    refusals, remarks = ask({**CHAIN, "SGLANG_SIMULATE_ACC_LEN": 3})
    assert refusals == set()
    assert "simulated-acceptance" in remarks


@pytest.mark.parametrize("name", ["NCCL_PROT0", "SGLANG_ENABLE_PCIE_IPC_ALREDUCE"])
def test_a_variable_that_nothing_reads_is_remarked_on_with_the_nearest_name(name: str) -> None:
    spec = EngineSpec("sglang", "/sglang/bin/python", "/models/target", {"tp-size": 8})
    (remark,) = SGLANG.remarks(spec, EngineVersion("0.5.23", (0, 5, 23)), Configuration({name: "1"}))
    assert "is read by nothing" in remark
    assert "did you mean" in remark


@pytest.mark.parametrize("name", ["NCCL_PROTO", "SGLANG_OPT_USE_CUSTOM_ALL_REDUCE_V2", "OMP_NUM_THREADS"])
def test_a_variable_that_is_read_or_may_be_is_not_remarked_on(name: str) -> None:
    assert "unread-variable" not in ask({name: "1"})[1]


def test_every_rule_has_an_identity_a_text_and_a_source_and_stands_in_the_documentation() -> None:
    rules = all_rules()
    assert len({rule.id for rule in rules}) == len(rules)
    for rule in rules:
        assert rule.text
        assert re.search(r"\d", rule.source), rule.id
    page = (Path(__file__).parents[3] / "docs" / "engines.md").read_text(encoding="utf-8")
    assert put_into(page) == page, "docs/engines.md has another table of rules: run scripts/rules"


def test_at_least_ten_known_bugs_name_a_public_thread() -> None:
    bugs = [rule for rule in all_rules() if rule.id.startswith("bug-")]
    assert len([bug for bug in bugs if re.search(r"[\w-]+/[\w-]+#\d+", bug.source)]) >= 10
