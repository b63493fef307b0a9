import pytest

from autotune.simulated_node.nodes import NVLINK_X8, RTX_PRO_6000_X8
from autotune.simulated_node.resolution import resolve, server_info

BASE = ["--model-path", "m", "--tp", "8"]
DRAFT = ["--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", "d"]
V2 = {"SGLANG_ENABLE_SPEC_V2": "True"}


def resolved(*flags, node=RTX_PRO_6000_X8, **environment):
    return resolve(node, [*BASE, *flags], environment)


def tree(steps, topk, tokens):
    return (
        *DRAFT,
        *f"--speculative-num-steps {steps} --speculative-eagle-topk {topk}".split(),
        *([] if tokens is None else ["--speculative-num-draft-tokens", str(tokens)]),
    )


def test_unknown_flags_and_choices_exit_with_2(capsys):
    for flags in (["--cuda-graph-max-bs-decode", "8"], ["--attention-backend", "flash"], ["--tp-size", "eight"]):
        with pytest.raises(SystemExit) as caught:
            resolved(*flags)
        assert caught.value.code == 2
    assert "invalid choice: 'flash'" in capsys.readouterr().err


def test_prefixes_work_as_argparse_has_them_and_ambiguous_ones_exit_with_2():
    assert resolved("--max-running", "7").values["max_running_requests"] == 7
    with pytest.raises(SystemExit):
        resolved("--speculative-draft", "d")


def test_names_are_those_that_the_server_reports():
    info = server_info(resolved("--dp-size", "1"))
    assert (info["tp_size"], info["dp_size"], info["version"]) == (8, 1, "0.5.9")
    assert "tensor_parallel_size" not in info


def test_without_speculation_the_overlap_scheduler_is_on_and_requests_are_many():
    plan = resolved().plan
    assert plan.overlap
    assert plan.tree is None
    assert plan.max_running == 2048


def test_speculation_caps_running_requests_at_48_unless_told_otherwise():
    assert resolved(*tree(2, 1, 3)).values["max_running_requests"] == 48
    assert resolved(*tree(2, 1, 3), "--max-running-requests", "200").plan.max_running == 200


def test_draft_tokens_follow_steps_at_topk_1():
    for asked in (None, 8):
        found = resolved(*tree(4, 1, asked))
        assert found.values["speculative_num_draft_tokens"] == 5
        assert any("adjusted" in warning for warning in found.warnings)


def test_steps_unset_gives_3_1_4():
    values = resolved(*DRAFT).values
    names = ("speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens")
    assert [values[name] for name in names] == [3, 1, 4]


def test_steps_unset_with_topk_set_is_an_assertion_without_text():
    with pytest.raises(AssertionError) as caught:
        resolved(*DRAFT, "--speculative-eagle-topk", "2")
    assert str(caught.value) == ""


def test_topk_left_out_is_a_type_error():
    with pytest.raises(TypeError):
        resolved(*DRAFT, "--speculative-num-steps", "2")


def test_spec_v2_is_an_environment_variable_and_refuses_topk_above_1():
    assert not resolved(*tree(2, 1, 3)).plan.overlap
    assert resolved(*tree(2, 1, 3), "--disable-overlap-schedule", **V2).plan.overlap
    with pytest.raises(ValueError, match="Spec v2 currently only supports topk = 1"):
        resolved(*tree(2, 4, 8), **V2)


def test_a_typo_in_an_sglang_variable_is_a_warning_and_the_default():
    found = resolved(*tree(2, 1, 3), SGLANG_ENABLE_SPEC_V2="ture")
    assert not found.plan.overlap
    assert any("SGLANG_ENABLE_SPEC_V2" in warning for warning in found.warnings)


def test_trtllm_mha_is_refused_on_sm120_and_with_topk_above_1_elsewhere():
    with pytest.raises(ValueError, match="SM100"):
        resolved("--attention-backend", "trtllm_mha")
    with pytest.raises(ValueError, match="trtllm_mha backend only supports topk = 1"):
        resolved(*tree(2, 4, 8), "--attention-backend", "trtllm_mha", node=NVLINK_X8)


def test_fa3_on_sm120_dies_once_the_weights_are_loaded():
    failure = resolved("--attention-backend", "fa3").failure
    assert failure.stage == "backend"
    assert "requires SM>=80 and SM<=90" in failure.error


def test_a_tree_larger_than_its_candidates_dies_at_graph_capture():
    assert resolved(*tree(2, 4, 21)).failure is None
    failure = resolved(*tree(2, 4, 22)).failure
    assert failure.stage == "capture"
    assert "selected index k out of range" in failure.error


def test_what_does_not_fit_dies_at_its_own_stage():
    assert resolve(RTX_PRO_6000_X8, ["--model-path", "m"], {}).failure.stage == "weights"
    small = resolved("--mem-fraction-static", "0.7").failure
    assert small.stage == "pool"
    assert "Please try to increase --mem-fraction-static" in small.error
    large = resolved(*tree(3, 4, 32), "--max-running-requests", "512", "--mem-fraction-static", "0.9").failure
    assert large.stage == "capture"
    assert "Capture cuda graph failed: CUDA out of memory" in large.error
    assert resolved(*tree(3, 4, 32), "--mem-fraction-static", "0.9").failure is None  # 48 requests: small graphs


def test_more_cards_than_there_are_is_a_device_error():
    assert "invalid device ordinal" in resolve(RTX_PRO_6000_X8, ["--model-path", "m", "--tp", "16"], {}).failure.error


@pytest.mark.parametrize(
    ("environment", "ok"),
    [
        ({"NCCL_ALGO": "Tree"}, False),
        ({"NCCL_ALGO": "allreduce:tree"}, True),
        ({"NCCL_ALGO": "Ring"}, True),
        ({"NCCL_ALGO": "Star"}, False),
        ({"NCCL_PROTO": "LL,Simple"}, True),
        ({"NCCL_PROTO": "fast"}, False),
        ({"NCCL_P2P_LEVEL": "NODE"}, True),  # ignored without a word
    ],
)
def test_nccl_refuses_what_it_refuses(environment, ok):
    failure = resolved(**environment).failure
    assert (failure is None) is ok
    if failure is not None:
        assert failure.error.startswith("NCCL WARN")


def test_graphs_stop_at_the_last_listed_size_and_at_the_pool():
    assert resolved("--cuda-graph-max-bs", "30").plan.graph_max_bs == 24
    assert resolved(*tree(2, 1, 3), "--cuda-graph-max-bs", "30").plan.graph_max_bs == 30
    assert resolved(*tree(2, 1, 3), "--cuda-graph-max-bs", "512").plan.graph_max_bs == 48
    assert resolved("--disable-cuda-graph").plan.graph_max_bs == 0
    assert resolved("--attention-backend", "torch_native").plan.graph_max_bs == 0


def test_the_attention_backend_is_chosen_by_the_card():
    assert resolved().values["attention_backend"] == "triton"
    assert resolved(node=NVLINK_X8).values["attention_backend"] == "flashinfer"


def test_a_draft_must_be_given():
    with pytest.raises(ValueError, match="--speculative-draft-model-path"):
        resolved("--speculative-algorithm", "EAGLE3")
    assert resolved("--speculative-algorithm", "NGRAM").failure is None


def test_speculation_and_larger_graphs_leave_less_memory():
    plain = resolved("--cuda-graph-max-bs", "128").memory
    drafting = resolved(*tree(2, 1, 3), "--cuda-graph-max-bs", "128").memory
    assert drafting.capacity_tokens < plain.capacity_tokens
    wide = resolved(*tree(3, 4, 16), "--max-running-requests", "128", "--cuda-graph-max-bs", "128").memory
    assert wide.graph_gib > drafting.graph_gib
