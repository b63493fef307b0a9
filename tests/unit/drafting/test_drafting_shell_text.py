import pytest

from autotune.drafting.shell_text import Word, split
from autotune.errors import InputError


def texts(text: str) -> list[list[str]]:
    return [[word.text for word in statement] for statement in split(text, "the command").statements]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a b  c", [["a", "b", "c"]]),
        ("a 'b c' \"d e\"", [["a", "b c", "d e"]]),
        ('a \'{"x": "y"}\'', [["a", '{"x": "y"}']]),
        ('a "say \\"hi\\""', [["a", 'say "hi"']]),
        ("a 'b'\"c\"d", [["a", "bcd"]]),
        ("a \\\n  b \\\n  c", [["a", "b", "c"]]),
        ("a \\  \n b", [["a", "b"]]),
        ("a \\\r\n b", [["a", "b"]]),
        ("a; b && c | d &", [["a"], ["b"], ["c"], ["d"]]),
        ("a\nb", [["a"], ["b"]]),
        ("a # not this\nb", [["a"], ["b"]]),
        ("a b#c", [["a", "b#c"]]),
        ("a > out.log 2>&1 b", [["a", "b"]]),
        ("nohup a 2>err.log &", [["nohup", "a"]]),
        ("a ''", [["a", ""]]),
        ("", []),
    ],
)
def test_text_is_split_as_a_shell_splits_it(text: str, expected: list[list[str]]) -> None:
    assert texts(text) == expected


def test_a_word_knows_its_line_and_column() -> None:
    (statement,) = split("a \\\n   bc", "x").statements
    assert [(word.line, word.column) for word in statement] == [(1, 1), (2, 4)]


@pytest.mark.parametrize("text", ["a 'b", 'a "b', "a $(b", "a ${b", "a `b"])
def test_what_is_never_closed_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(InputError, match=r"run\.sh:1:3: every quote must be closed"):
        split(text, "run.sh")


@pytest.mark.parametrize(
    ("text", "variables", "expected"),
    [
        ("$A", {"A": "1"}, "1"),
        ("x${A}y", {"A": "1"}, "x1y"),
        ('"$A b"', {"A": "1"}, "1 b"),
        ("'$A'", {"A": "1"}, "$A"),
        ("\\$A", {"A": "1"}, "$A"),
        ("${A:-8}", {}, "8"),
        ("${A:-8}", {"A": "4"}, "4"),
        ("${A:-8}", {"A": ""}, "8"),
        ("$A", {"A": ""}, ""),
        ("5$", {}, "5$"),
    ],
)
def test_references_are_replaced_by_what_the_text_sets(text: str, variables: dict[str, str], expected: str) -> None:
    ((word,),) = split(text, "x").statements
    assert word.expanded(variables).text == expected


@pytest.mark.parametrize(("text", "name"), [("$A", "A"), ("${A%x}", "{…}"), ("$(nproc)", "(…)"), ("`nproc`", "(…)")])
def test_what_nothing_sets_stays_a_reference_that_can_be_named(text: str, name: str) -> None:
    ((word,),) = split(text, "x").statements
    assert word.expanded({}).unknown == (name,)
    assert word.shown == f"${name}"


def test_a_line_of_a_command_that_is_switched_off_does_not_end_the_command_and_is_remarked_on() -> None:
    read = split("a \\\n # --b \\\n --c", "run.sh")
    assert [word.text for word in read.statements[0]] == ["a", "--c"]
    assert "run.sh:2" in read.remarks[0]


def test_a_nul_character_is_refused() -> None:
    with pytest.raises(InputError, match="NUL"):
        split("a\0b", "x")


def test_a_word_without_references_is_shown_as_it_is() -> None:
    assert Word("a").shown == "a"
    assert Word("a").unknown == ()
