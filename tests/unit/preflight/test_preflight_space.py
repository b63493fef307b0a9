from __future__ import annotations

from collections.abc import Mapping

import pytest

from autotune import engines, preflight
from autotune.domain.configuration import Configuration, Value
from autotune.domain.expression import parse
from autotune.domain.serving import Serving
from autotune.domain.space import IntRange, Parameter, SearchSpace, Values
from autotune.domain.study import EngineSpec, StudySpec
from autotune.domain.trial import Hardware
from autotune.errors import InputError
from tests import builders

SGLANG = engines.get("sglang")


def study(
    choices: Mapping[str, tuple[Value, ...]],
    *,
    levels: tuple[int, ...] = (1, 100),
    baseline: Mapping[str, Value] | None = None,
    known_good: tuple[Mapping[str, Value], ...] = (),
    args: Mapping[str, Value] | None = None,
) -> StudySpec:
    fixed = {"tp-size": 8, "max-running-requests": 256} if args is None else args
    return builders.spec(
        engine=EngineSpec("sglang", "/sglang/bin/python", "model", fixed),
        space=SearchSpace(tuple(Parameter(name, Values(values)) for name, values in choices.items())),
        baseline=Configuration(baseline or {}),
        known_good=tuple(Configuration(values) for values in known_good),
        workload=builders.workload(concurrency=dict.fromkeys(levels, 1.0)),
    )


def serving(spec: StudySpec, on: str = "0.5.23", hardware: Hardware | None = None) -> Serving:
    return preflight.serving_of(spec, SGLANG, {"/sglang/bin/python": preflight.assumed_version(on)}, hardware)


def refusal(spec: StudySpec, on: str = "0.5.23") -> str:
    with pytest.raises(InputError) as caught:
        preflight.refuse_impossible(spec, serving(spec, on))
    assert caught.value.hint
    return caught.value.message


def test_a_searched_and_a_known_good_ceiling_below_the_load_are_refused_and_the_baselines_is_not() -> None:
    low: dict[str, Value] = {"cuda_graph_max_bs": 32}
    spec = study({"cuda_graph_max_bs": (32, 128, 256)}, baseline=low)
    preflight.refuse_impossible(spec, serving(spec))
    assert preflight.count(spec, serving(spec)).valid == 3  # 32 is the baseline itself
    (remark,) = preflight.baseline_remarks(spec, serving(spec))
    assert remark.startswith("baseline: cuda_graph_max_bs must reach the largest concurrency level, but 32 < 100")

    other = study({"cuda_graph_max_bs": (32, 128, 256)}, baseline={"cuda_graph_max_bs": 128}, known_good=(low,))
    assert "known_good[0]: cuda_graph_max_bs must reach" in refusal(other)
    counts = preflight.count(other, serving(other))
    assert counts.valid == 2
    assert counts.refused == {"sglang: graph-ceiling: the decode graphs reach the largest concurrency level": 1}


def test_a_cap_below_the_load_is_refused_of_the_baseline_too() -> None:
    spec = study({"page_size": (1, 16)}, args={"max-running-requests": 48})
    assert "max_running_requests must be at least the largest concurrency level, but 48 < 100" in refusal(spec)


def test_every_misfit_is_told_at_once_and_each_with_all_its_places() -> None:
    chain: dict[str, Value] = {
        "speculative_algorithm": "EAGLE3",
        "speculative_num_steps": 2,
        "speculative_eagle_topk": 1,
        "attention_bakend": "triton",
    }
    spec = study(
        {"page_size": (1, 16), "speculative_num_stpes": (1, 2)},
        baseline=chain,
        known_good=(chain,),
        args={"tp-size": 8},
    )
    lines = refusal(spec).splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("baseline, known_good[0]: sglang 0.5.23 has no --attention-bakend; did you mean")
    assert "max_running_requests must be given" in lines[1]
    assert lines[2].startswith("engine.args and parameters: sglang 0.5.23 has no --speculative-num-stpes; did you mean")


def test_a_parameter_that_another_version_has_is_counted_and_does_not_stop_the_study() -> None:
    fixed: dict[str, Value] = {
        "speculative-algorithm": "NEXTN",
        "speculative-num-steps": 1,
        "speculative-eagle-topk": 1,
        "max-running-requests": 256,
    }
    spec = study({"speculative_adaptive": (None, True), "page_size": (1, 16)}, args=fixed)
    on_old = serving(spec, "0.5.9")
    preflight.refuse_impossible(spec, on_old)
    counts = preflight.count(spec, on_old)
    assert counts.valid == 2
    ((rule, number),) = counts.refused.items()
    assert number == 2
    assert "sglang 0.5.9 has no --speculative-adaptive: it is in 0.5.11 to 0.5.23" in rule


def test_a_space_that_varies_only_what_is_dead_is_refused_with_the_reason() -> None:
    spec = study({"NCCL_PROTO": (None, "LL", "Simple")}, args={})
    message = refusal(spec)
    assert "one and the same server: NCCL_PROTO change nothing here" in message
    two = study({"NCCL_PROTO": (None, "LL", "Simple")}, args={"tp-size": 2})
    preflight.refuse_impossible(two, serving(two))


def test_a_space_without_a_launchable_configuration_is_refused_with_the_reasons() -> None:
    spec = study({"cuda_graph_max_bs": (16, 32)})
    assert "no configuration of the space may be launched" in refusal(spec)
    assert "cuda_graph_max_bs must reach" in refusal(spec)


def test_hardware_reaches_the_rules() -> None:
    spec = study({"attention_backend": ("fa3", "triton")})
    known = serving(spec, hardware=preflight.assumed_hardware("sm120:8:pcie"))
    assert preflight.count(spec, known).valid == 1
    assert preflight.count(spec, serving(spec)).valid == 2


def test_a_space_too_large_to_count_is_sampled_from_all_its_corners() -> None:
    many = tuple(
        Parameter(name, IntRange(1, 50)) for name in ("page_size", "stream_interval", "schedule_conservativeness")
    )
    late = Parameter("attention_backend", Values(("triton", "flashinfer")))
    dead = Parameter("num_continuous_decode_steps", Values((None, 2)), when=parse("attention_backend == triton"))
    spec = study({})
    spec = builders.spec(engine=spec.engine, space=SearchSpace((*many, late, dead)), workload=spec.workload)
    counts = preflight.count(spec, serving(spec), limit=400)
    assert (counts.combinations, counts.exact) == (400, False)
    assert counts.refused["sglang: dead-decode-steps: num_continuous_decode_steps: no version reads it"] > 50
    assert counts == preflight.count(spec, serving(spec), limit=400)


@pytest.mark.parametrize(
    ("text", "hardware"),
    [
        ("sm120:8:pcie", Hardware("sm120", 8, link="pcie")),
        ("sm90:1", Hardware("sm90", 1)),
        ("sm100", Hardware("sm100", 1)),
    ],
)
def test_hardware_can_be_named(text: str, hardware: Hardware) -> None:
    assert preflight.assumed_hardware(text) == hardware


@pytest.mark.parametrize("text", ["", "120:8", "sm120:0", "sm120:8:wire", "sm120:x", "sm120:8:pcie:no", "smart:1"])
def test_hardware_that_is_no_hardware_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InputError, match="sm120:8:pcie"):
        preflight.assumed_hardware(text)
