import pytest

from autotune.domain.expression import ExpressionError, parse

KNOWN = frozenset({"algorithm", "steps", "topk", "overlap", "tp_size"})


def value(text, **values):
    return parse(text).evaluate(values, KNOWN)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("2 ** 3 ** 2", 512),
        ("-2 ** 2", -4),
        ("2 ** -1", 0.5),
        ("--3", 3),
        ("7 // 2", 3),
        ("7 % 4", 3),
        ("1 / 4", 0.25),
        ("10 - 3 - 2", 5),
        (".5 + 1e1", 10.5),
    ],
)
def test_arithmetic_follows_the_usual_order(text, expected):
    assert value(text) == expected


def test_a_literal_keeps_its_type():
    assert isinstance(value("2"), int)
    assert isinstance(value("2.0"), float)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("true or false and false", True),
        ("not true or true", True),
        ("not (true or true)", False),
        ("not not true", True),
        ("steps > 1 and topk == 1", True),
        ("steps <= 1 or topk >= 2", False),
        ("algorithm == EAGLE3", True),
        ("algorithm != 'EAGLE3'", False),
        ('algorithm in [NGRAM, "EAGLE3"]', True),
        ("steps in [1, 2,]", True),
        ("steps in []", False),
        ("tp_size % 8 == 0", True),
    ],
)
def test_logic_and_comparisons(text, expected):
    assert value(text, algorithm="EAGLE3", steps=2, topk=1, tp_size=8) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("steps > 1", None),
        ("steps + 1", None),
        ("not (steps > 1)", None),
        ("steps > 1 and true", None),
        ("steps > 1 and false", False),
        ("steps > 1 or true", True),
        ("steps > 1 or false", None),
        ("steps == unset", True),
        ("steps != unset", False),
        ("steps == 2", False),
        ("steps != 2", True),
        ("steps in [1, 2]", False),
        ("steps in [unset, 2]", True),
    ],
)
def test_what_is_unset_is_unknowable_but_for_equality(text, expected):
    assert value(text) is expected
    assert value(text, steps=None) is expected


def test_a_word_is_text_unless_it_is_known():
    assert value("EAGLE3") == "EAGLE3"
    assert value("algorithm", algorithm="NGRAM") == "NGRAM"
    assert value("'algorithm'", algorithm="NGRAM") == "algorithm"


def test_yes_and_no_are_not_one_and_zero():
    assert value("overlap == 1", overlap=True) is False
    assert value("overlap == true", overlap=True) is True
    assert value("topk == true", topk=1) is False
    assert value("overlap in [1, 2]", overlap=True) is False
    assert value("1 == 1.0") is True


def test_a_yes_or_no_is_no_number():
    assert value("overlap > 0", overlap=True) is None
    assert value("-overlap", overlap=True) is None


@pytest.mark.parametrize(
    "text",
    ["1 / 0", "1 // 0", "1 % 0", "0 ** -1", "2 ** 65", "(-8) ** 0.5", "1e300 ** 2", "1e308 * 10", "1e300 * 1e300"],
)
def test_arithmetic_without_a_result_is_unknowable(text):
    assert value(text) is None


def test_powers_of_powers_end_soon():
    assert value("((9 ** 64) ** 64) ** 64") is None


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ("", 0),
        ("steps >", 7),
        ("steps > > 1", 8),
        ("steps 1", 6),
        ("(steps", 6),
        ("steps in [1, 2", 14),
        ("steps in 3", 9),
        ("[1, 2]", 0),
        ("steps == [1]", 9),
        ("steps in [[1]]", 10),
        ("1 < steps < 3", 10),
        ("steps & 1", 6),
        ("   steps = 1", 9),
        ("'open", 0),
        ("and 1", 0),
        ("1" * 41, 0),
        ("1e999", 0),
    ],
)
def test_a_fault_shows_the_character(text, offset):
    with pytest.raises(ExpressionError) as raised:
        parse(text)
    assert raised.value.offset == offset


@pytest.mark.parametrize(
    "text",
    [
        "(" * 2000 + "1" + ")" * 2000,
        "[" * 2000,
        " ** ".join("2" * 2000),
        " + ".join("2" * 2000),
        " and ".join(["true"] * 2000),
        "steps in " + "[" * 2000,
    ],
)
def test_an_endless_expression_is_refused_rather_than_recursed_into(text):
    with pytest.raises(ExpressionError):
        parse(text)


def test_the_largest_expression_that_is_allowed_can_be_evaluated():
    assert value(" + ".join(["1"] * 150)) == 150
    assert value(" ** ".join(["1"] * 31)) == 1
    assert value("(" * 30 + "1" + ")" * 30) == 1


def test_words_are_names_and_unquoted_text():
    assert parse("a == b and c in [d, 'e'] or not -f < 1").words == {"a", "b", "c", "d", "f"}


def test_a_node_knows_where_it_begins():
    root = parse("steps > 1 and  topk == 1").root
    assert [child.children[0].offset for child in root.children] == [0, 15]


def test_the_text_is_kept_as_it_was_written():
    assert str(parse(" steps  > 1")) == " steps  > 1"
