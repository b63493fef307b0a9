import pickle

import pytest

from autotune.domain.configuration import Configuration, show_value


def test_the_order_of_keys_makes_no_difference():
    assert Configuration({"a": 1, "b": 2}) == Configuration({"b": 2, "a": 1})
    assert Configuration({"a": 1, "b": 2}).digest == Configuration({"b": 2, "a": 1}).digest


@pytest.mark.parametrize("other", [True, 1.0, "1", None])
def test_values_of_different_types_make_different_configurations(other):
    assert Configuration({"a": 1}) != Configuration({"a": other})


def test_unset_is_not_absent():
    assert Configuration({"a": None}) != Configuration({})


def test_the_digest_is_stable_across_runs():
    assert Configuration({"b": True, "a": None}).canonical == '{"a":null,"b":true}'
    assert Configuration({}).digest == "44136fa355b3"


def test_replace_and_without_leave_the_original_alone():
    first = Configuration({"a": 1, "b": 2})
    assert first.replace(a=3) == Configuration({"a": 3, "b": 2})
    assert first.without("b", "zzz") == Configuration({"a": 1})
    assert dict(first) == {"a": 1, "b": 2}


def test_a_later_change_of_the_source_does_not_reach_it():
    values = {"a": 1}
    configuration = Configuration(values)
    values["a"] = 2
    assert configuration["a"] == 1


def test_it_survives_pickling_and_works_as_a_key():
    configuration = Configuration({"a": 1})
    assert pickle.loads(pickle.dumps(configuration)) == configuration
    assert {configuration: "seen"}[Configuration({"a": 1})] == "seen"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "unset"),
        (True, "true"),
        (False, "false"),
        (4, "4"),
        (0.87654321, "0.87654321"),
        (2.0, "2.0"),
        ("LL", "LL"),
    ],
)
def test_a_value_is_shown_as_a_space_file_writes_it(value, shown):
    assert show_value(value) == shown


def test_an_empty_configuration_says_so():
    assert str(Configuration()) == "(defaults)"
    assert str(Configuration({"b": None, "a": 1})) == "a=1, b=unset"
