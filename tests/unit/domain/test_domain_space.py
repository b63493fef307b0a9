import pytest

from autotune.domain.configuration import Configuration
from autotune.domain.expression import parse
from autotune.domain.space import GRID_LIMIT, Constraint, FloatRange, IntRange, Parameter, SearchSpace, Values


def speculation(*constraints):
    return SearchSpace(
        parameters=(
            Parameter("algorithm", Values((None, "EAGLE3"))),
            Parameter("topk", Values((1, 2)), when=parse("algorithm != unset")),
            Parameter("tokens", Values((2, 4)), when=parse("topk > 1")),
            Parameter("graph", Values((32, 64))),
        ),
        constraints=tuple(Constraint(parse(text)) for text in constraints),
        fixed={"cap": 48},
    )


def test_values_tell_yes_from_one():
    assert True not in Values((1, 2))
    assert 1 not in Values((True, False))
    assert 1.0 not in Values((1,))
    assert None in Values((None, "a"))


def test_a_whole_range_holds_its_steps():
    span = IntRange(2, 10, 4)
    assert span.grid() == (2, 6, 10)
    assert [value for value in range(12) if value in span] == [2, 6, 10]
    assert 2.0 not in span
    assert True not in IntRange(0, 1)


def test_a_logarithmic_whole_range_offers_powers_of_two_and_its_ends():
    assert IntRange(3, 20, log=True).grid() == (3, 4, 8, 16, 20)
    assert IntRange(4, 4, log=True).grid() == (4,)
    assert 5 in IntRange(3, 20, log=True)


def test_a_wide_range_is_thinned_and_keeps_its_ends():
    for span in (IntRange(1, 10**12), FloatRange(0.0, 1e9, step=0.5)):
        grid = span.grid()
        assert len(grid) == len(set(grid)) == GRID_LIMIT
        assert (grid[0], grid[-1]) == (span.low, span.high)
        assert all(point in span for point in grid)


@pytest.mark.parametrize(
    ("span", "grid"),
    [
        (FloatRange(0.7, 0.9, step=0.1), (0.7, 0.8, 0.9)),
        (FloatRange(0.0, 1.0), (0.0, 0.25, 0.5, 0.75, 1.0)),
        (FloatRange(1e-3, 1e1, log=True), (0.001, 0.01, 0.1, 1.0, 10.0)),
        (FloatRange(0.5, 0.5), (0.5,)),
    ],
)
def test_the_grid_of_a_range_of_floats(span, grid):
    assert span.grid() == grid


@pytest.mark.parametrize(
    "span",
    [FloatRange(1e-12, 3e-12), FloatRange(1.23444, 9.87656, log=True), FloatRange(0.123456789012, 0.123456789015)],
)
def test_the_grid_never_leaves_its_range(span):
    grid = span.grid()
    assert all(point in span for point in grid)
    assert (grid[0], grid[-1]) == (span.low, span.high)


def test_a_range_of_floats_with_a_step_holds_its_steps_only():
    span = FloatRange(0.1, 0.7, step=0.2)
    assert all(point in span for point in (0.1, 0.3, 0.5, 0.7))
    assert 0.4 not in span
    assert 0.9 not in span
    assert 0.4 in FloatRange(0.1, 0.7)
    assert True not in FloatRange(0, 1)


def test_every_configuration_is_listed_once_and_holds_active_parameters_only():
    found = [str(configuration) for configuration in speculation().configurations()]
    assert found == [
        "algorithm=unset, graph=32",
        "algorithm=unset, graph=64",
        "algorithm=EAGLE3, graph=32, topk=1",
        "algorithm=EAGLE3, graph=64, topk=1",
        "algorithm=EAGLE3, graph=32, tokens=2, topk=2",
        "algorithm=EAGLE3, graph=64, tokens=2, topk=2",
        "algorithm=EAGLE3, graph=32, tokens=4, topk=2",
        "algorithm=EAGLE3, graph=64, tokens=4, topk=2",
    ]


def test_normalising_drops_what_is_inactive_along_the_whole_chain():
    space = speculation()
    assert space.normalise({"algorithm": None, "topk": 2, "tokens": 4, "graph": 32}) == Configuration(
        {"algorithm": None, "graph": 32}
    )
    assert space.normalise({"tokens": 4}) == Configuration({})


def test_normalising_keeps_names_that_are_no_parameters():
    assert speculation().normalise({"pinned": 1}) == Configuration({"pinned": 1})


def test_a_constraint_is_broken_only_where_it_is_known_to_be_false():
    space = speculation("tokens < 4", "graph < cap")
    broken = [str(constraint) for constraint in space.broken({"tokens": 4, "graph": 64})]
    assert broken == ["tokens < 4", "graph < cap"]
    assert space.broken({"graph": 32}) == ()


def test_a_pinned_name_overrides_a_fixed_argument_in_constraints():
    assert speculation("graph < cap").broken({"graph": 64, "cap": 100}) == ()


def test_the_size_counts_what_is_legal():
    size = speculation("tokens < 4").size()
    assert (size.valid, size.combinations, size.exact) == (6, 8, True)


def test_the_size_agrees_with_listing_whether_or_not_expressions_mention_a_parameter():
    for space in (speculation(), speculation("graph < cap"), speculation("tokens < 4 or graph == 32")):
        listed = list(space.configurations())
        size = space.size()
        assert size.combinations == len(listed)
        assert size.valid == sum(not space.broken(configuration) for configuration in listed)


def test_the_size_says_where_it_stopped_counting():
    space = speculation("graph < cap")
    assert not space.size(limit=7).exact
    assert space.size(limit=7).combinations == 7
    assert space.size(limit=8).exact


def test_a_huge_space_is_counted_at_once():
    space = SearchSpace(tuple(Parameter(f"p{index}", IntRange(1, 10**9)) for index in range(30)))
    assert space.size().combinations == GRID_LIMIT**30


def test_a_space_of_nothing_has_one_configuration():
    assert list(SearchSpace(()).configurations()) == [Configuration()]
    assert SearchSpace(()).size().valid == 1


def test_parameters_are_found_by_name():
    space = speculation()
    assert space.parameter("graph") is space.parameters[3]
    assert space.parameter("none") is None
    assert space.known == {"algorithm", "topk", "tokens", "graph", "cap"}
