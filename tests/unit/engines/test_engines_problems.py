from __future__ import annotations

from collections.abc import Mapping

import pytest

from autotune import engines
from autotune.domain.configuration import Configuration, Value
from autotune.domain.study import EngineSpec
from autotune.domain.trial import EngineVersion
from autotune.engines.dialect.flag_table import release_of

SGLANG = engines.get("sglang")
OLD, NEW = "0.5.9", "0.5.23"


def problems(
    configuration: Mapping[str, Value], on: str = NEW, args: Mapping[str, Value] | None = None
) -> tuple[str, ...]:
    spec = EngineSpec("sglang", "/sglang/bin/python", "/models/target", args or {})
    return SGLANG.problems(spec, EngineVersion(on, release_of(on)), Configuration(configuration))


def tree(steps: Value, topk: Value, draft: Value, **more: Value) -> dict[str, Value]:
    return {
        "speculative_algorithm": "EAGLE3",
        "speculative_num_steps": steps,
        "speculative_eagle_topk": topk,
        "speculative_num_draft_tokens": draft,
        **more,
    }


@pytest.mark.parametrize("on", [OLD, "0.5.15.post1", NEW])
def test_nothing_is_known_against_an_ordinary_configuration(on: str) -> None:
    ordinary = tree(3, 1, 4, spec_v2=True, cuda_graph_max_bs=128, attention_backend="flashinfer", NCCL_PROTO="LL")
    assert problems(ordinary, on, {"tp-size": 8, "trust-remote-code": True, "mem-fraction-static": 0.85}) == ()


def test_an_unknown_name_is_refused_with_the_version_and_the_nearest_name() -> None:
    (problem,) = problems({"attention_bakend": "triton"})
    assert problem == "sglang 0.5.23 has no --attention-bakend; did you mean attention_backend?"


def test_a_flag_of_another_version_is_refused() -> None:
    assert problems({"speculative_adaptive": True, **tree(3, 1, 4)}, NEW) == ()
    (problem,) = problems({"speculative_adaptive": True, **tree(3, 1, 4)}, OLD)
    assert "sglang 0.5.9 has no --speculative-adaptive" in problem


def test_an_unknown_fixed_argument_is_refused_too_and_a_prefix_is_no_name() -> None:
    (problem,) = problems({}, args={"tp": 8})
    assert problem == "sglang 0.5.23 has no --tp; did you mean tp_size?"


@pytest.mark.parametrize(
    ("configuration", "expected"),
    [
        ({"attention_backend": "flashinfr"}, "did you mean flashinfer?"),
        ({"attention_backend": "qqq"}, "it takes triton, torch_native"),
        ({"max_running_requests": "many"}, "must be a whole number"),
        ({"max_running_requests": True}, "must be a whole number"),
        ({"max_running_requests": 1.5}, "must be a whole number"),
        ({"mem_fraction_static": "most"}, "must be a number"),
        ({"enable_mixed_chunk": "yes"}, "must be true or false"),
        ({"cuda_graph_bs": "1 2 x"}, "must be a whole number"),
        ({"port": 30000}, "may not be a parameter: it is chosen for each launch"),
        ({"model": "/other"}, "may not be a parameter: it is engine.model"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_value_that_the_flag_does_not_take_is_refused(configuration: Mapping[str, Value], expected: str) -> None:
    (problem,) = problems(configuration)
    assert expected in problem


@pytest.mark.parametrize("value", [1, 1.0, "0.5", 0])
def test_numbers_may_be_written_as_whole_numbers_or_text(value: Value) -> None:
    assert problems({"mem_fraction_static": value}) == ()


def test_the_draft_tree_bounds_its_tokens_on_both_sides() -> None:
    assert problems(tree(2, 2, 7)) == ()  # 1 + 2 + 1 x 4
    (too_many,) = problems(tree(2, 2, 8))
    assert "must be in 2..7" in too_many
    assert "but got 8" in too_many
    assert problems(tree(1, 4, 5)) == ()
    assert len(problems(tree(1, 4, 6))) == 1
    assert len(problems(tree(3, 4, 1))) == 1


def test_at_topk_1_any_draft_tokens_are_no_problem_since_they_are_not_asked_for() -> None:
    assert problems(tree(3, 1, 99)) == ()


def test_the_bound_counts_fixed_arguments() -> None:
    fixed: dict[str, Value] = {"speculative-algorithm": "EAGLE3", "speculative-num-steps": 1}
    assert len(problems({"speculative_eagle_topk": 2, "speculative_num_draft_tokens": 4}, args=fixed)) == 1


@pytest.mark.parametrize(
    ("configuration", "expected"),
    [
        (tree(3, None, None), "speculative_num_steps must come with speculative_eagle_topk"),
        (tree(None, 4, 8), "must come with speculative_num_steps"),
        (tree(3, 4, None), "speculative_num_draft_tokens must be given where"),
        (tree(0, 2, 2), "whole numbers of at least 1"),
        (tree(3, 4, 16, attention_backend="trtllm_mha"), "trtllm_mha verifies chains only"),
        (tree(3, 4, 16, decode_attention_backend="trtllm_mha"), "trtllm_mha verifies chains only"),
    ],
)
def test_speculative_arguments_that_cannot_go_together(configuration: Mapping[str, Value], expected: str) -> None:
    (problem,) = problems(configuration)
    assert expected in problem


def test_the_servers_own_choice_of_tree_is_no_problem() -> None:
    assert problems({"speculative_algorithm": "EAGLE3"}) == ()


def test_an_incomplete_tree_is_no_problem_where_there_is_no_tree() -> None:
    assert problems({**tree(3, None, 8), "speculative_algorithm": "NGRAM"}) == ()
    assert problems({**tree(3, None, None), "speculative_algorithm": None}) == ()


@pytest.mark.parametrize(("on", "refused"), [(OLD, True), ("0.5.12.post1", True), ("0.5.13.post1", False)])
def test_spec_v2_takes_trees_since_0_5_13(on: str, refused: bool) -> None:
    assert bool(problems(tree(3, 4, 16, spec_v2=True), on)) is refused
    assert problems(tree(3, 4, 16, spec_v2=False), on) == ()


def test_an_algorithm_that_the_version_does_not_have_yet() -> None:
    (problem,) = problems({"speculative_algorithm": "DSPARK"}, "0.5.15.post1")
    assert "since sglang 0.5.16" in problem
    assert problems({"speculative_algorithm": "DSPARK"}, NEW) == ()
    assert problems({"speculative_algorithm": "MY_PLUGIN"}, NEW) == ()


def test_two_parameters_for_one_flag_are_refused() -> None:
    (problem,) = problems({**tree(3, 1, 4), "spec_v2": True, "disable_overlap_schedule": True})
    assert "disable_overlap_schedule and spec_v2 both set --disable-overlap-schedule" in problem
    assert len(problems({"tp_size": 2, "tensor_parallel_size": 4})) == 1


def faults(engine: str = "sglang", **fields: object) -> tuple[str, ...]:
    given: dict[str, object] = {"name": engine, "python": "/sglang/bin/python", "model": "/models/target", **fields}
    return engines.get(engine).check_spec(EngineSpec(**given))  # type: ignore[arg-type]


def test_a_whole_spec_has_no_faults() -> None:
    assert faults(args={"tp-size": 8}, env={"OMP_NUM_THREADS": "1"}, node={"speed": "a simulated node's"}) == ()


@pytest.mark.parametrize(
    "key", ["host", "port", "model-path", "model", "served-model-name", "api-key", "incremental-streaming-output"]
)
def test_reserved_arguments_are_faults(key: str) -> None:
    (fault,) = faults(args={key: "x"})
    assert f"engine.args.{key} may not be set" in fault


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"python": None}, "engine.python"),
        ({"model": ""}, "engine.model"),
        ({"args": {"NCCL_PROTO": "LL"}}, "those stand under engine.env"),
        ({"args": {"--tp-size": 8}}, "without leading dashes: tp-size"),
        ({"env": {"not a name": "1"}}, "no name of an environment variable"),
    ],
)
def test_other_faults_of_the_engines_section(fields: Mapping[str, object], expected: str) -> None:
    (fault,) = faults(**fields)
    assert expected in fault


def test_a_simulated_node_needs_no_interpreter() -> None:
    assert faults("simulated", python=None, node={"name": "rtx-pro-6000-x8", "speed": 200, "noise": 0.0}) == ()


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ({"name": "RTX PRO"}, "engine.node.name must be a lower-case word"),
        ({"speed": 0}, "engine.node.speed must be a number above 0, but got 0"),
        ({"speed": "fast"}, "engine.node.speed"),
        ({"speed": True}, "engine.node.speed"),
        ({"speed": float("inf")}, "engine.node.speed"),
        ({"noise": -1}, "engine.node.noise"),
        ({"drift_per_hour": "up"}, "engine.node.drift_per_hour"),
        ({"drift_epoch_s": True}, "engine.node.drift_epoch_s"),
        ({"launch_noise": "some"}, "engine.node.launch_noise"),
        ({"startup_s": -0.1}, "engine.node.startup_s"),
        ({"seed": 1.5}, "engine.node.seed"),
        ({"faults": "many"}, "engine.node.faults"),
        ({"sped": 3}, "engine.node.sped is no property of a simulated node; did you mean speed?"),
    ],
)
def test_faults_of_a_simulated_nodes_description(node: Mapping[str, object], expected: str) -> None:
    (fault,) = faults("simulated", node=node)
    assert expected in fault


def test_the_nodes_description_may_not_come_through_the_environment() -> None:
    (fault,) = faults("simulated", env={"AUTOTUNE_SIMULATED_NODE": "{}"})
    assert "describe the node under engine.node" in fault


def test_a_simulated_nodes_clock_runs_at_its_speed_and_a_real_ones_at_1() -> None:
    assert engines.get("simulated").clock_rate(EngineSpec("simulated", None, "m", node={"speed": 200})) == 200.0
    assert engines.get("simulated").clock_rate(EngineSpec("simulated", None, "m")) == 50.0
    assert SGLANG.clock_rate(EngineSpec("sglang", None, "m", node={"speed": 200})) == 1.0
