import pytest

from autotune import engines, spacefile
from autotune.domain.space import Values
from autotune.domain.study import StudySpec
from autotune.errors import SpaceFileError

A, B = "/opt/a/bin/python", "/opt/b/bin/python"
HEAD = "study: two\nworkload: {concurrency: {1: 1}}\nbudget: {trials: 3}\n"
PARAMETERS = "parameters:\n  graph: [32, 64]\n"


def read(python: str, rest: str = "", *overrides: str, engine: str | None = None) -> StudySpec:
    text = f"{HEAD}engine: {{name: sglang, model: /m, python: {python}}}\n{rest or PARAMETERS}"
    return spacefile.load_text(text, "two.yaml", overrides, engine=engine)


def faults(*arguments: str, engine: str | None = None) -> list[str]:
    with pytest.raises(SpaceFileError) as raised:
        read(*arguments, engine=engine)
    return [str(fault) for fault in raised.value.faults]


def test_a_list_is_a_parameter_and_the_first_in_order() -> None:
    spec = read(f"[{A}, {B}]")
    assert [parameter.name for parameter in spec.space.parameters] == ["engine_python", "graph"]
    assert spec.space.parameters[0].domain == Values((A, B))
    assert (spec.engine.python, spec.engine.pythons) == (A, (A, B))
    assert spec.engine.interpreters == (A, B)


@pytest.mark.parametrize("python", [A, f"[{A}]"])
def test_one_interpreter_is_no_parameter(python: str) -> None:
    spec = read(python)
    assert [parameter.name for parameter in spec.space.parameters] == ["graph"]
    assert (spec.engine.python, spec.engine.pythons, spec.engine.interpreters) == (A, (), (A,))
    assert "engine_python" not in spec.baseline


def test_the_baseline_takes_the_first_unless_it_names_another() -> None:
    assert read(f"[{A}, {B}]").baseline["engine_python"] == A
    assert read(f"[{A}, {B}]", PARAMETERS + "baseline: {graph: 32}\n").baseline["engine_python"] == A
    assert read(f"[{A}, {B}]", PARAMETERS + f"baseline: {{engine_python: {B}}}\n").baseline["engine_python"] == B


def test_known_good_takes_the_first_unless_it_names_another() -> None:
    good = f"known_good:\n  - {{graph: 32}}\n  - {{graph: 32, engine_python: {B}}}\n"
    assert [c["engine_python"] for c in read(f"[{A}, {B}]", PARAMETERS + good).known_good] == [A, B]


def test_the_interpreter_is_part_of_a_configuration_s_identity() -> None:
    one, other = (c for c in read(f"[{A}, {B}]").space.configurations() if c["graph"] == 32)
    assert one.digest != other.digest


@pytest.mark.parametrize(
    "section", ["baseline: {engine_python: /c}\n", "known_good: [{graph: 32, engine_python: /c}]\n"]
)
def test_an_interpreter_that_is_not_listed_is_refused_where_it_is_named(section: str) -> None:
    (fault,) = faults(f"[{A}, {B}]", PARAMETERS + section)
    assert f"engine_python must be an interpreter of engine.python ({A}, {B}), but got `/c`" in fault
    assert fault.startswith("two.yaml:7:")


def test_a_baseline_may_name_the_only_interpreter_and_no_other() -> None:
    assert "engine_python" not in read(A, PARAMETERS + f"baseline: {{engine_python: {A}}}\n").baseline
    assert "must be an interpreter of engine.python" in faults(A, PARAMETERS + f"baseline: {{engine_python: {B}}}\n")[0]


def test_it_may_not_stand_under_parameters() -> None:
    (fault,) = faults(A, f"parameters:\n  engine_python: [{A}, {B}]\n")
    assert "two.yaml:6:3: `engine_python` may not stand under parameters" in fault
    assert "list the interpreters under engine.python" in fault


@pytest.mark.parametrize(
    ("python", "rule"),
    [
        ("[]", "must be an interpreter, or a list of them"),
        (f"[{A}, {A}]", "holds an interpreter twice"),
        (f"[{A}, unset]", "must list interpreters"),
        (f"[{A}, 3]", "must be text"),
        (f"[{A}, [{B}]]", "must be text"),
        ("{a: b}", "must be text"),
    ],
)
def test_a_list_that_is_none_is_refused(python: str, rule: str) -> None:
    assert rule in faults(python)[0]


def test_an_override_gives_a_list_and_takes_it_away() -> None:
    assert read(A, PARAMETERS, f"engine.python=[{A}, {B}]").engine.pythons == (A, B)
    assert read(f"[{A}, {B}]", PARAMETERS, f"engine.python={B}").engine.interpreters == (B,)


def test_study_yaml_of_such_a_space_loads_as_the_same_study() -> None:
    good = f"baseline: {{engine_python: {B}}}\nknown_good: [{{graph: 64}}]\nconstraints: ['engine_python == \"{A}\"']\n"
    spec = read(f"[{A}, {B}]", PARAMETERS + good)
    again = spacefile.load_text(spacefile.dump(spec.source), "study.yaml")
    assert again == spec


CONDITIONED = f"""\
parameters:
  graph: {{values: [32, 64], when: 'engine_python == "{B}"'}}
constraints: ['engine_python != "{A}" or graph > 32']
baseline: {{engine_python: {B}, graph: 32}}
known_good: [{{engine_python: {B}, graph: 64}}]
"""


def test_a_parameter_may_exist_on_one_interpreter_alone() -> None:
    found = list(read(f"[{A}, {B}]", CONDITIONED).space.configurations())
    assert [c.get("graph") for c in found] == [None, 32, 64]


def test_a_condition_on_an_interpreter_that_is_not_listed_is_refused() -> None:
    (fault,) = faults(f"[{A}, /c]", "parameters:\n  graph: {values: [1], when: 'engine_python == \"/d\"'}\n")
    assert "`engine_python` is never `/d`" in fault


def test_expressions_know_the_only_interpreter() -> None:
    spec = read(B, "parameters:\n  graph: {values: [32], when: 'engine_python == \"" + B + "\"'}\n")
    assert [c.get("graph") for c in spec.space.configurations()] == [32]


def test_on_the_simulated_node_the_parameter_is_gone_and_what_speaks_of_it_stays_harmless() -> None:
    spec = read(
        f"[{A}, {B}]", CONDITIONED.replace(", graph: 32}", "}").replace(", graph: 64}", "}"), engine="simulated"
    )
    assert (spec.engine.python, spec.engine.pythons) == (None, ())
    assert [parameter.name for parameter in spec.space.parameters] == ["graph"]
    assert dict(spec.baseline) == {}
    assert [dict(good) for good in spec.known_good] == [{}]
    assert [spec.space.broken(c) for c in spec.space.configurations()] == [()]


def test_a_simulated_node_refuses_a_list_of_its_own() -> None:
    text = f"{HEAD}engine: {{name: simulated, model: m, python: [{A}, {B}]}}\n{PARAMETERS}"
    with pytest.raises(SpaceFileError) as raised:
        spacefile.load_text(text, "two.yaml", check_engine=engines.get("simulated").check_spec)
    assert "two.yaml:4:37: engine.python may not be a list here" in str(raised.value)
