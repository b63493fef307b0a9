from builders import spec

from autotune.domain.expression import parse
from autotune.domain.space import Parameter, SearchSpace, Values
from autotune.preflight.space import parameter_values

A, B = "/opt/a/bin/python", "/opt/b/bin/python"
GRAPH, ONLY_B = Parameter("graph", Values((32, 64))), f'engine_python == "{B}"'


def test_a_parser_is_asked_only_about_parameters_that_exist_on_its_interpreter() -> None:
    made = spec(
        space=SearchSpace(
            (Parameter("engine_python", Values((A, B))), GRAPH, Parameter("newer", Values((1, 2)), when=parse(ONLY_B)))
        )
    )
    assert parameter_values(made, A) == {"graph": (32, 64)}
    assert parameter_values(made, B) == {"graph": (32, 64), "newer": (1, 2)}
    assert parameter_values(made) == parameter_values(made, B)


def test_a_single_interpreter_is_asked_about_all_parameters() -> None:
    made = spec(space=SearchSpace((GRAPH, Parameter("never", Values((1,)), when=parse("graph == 7")))))
    assert parameter_values(made, A) == {"graph": (32, 64), "never": (1,)}
