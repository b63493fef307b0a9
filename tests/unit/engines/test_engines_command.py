from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from autotune import engines
from autotune.domain.configuration import Configuration, Value
from autotune.domain.engine import LaunchSite
from autotune.domain.study import EngineSpec
from autotune.domain.trial import EngineVersion, LaunchCommand
from autotune.engines.dialect.flag_table import release_of

SGLANG = engines.get("sglang")
SITE = LaunchSite("127.0.0.1", 31007, "autotune-t7", "/venv/bin/python")
OLD, MIDDLE, NEW = "0.5.9", "0.5.15.post1", "0.5.23"
CHAIN: dict[str, Value] = {
    "speculative_algorithm": "EAGLE3",
    "speculative_num_steps": 3,
    "speculative_eagle_topk": 1,
}
TREE: dict[str, Value] = {**CHAIN, "speculative_eagle_topk": 4, "speculative_num_draft_tokens": 16}


def version(text: str) -> EngineVersion:
    return EngineVersion(text, release_of(text))


def spec(args: Mapping[str, Value] | None = None, env: Mapping[str, str] | None = None) -> EngineSpec:
    return EngineSpec("sglang", "/sglang/bin/python", "/models/target", args or {}, env or {})


def launch(
    configuration: Mapping[str, Value],
    on: str = NEW,
    args: Mapping[str, Value] | None = None,
    env: Mapping[str, str] | None = None,
) -> LaunchCommand:
    return SGLANG.command(spec(args, env), version(on), Configuration(configuration), SITE)


def words(command: LaunchCommand) -> str:
    """What follows the part that is the same in every launch."""
    return " ".join(command.argv[11:])


def test_what_identifies_a_launch_is_always_explicit_and_first() -> None:
    assert launch({}).argv == (
        *("/sglang/bin/python", "-m", "sglang.launch_server"),
        *("--model-path", "/models/target", "--host", "127.0.0.1", "--port", "31007"),
        *("--served-model-name", "autotune-t7"),
    )


def test_fixed_arguments_keep_their_order_and_the_configuration_follows() -> None:
    command = launch(
        {"attention_backend": "triton"}, args={"tp-size": 8, "mem-fraction-static": 0.85, "trust-remote-code": True}
    )
    assert words(command) == "--tp-size 8 --mem-fraction-static 0.85 --trust-remote-code --attention-backend triton"


def test_a_knob_overrides_the_fixed_argument_of_the_same_flag_under_any_of_its_names() -> None:
    assert words(launch({"tp_size": 4}, args={"tensor-parallel-size": 8})) == "--tp-size 4"
    assert words(launch({"cuda_graph_max_bs": 64}, args={"cuda-graph-max-bs-decode": 256})) == (
        "--cuda-graph-max-bs-decode 64"
    )


def test_unset_takes_a_fixed_argument_away() -> None:
    assert words(launch({"attention_backend": None}, args={"attention-backend": "triton"})) == ""


@pytest.mark.parametrize(
    ("value", "expected"), [(True, "--enable-mixed-chunk"), (False, ""), (None, "")], ids=["true", "false", "unset"]
)
def test_a_switch_is_present_or_absent(value: Value, expected: str) -> None:
    assert words(launch({"enable_mixed_chunk": value})) == expected


def test_a_switch_that_is_fixed_can_be_turned_off() -> None:
    assert words(launch({"enable_mixed_chunk": False}, args={"enable-mixed-chunk": True})) == ""


def test_a_toggle_has_a_form_for_false() -> None:
    assert words(launch({"enable_fused_qk_norm_rope": False})) == "--no-enable-fused-qk-norm-rope"
    assert words(launch({"enable_fused_qk_norm_rope": None})) == ""


def test_a_list_becomes_several_words() -> None:
    assert words(launch({"cuda_graph_bs": "1 2 4 8"})) == "--cuda-graph-bs-decode 1 2 4 8"


def test_floats_keep_all_their_digits() -> None:
    assert words(launch({"mem_fraction_static": 0.8512345})) == "--mem-fraction-static 0.8512345"


@pytest.mark.parametrize(
    ("on", "flag"),
    [(OLD, "--cuda-graph-max-bs"), ("0.5.13.post1", "--cuda-graph-max-bs"), ("0.5.14", "--cuda-graph-max-bs-decode"),
     (MIDDLE, "--cuda-graph-max-bs-decode"), (NEW, "--cuda-graph-max-bs-decode")],
)  # fmt: skip
def test_cuda_graph_max_bs_is_the_decode_graphs_ceiling_on_every_version(on: str, flag: str) -> None:
    assert words(launch({"cuda_graph_max_bs": 128}, on)) == f"{flag} 128"


@pytest.mark.parametrize("on", [OLD, "0.5.10.post1", "0.5.11", "0.5.12.post1"])
def test_spec_v2_is_a_variable_up_to_0_5_12(on: str) -> None:
    for value, text in ((True, "True"), (False, "False")):
        command = launch({**CHAIN, "spec_v2": value}, on)
        assert command.chosen == {"SGLANG_ENABLE_SPEC_V2": text}
        assert "--disable-overlap-schedule" not in command.argv
    assert launch({**CHAIN, "spec_v2": None}, on).chosen == {}


@pytest.mark.parametrize("on", ["0.5.13.post1", MIDDLE, NEW])
def test_spec_v2_is_the_absence_of_a_flag_from_0_5_13_on(on: str) -> None:
    assert "--disable-overlap-schedule" in launch({**CHAIN, "spec_v2": False}, on).argv
    for value in (True, None):
        command = launch({**CHAIN, "spec_v2": value}, on)
        assert "--disable-overlap-schedule" not in command.argv
        assert command.chosen == {}


def test_spec_v2_overrides_a_fixed_disable_overlap_schedule() -> None:
    assert (
        "--disable-overlap-schedule"
        not in launch({**CHAIN, "spec_v2": True}, args={"disable-overlap-schedule": True}).argv
    )


def test_without_speculation_every_speculative_argument_is_left_out() -> None:
    fixed: dict[str, Value] = {"speculative-draft-model-path": "/models/draft", "speculative-num-steps": 3}
    for configuration in ({}, {"speculative_algorithm": None, "spec_v2": False}):
        command = launch(configuration, args=fixed)
        assert words(command) == ""
        assert command.environment == {}


def test_a_fixed_algorithm_is_speculation_unless_the_configuration_unsets_it() -> None:
    fixed: dict[str, Value] = {"speculative-algorithm": "EAGLE3", "speculative-draft-model-path": "/models/draft"}
    assert "--speculative-draft-model-path" in launch({}, args=fixed).argv
    assert words(launch({"speculative_algorithm": None}, args=fixed)) == ""


def test_ngram_takes_draft_tokens_and_neither_draft_model_nor_tree() -> None:
    fixed: dict[str, Value] = {"speculative-draft-model": "/models/draft", "speculative-eagle-topk": 4}
    configuration = {"speculative_algorithm": "NGRAM", "speculative_num_steps": 3, "speculative_num_draft_tokens": 8}
    assert words(launch(configuration, args=fixed)) == (
        "--speculative-algorithm NGRAM --speculative-num-draft-tokens 8"
    )


def test_ngram_arguments_are_left_out_of_other_algorithms() -> None:
    assert "ngram" not in words(launch(CHAIN, args={"speculative-ngram-max-bfs-breadth": 4}))


@pytest.mark.parametrize("draft", [None, 2, 9])
def test_at_topk_1_draft_tokens_are_steps_plus_1_whatever_was_asked(draft: Value) -> None:
    argv = launch({**CHAIN, "speculative_num_draft_tokens": draft}).argv
    assert argv[argv.index("--speculative-num-draft-tokens") + 1] == "4"
    assert argv.count("--speculative-num-draft-tokens") == 1


def test_draft_tokens_are_derived_from_fixed_steps_too() -> None:
    argv = launch(
        {"speculative_algorithm": "EAGLE3", "speculative_eagle_topk": 1},
        args={"speculative-num-steps": 5, "speculative-num-draft-tokens": 32},
    ).argv
    assert argv[argv.index("--speculative-num-draft-tokens") + 1] == "6"


def test_an_upper_case_name_is_a_variable() -> None:
    command = launch(
        {"NCCL_PROTO": "LL", "NCCL_P2P_DISABLE": True, "NCCL_SHM_DISABLE": False, "NCCL_BUFFSIZE": 4194304},
        args={"tp-size": 2},
    )
    assert command.chosen == command.environment
    assert command.chosen == {
        "NCCL_PROTO": "LL",
        "NCCL_P2P_DISABLE": "1",
        "NCCL_SHM_DISABLE": "0",
        "NCCL_BUFFSIZE": "4194304",
    }
    assert words(command) == "--tp-size 2"


def test_a_variable_overrides_the_fixed_one_and_unset_takes_it_away() -> None:
    env = {"NCCL_PROTO": "Simple", "OMP_NUM_THREADS": "1"}
    two: dict[str, Value] = {"tp-size": 2}
    assert launch({"NCCL_PROTO": "LL"}, args=two, env=env).chosen == {"OMP_NUM_THREADS": "1", "NCCL_PROTO": "LL"}
    assert launch({"NCCL_PROTO": None}, args=two, env=env).chosen == {"OMP_NUM_THREADS": "1"}


def test_the_simulated_node_gets_the_same_words_from_the_tuners_interpreter_and_its_description() -> None:
    simulated = engines.get("simulated")
    described = EngineSpec("simulated", None, "/models/target", {"tp-size": 2}, {}, {"seed": 3})
    command = simulated.command(described, version(OLD), Configuration({**TREE, "NCCL_PROTO": "LL"}), SITE)
    real = launch({**TREE, "NCCL_PROTO": "LL"}, OLD, args={"tp-size": 2})
    assert command.argv[:3] == ("/venv/bin/python", "-m", "autotune.simulated_node")
    assert command.argv[3:] == real.argv[3:]
    assert command.chosen == {"NCCL_PROTO": "LL"}
    assert json.loads(command.environment["AUTOTUNE_SIMULATED_NODE"]) == {
        "name": "rtx-pro-6000-x8",
        "speed": 50,
        "seed": 3,
    }


@pytest.mark.parametrize(
    ("configuration", "expected"),
    [
        ({**CHAIN, "speculative_num_draft_tokens": 4}, CHAIN),
        (TREE, TREE),
        ({**TREE, "speculative_algorithm": None, "spec_v2": True}, {"speculative_algorithm": None}),
        ({"speculative_num_steps": 3, "attention_backend": None}, {"attention_backend": None}),
        ({**CHAIN, "speculative_algorithm": "NGRAM"}, {"speculative_algorithm": "NGRAM"}),
        ({**TREE, "speculative_algorithm": "DFLASH"}, {"speculative_algorithm": "DFLASH"}),
    ],
    ids=["chain", "tree", "off", "off, absent", "ngram", "dflash"],
)
def test_the_canonical_form_drops_what_has_no_effect(
    configuration: Mapping[str, Value], expected: Mapping[str, Value]
) -> None:
    assert SGLANG.canonical(spec(), version(NEW), Configuration(configuration)) == Configuration(expected)


def test_ngram_and_spec_v2_are_independent_only_where_ngram_overlaps() -> None:
    configuration = Configuration({"speculative_algorithm": "NGRAM", "spec_v2": False})
    assert "spec_v2" not in SGLANG.canonical(spec(), version(OLD), configuration)
    assert "spec_v2" in SGLANG.canonical(spec(), version(MIDDLE), configuration)
