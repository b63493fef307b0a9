import math
from dataclasses import replace

import pytest

from autotune.simulated_node.latency import StepModel, allreduce_factor
from autotune.simulated_node.nodes import NVLINK_X8, RTX_PRO_6000_X8
from autotune.simulated_node.resolution import resolve

TUNED = {"NCCL_PROTO": "LL", "NCCL_ALGO": "Ring", "NCCL_P2P_LEVEL": "SYS"}
BASE = ["--model-path", "m", "--tp", "8", "--attention-backend", "flashinfer", "--cuda-graph-max-bs", "128"]
CHAIN = ["--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", "d", "--speculative-eagle-topk", "1"]


def plan(*flags, node=RTX_PRO_6000_X8, **environment):
    return resolve(node, [*BASE, *flags], environment).plan


def step_s(running, *flags, context=0, **environment):
    return StepModel(RTX_PRO_6000_X8, plan(*flags, **environment)).decode_s(running, context)


def test_a_larger_batch_takes_longer_and_less_for_each_request():
    times = [step_s(running, **TUNED) for running in (1, 2, 5, 10, 30, 100)]
    assert times == sorted(times)
    each = [time / running for time, running in zip(times, (1, 2, 5, 10, 30, 100), strict=True)]
    assert each == sorted(each, reverse=True)


def test_each_nccl_setting_helps_and_together_they_make_the_fitted_factor():
    times = [step_s(1)] + [step_s(1, **{name: value}) for name, value in TUNED.items()]
    assert all(time < times[0] for time in times[1:])
    fitted = RTX_PRO_6000_X8.step.untuned_factor
    assert allreduce_factor(RTX_PRO_6000_X8, plan()) == pytest.approx(fitted)
    assert allreduce_factor(RTX_PRO_6000_X8, plan(**TUNED)) == pytest.approx(1.0)


def test_nccl_reads_the_level_case_sensitively():
    assert step_s(1, NCCL_P2P_LEVEL="sys") == step_s(1)
    assert step_s(1, NCCL_P2P_LEVEL="SYS") < step_s(1, NCCL_P2P_LEVEL="PHB") < step_s(1)


def test_simple_is_slow_for_small_messages_and_catches_up_for_large_ones():
    ll, simple = dict(TUNED), {**TUNED, "NCCL_PROTO": "Simple"}
    assert step_s(1, **simple) / step_s(1, **ll) > step_s(120, **simple) / step_s(120, **ll) > 1


def test_the_fusion_flag_saves_its_share_of_the_all_reduces():
    saved = step_s(1, **TUNED) - step_s(1, "--enable-flashinfer-allreduce-fusion", **TUNED)
    costs = RTX_PRO_6000_X8.step
    assert saved * 1e3 == pytest.approx(costs.fusion_saving * costs.allreduce_ms)


def test_custom_all_reduce_is_inert_on_pcie_and_matters_on_nvlink():
    assert step_s(1) == step_s(1, "--disable-custom-all-reduce")
    with_it = allreduce_factor(NVLINK_X8, plan(node=NVLINK_X8))
    assert with_it < allreduce_factor(NVLINK_X8, plan("--disable-custom-all-reduce", node=NVLINK_X8))


def test_above_the_graph_ceiling_steps_are_eager():
    model = StepModel(RTX_PRO_6000_X8, plan("--cuda-graph-max-bs", "16"))
    assert model.uses_graph(16)
    assert not model.uses_graph(17)
    assert model.decode_s(17, 0) > 1.4 * model.decode_s(16, 0)


def test_a_ceiling_of_512_costs_the_published_nine_percent():
    assert step_s(1, "--cuda-graph-max-bs", "512") / step_s(1) == pytest.approx(1.09)


def test_context_is_read_on_every_step():
    more = step_s(4, context=4000) - step_s(4)
    assert more == pytest.approx(4000 * RTX_PRO_6000_X8.step.kv_us_per_token * 1e-6)


def test_spec_v2_hides_the_draft_and_v1_pays_for_it_and_for_every_request():
    steps = ("--speculative-num-steps", "5")
    v1 = StepModel(RTX_PRO_6000_X8, plan(*CHAIN, *steps))
    v2 = StepModel(RTX_PRO_6000_X8, plan(*CHAIN, *steps, SGLANG_ENABLE_SPEC_V2="1"))
    assert v2.decode_s(8, 0) * 1e3 == pytest.approx(v2.verify_ms(8))
    extra = v1.decode_s(8, 0) * 1e3 - v1.verify_ms(8)
    assert extra == pytest.approx(v1.draft_ms(8) + 8 * 6 * RTX_PRO_6000_X8.speculation.v1_token_ms)


def test_distinct_experts_saturate():
    free = replace(RTX_PRO_6000_X8.step, fixed_ms=0, allreduce_ms=0, token_ms=0, expert_ms=1, graph_excess=0)
    model = StepModel(replace(RTX_PRO_6000_X8, step=free), plan())
    assert model.forward_ms(1) == pytest.approx(8)
    assert model.forward_ms(100) == pytest.approx(384 * (1 - (1 - 8 / 384) ** 100))


def test_without_the_overlap_scheduler_steps_are_longer():
    assert step_s(8, "--disable-overlap-schedule") > step_s(8)


def test_prefill_is_linear_in_tokens():
    model = StepModel(RTX_PRO_6000_X8, plan())
    assert math.isclose(model.prefill_s(300), 3 * model.prefill_s(100))
