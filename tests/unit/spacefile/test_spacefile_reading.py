from pathlib import Path

import pytest

from autotune import spacefile
from autotune.domain.configuration import Configuration
from autotune.domain.confirmation import Confirm
from autotune.domain.measurement import Objective
from autotune.domain.space import FloatRange, IntRange, Values
from autotune.domain.study import Budget, EngineSpec, Limits
from autotune.domain.workload import Workload

ROOT = Path(__file__).parents[3]
SPACES = sorted((ROOT / "search_spaces").glob("*.yaml"))
SMALL = """\
study: small
engine: {name: sglang, model: /models/m}
workload: {concurrency: {1: 1}}
budget: {trials: 3}
"""


def read(text, *overrides, **options):
    return spacefile.load_text(text, "space.yaml", overrides, **options)


def parameters(text, *overrides):
    return {parameter.name: parameter for parameter in read(SMALL + text, *overrides).space.parameters}


def test_a_small_file_gets_every_default():
    spec = read(SMALL)
    assert spec.name == "small"
    assert spec.engine == EngineSpec("sglang", None, "/models/m")
    assert spec.space.parameters == ()
    assert spec.baseline == Configuration()
    assert spec.known_good == ()
    assert spec.workload == Workload({1: 1.0})
    assert spec.objective == Objective("weighted_throughput")
    assert spec.budget == Budget(3, None, "auto", Confirm(), stop_when_settled=True, early_stopping=True)
    assert spec.limits == Limits()
    assert (spec.seed, spec.min_requests) == (0, 10)


def test_every_key_can_be_set():
    spec = read("""\
study: every.key-1_2
seed: 0x10
engine:
  name: sglang
  python: /venv/bin/python
  model: "123"
  args: {tp-size: 8, trust-remote-code: true, mem-fraction-static: 8.5e-1, quantization: unset, dtype: bfloat16}
  env: {A: 1, B: 1e3, C: true, D: "on", E: on, F: 0x1F}
  node: {name: n, speed: 50, faults: {error_rate: 0.5, list: [1, unset]}}
workload:
  {prompts: p.jsonl, max_tokens: 7, concurrency: {2: 1, 1: 0.5}, temperature: 1, ignore_eos: false, min_requests: 3}
objective: {metric: weighted_speedup}
budget:
  {trials: unset, hours: 1, baseline_every: 4, confirm: {finalists: 2, share: 0.5, rounds: 8}, stop_when_settled: false,
   early_stopping: false}
limits: {silence_s: 1, start_s: 2, request_patience_s: 3, stop_grace_s: 4.5}
""")
    assert (spec.name, spec.seed, spec.min_requests) == ("every.key-1_2", 16, 3)
    assert spec.engine.model == "123"
    assert spec.engine.args == {
        "tp-size": 8,
        "trust-remote-code": True,
        "mem-fraction-static": 0.85,
        "quantization": None,
        "dtype": "bfloat16",
    }
    assert spec.engine.env == {"A": "1", "B": "1e3", "C": "true", "D": "on", "E": "on", "F": "0x1F"}
    assert spec.engine.node == {"name": "n", "speed": 50, "faults": {"error_rate": 0.5, "list": [1, None]}}
    assert spec.space.fixed["mem_fraction_static"] == 0.85
    assert spec.workload == Workload({2: 1.0, 1: 0.5}, "p.jsonl", 7, 1.0, False)
    assert spec.objective.metric == "weighted_speedup"
    assert spec.budget == Budget(None, 1.0, 4, Confirm(2, 0.5, 8), stop_when_settled=False, early_stopping=False)
    assert spec.limits == Limits(1.0, 2.0, 3.0, 4.5)


@pytest.mark.parametrize(
    ("written", "domain"),
    [
        ("[unset, EAGLE3]", Values((None, "EAGLE3"))),
        ("[on, off, yes, no, y]", Values(("on", "off", "yes", "no", "y"))),
        ("[true, false]", Values((True, False))),
        ("[1, 1e-3, 0x10, 08, 0o17, -2, 1_000, 1:30]", Values((1, 0.001, 16, 8, 15, -2, "1_000", "1:30"))),
        ("['1', 1, 'true', true]", Values(("1", 1, "true", True))),
        ("{values: [a, 'b c']}", Values(("a", "b c"))),
        ("{low: 1, high: 8}", IntRange(1, 8)),
        ("{low: 2, high: 8, step: 3}", IntRange(2, 8, 3)),
        ("{low: 1, high: 1024, log: true}", IntRange(1, 1024, log=True)),
        ("{low: 0.5, high: 1}", FloatRange(0.5, 1.0)),
        ("{low: 0, high: 1, step: 0.25}", FloatRange(0.0, 1.0, 0.25)),
        ("{low: 1e-3, high: 1, log: true}", FloatRange(0.001, 1.0, log=True)),
    ],
)
def test_a_domain_is_read(written, domain):
    assert parameters(f"parameters: {{x: {written}}}")["x"].domain == domain


def test_a_parameter_knows_its_condition_and_whether_it_is_a_variable():
    found = parameters("parameters: {a: [1, 2], B_C: {values: [x], when: a > 1, env: true}}")
    assert str(found["B_C"].when) == "a > 1"
    assert found["B_C"].env
    assert found["a"].when is None
    assert not found["a"].env


def test_parameters_are_put_behind_those_that_their_conditions_need():
    names = list(
        parameters("""
parameters:
  z: [1]
  c: {values: [1], when: b == 1 and a == 1}
  b: {values: [1], when: a == 1}
  y: [1]
  a: [1]
  x: [1]
""")
    )
    assert names == ["z", "y", "a", "b", "c", "x"]


def test_the_order_of_the_file_stays_where_conditions_allow_it():
    assert list(parameters("parameters: {b: [1], a: {values: [1], when: b == 1}, c: [1]}")) == ["b", "a", "c"]


def test_expressions_may_speak_of_fixed_arguments():
    spec = read(
        SMALL.replace("model: /models/m", "model: /models/m, args: {max-running-requests: 48}")
        + "parameters: {graph: [32, 64]}\nconstraints: [graph <= max_running_requests]\n"
    )
    assert spec.space.broken({"graph": 64})
    assert not spec.space.broken({"graph": 32})


def test_the_baseline_is_completed_and_cleaned():
    spec = read(
        SMALL
        + """
parameters:
  algorithm: [unset, EAGLE3]
  topk: {values: [1, 2], when: algorithm != unset}
  graph: [32, 64]
  share: {low: 0.0, high: 1.0}
baseline: {topk: 2, graph: 128, share: 1, pinned: off}
"""
    )
    assert spec.baseline == Configuration({"algorithm": None, "graph": 128, "share": 1.0, "pinned": "off"})


def test_known_good_configurations_lose_what_is_inactive():
    spec = read(
        SMALL
        + """
parameters:
  algorithm: [unset, EAGLE3]
  topk: {values: [1, 2], when: algorithm != unset}
known_good:
  - {algorithm: unset, topk: 2}
  - {algorithm: EAGLE3, topk: 1}
"""
    )
    assert spec.known_good == (
        Configuration({"algorithm": None}),
        Configuration({"algorithm": "EAGLE3", "topk": 1}),
    )


def test_a_constraint_that_the_baseline_breaks_is_no_fault():
    spec = read(SMALL + "parameters: {a: [1, 2]}\nconstraints: [a < 2]\nbaseline: {a: 2}\n")
    assert spec.space.broken(spec.baseline)


def test_a_constraint_may_speak_of_a_value_that_was_dropped_from_a_list():
    assert read(SMALL + "parameters: {a: [x, y]}\nconstraints: [a != z]\n").space.constraints


def test_unset_may_be_asked_of_a_parameter_that_is_always_set():
    text = "parameters: {a: [EAGLE3], b: {values: [1], when: a != unset}}\n"
    assert [parameter.name for parameter in read(SMALL + text).space.parameters] == ["a", "b"]


def test_a_name_may_stand_on_the_right():
    assert parameters("parameters: {a: [x, y], b: {values: [1], when: x == a}}")["b"].when is not None


def test_a_byte_order_mark_and_carriage_returns_do_no_harm(tmp_path):
    path = tmp_path / "space.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + SMALL.replace("\n", "\r\n").encode())
    assert spacefile.load(path).name == "small"


@pytest.mark.parametrize("path", SPACES, ids=lambda path: path.name)
def test_a_shipped_file_loads_and_its_dump_loads_as_the_same_study(path):
    spec = spacefile.load(path)
    assert spacefile.load_text(spacefile.dump(spec.source), "study.yaml") == spec


def test_a_dump_of_anything_loads_as_the_same_study():
    spec = read(
        SMALL.replace("model: /models/m", 'model: "1e-3", env: {A: "1e3", B: "a: b #c", C: " x ", D: "", É: ü}')
        .replace("É", "E")
        .replace("concurrency: {1: 1}", "concurrency: {5: 2.5, 1: 1}, prompts: 'null'")
        + """
parameters:
  late:
    values: ['true', true, '08', 8, 0.1, unset, '~', '-', 'on', "a\\nb", '', '=']
    when: early > 0.5 and topk in [1, 2]
  early: {low: 0.25, high: 0.75}
  topk: {low: 1, high: 1024, log: true}
  n: {low: 0, high: 1, step: 0.1, env: true}
constraints:
  - "early <
     0.9"
  - |
    not (topk == 1)
known_good:
  - {late: unset, early: 0.75, topk: 2, n: 0.3}
baseline: {late: 3, extra: "[]"}
""",
        "budget.hours=1e-3",
        engine="simulated",
    )
    again = spacefile.load_text(spacefile.dump(spec.source), "study.yaml")
    assert again == spec
    assert spacefile.dump(again.source) == spacefile.dump(spec.source)


def test_a_dump_writes_every_default():
    text = spacefile.dump(read(SMALL).source)
    for key in (
        "seed: 0",
        "max_tokens: 512",
        "ignore_eos: true",
        "silence_s: 600.0",
        "hours: unset",
        "min_requests: 10",
    ):
        assert key in text


def test_the_owners_own_command_alone_is_measured_by_baseline_only():
    spec = spacefile.load(ROOT / "search_spaces/baseline_only.yaml")
    assert list(spec.space.configurations()) == [spec.baseline]
    assert spec.budget.trials == 1


def test_eagle3_holds_the_two_published_configurations_and_all_levels():
    spec = spacefile.load(ROOT / "search_spaces/eagle3.yaml")
    assert [good["speculative_eagle_topk"] for good in spec.known_good] == [1, 4]
    assert [good["spec_v2"] for good in spec.known_good] == [True, False]
    assert spec.workload.levels == (1, 2, 5, 10, 30, 70, 100, 250)
    assert spec.space.normalise(spec.baseline) == spec.baseline
    assert not spec.space.broken(spec.baseline)
    tree = spec.known_good[1].replace(speculative_num_draft_tokens=32)
    assert [str(constraint).split()[0] for constraint in spec.space.broken(tree)] == ["speculative_num_draft_tokens"]


def test_cpu_smoke_asks_for_each_algorithm_and_for_one_refusal():
    spec = spacefile.load(ROOT / "search_spaces/cpu_smoke.yaml")
    found = list(spec.space.configurations())
    assert {configuration["speculative_algorithm"] for configuration in found} == {None, "NGRAM", "EAGLE3"}
    assert any(configuration["attention_backend"] == "fa3" for configuration in found)
    assert spec.workload.levels == (1, 4)
    assert spec.budget.trials == 7
