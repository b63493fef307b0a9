from pathlib import Path

import pytest

from autotune import spacefile
from autotune.domain.space import Values
from autotune.errors import SpaceFileError

TEXT = """\
study: base
engine:
  name: sglang
  python: /old/python
  model: /models/m
  args: {max-running-requests: 256}
parameters:
  algorithm: [unset, EAGLE3]
  steps: {low: 1, high: 8, when: algorithm != unset}
  graph: [32, 64, 128]
  NCCL_PROTO: {values: [unset, LL], env: true}
constraints:
  - steps < 7
baseline: {graph: 32}
known_good:
  - {algorithm: EAGLE3, steps: 2, graph: 64, NCCL_PROTO: LL}
workload: {concurrency: {1: 1}}
budget: {trials: 3}
"""


def read(*overrides, **options):
    return spacefile.load_text(TEXT, "space.yaml", overrides, **options)


def faults(*overrides, **options):
    with pytest.raises(SpaceFileError) as raised:
        read(*overrides, **options)
    return [(fault.file, fault.line, fault.rule) for fault in raised.value.faults]


def test_a_value_is_replaced():
    assert read("engine.python=/new/python").engine.python == "/new/python"
    assert read("engine.args.max-running-requests=64").engine.args == {"max-running-requests": 64}
    assert read("budget.trials=5").budget.trials == 5
    assert read("study= other ").name == "other"


def test_a_value_may_hold_an_equals_sign_and_more():
    assert read("engine.args.json=a=b").engine.args["json"] == "a=b"
    assert str(read("constraints.0=steps <= 3").space.constraints[0]) == "steps <= 3"


def test_flow_collections_replace_whole_sections():
    assert read("workload.concurrency={1: 1, 4: 2}").workload.concurrency == {1: 1.0, 4: 2.0}
    assert read("constraints=[]").space.constraints == ()


def test_a_level_is_set_by_its_number():
    assert read("workload.concurrency.1=3", "workload.concurrency.8=2").workload.concurrency == {1: 3.0, 8: 2.0}


def test_a_section_that_is_missing_is_made():
    assert read("engine.node.speed=100", "engine.node.name=x").engine.node == {"speed": 100, "name": "x"}
    assert read("objective.metric=weighted_speedup").objective.metric == "weighted_speedup"


def test_items_of_lists_are_numbered_from_zero():
    assert read("known_good.0.steps=3").known_good[0]["steps"] == 3


def test_the_last_of_two_overrides_wins():
    assert read("budget.trials=5", "budget.trials=6").budget.trials == 6


def test_a_list_replaces_the_values_of_a_parameter_and_keeps_the_rest():
    space = read("parameters.NCCL_PROTO=[LL, Simple]", "parameters.steps=[2, 4]").space
    proto, steps = space.parameter("NCCL_PROTO"), space.parameter("steps")
    assert proto.domain == Values(("LL", "Simple"))
    assert proto.env
    assert steps.domain == Values((2, 4))
    assert str(steps.when) == "algorithm != unset"


def test_a_mapping_replaces_a_parameter_altogether():
    assert read("parameters.steps={values: [2]}").space.parameter("steps").when is None


def test_the_simulated_engine_takes_no_interpreter():
    spec = read(engine="simulated")
    assert (spec.engine.name, spec.engine.python) == ("simulated", None)
    assert read("engine.python=/x", engine="simulated").engine.python is None
    assert read(engine="other").engine.python == "/old/python"


def test_the_dump_holds_what_the_overrides_made_of_the_file():
    spec = read("budget.trials=5", "parameters.graph=[32, 64]", engine="simulated")
    assert spacefile.load_text(spacefile.dump(spec.source), "study.yaml") == spec


@pytest.mark.parametrize(
    ("override", "rule"),
    [
        ("budget.trials=0", "budget.trials must be a whole number of at least 1"),
        ("budget.trial=5", "unknown key `trial` in budget"),
        ("budgets.trials=5", "unknown key `budgets`"),
        ("constraints.3=steps < 2", "constraints has 1 items, numbered from 0"),
        ("constraints.x=steps < 2", "constraints has 1 items, numbered from 0"),
        ("study.name=x", "study is one value, and has no `name` inside"),
        ("constraints.0=steps < nothing", "constraints.0: `nothing` is no parameter and no fixed argument"),
        ("engine.python", "an override is a dotted path, `=`, and a value"),
        ("=3", "an override is a dotted path, `=`, and a value"),
        ("a..b=3", "an override is a dotted path, `=`, and a value"),
        ("engine.args.x=[", "not valid YAML: expected the node content, but found '<stream end>'"),
        ("engine.args.x=", "engine.args.x must be a value"),
        ("parameters.graph.values=[1]", "parameters.graph has 3 items, numbered from 0"),
        ("parameters.graph=[1, 1]", "parameters.graph holds a value twice"),
    ],
)
def test_a_fault_of_an_override_names_the_override(override, rule):
    assert faults(override) == [(f"--set {override}", 0, rule)]


def test_faults_of_overrides_follow_those_of_the_file_in_the_order_given():
    with pytest.raises(SpaceFileError) as raised:
        spacefile.load_text(TEXT.replace("trials: 3", "trials: x"), "f", ["seed=-1", "limits.start_s=0"])
    assert [fault.file for fault in raised.value.faults] == ["f", "--set seed=-1", "--set limits.start_s=0"]


def test_a_secret_given_by_an_override_is_not_shown():
    with pytest.raises(SpaceFileError) as raised:
        read("engine.env.HF_TOKEN=hf_abc")
    assert "--set engine.env.HF_TOKEN=...: `HF_TOKEN` looks like a secret" in str(raised.value)
    assert "hf_abc" not in str(raised.value)


def test_an_engine_may_object_to_its_section_where_the_key_stands():
    def objects(spec):
        assert spec.args == {"max-running-requests": 256}
        return ("engine.args.max-running-requests may not be set", "engine.node is missing", "something else")

    with pytest.raises(SpaceFileError) as raised:
        read(check_engine=objects)
    assert [(fault.line, fault.column, fault.rule) for fault in raised.value.faults] == [
        (2, 1, "engine.node is missing"),
        (2, 1, "something else"),
        (6, 10, "engine.args.max-running-requests may not be set"),
    ]


def test_a_file_is_read_from_disk_with_its_overrides(tmp_path: Path):
    path = tmp_path / "space.yaml"
    path.write_text(TEXT)
    assert spacefile.load(path, ["seed=4"], engine="simulated").seed == 4
