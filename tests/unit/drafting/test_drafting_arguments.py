import pytest

from autotune.drafting.arguments import Arguments, place
from autotune.drafting.shell_text import split
from autotune.engines.dialect.flag_table import release_of, table_for
from autotune.errors import InputError


def placed(text: str, version: str = "0.5.23", *, positional: bool = False) -> Arguments:
    words = split(text, "x").statements[0]
    return place(words, table_for(release_of(version)), positional_model=positional)


def values(text: str, version: str = "0.5.23", *, positional: bool = False) -> dict[str, object]:
    return {one.spelled: one.value for one in placed(text, version, positional=positional).placed.values()}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("--tp-size 8", {"tp-size": 8}),
        ("--tp-size=8", {"tp-size": 8}),
        ("--tensor-parallel-size 8", {"tensor-parallel-size": 8}),
        ("--mem-fraction-static .85", {"mem-fraction-static": 0.85}),
        ("--trust-remote-code", {"trust-remote-code": True}),
        ("--trust-remote-code --tp-size 2", {"trust-remote-code": True, "tp-size": 2}),
        ("--chunked-prefill-size -1", {"chunked-prefill-size": -1}),
        ("--json-model-override-args '{\"a\": 1}'", {"json-model-override-args": '{"a": 1}'}),
        ("--json-model-override-args='{\"a\": 1}'", {"json-model-override-args": '{"a": 1}'}),
        ("--cuda-graph-bs-decode 1 2 4 --tp-size 2", {"cuda-graph-bs-decode": "1 2 4", "tp-size": 2}),
        ("--no-enable-tp-lm-head-all-to-all", {"enable-tp-lm-head-all-to-all": False}),
        ("--tp-size 4 --tp-size 8", {"tp-size": 8}),
    ],
)
def test_values_are_read_as_the_flag_takes_them(text: str, expected: dict[str, object]) -> None:
    assert values(text) == expected


@pytest.mark.parametrize(
    ("text", "version", "expected"),
    [
        ("--tp 8", "0.5.9", {"tp-size": 8}),
        ("--tp 8", "0.5.23", {"tp-size": 8}),
        ("--cuda-graph-max 64", "0.5.9", {"cuda-graph-max-bs": 64}),
        ("--cuda-graph-max-bs 64", "0.5.15", {"cuda-graph-max-bs": 64}),
        ("--trust-remote", "0.5.23", {"trust-remote-code": True}),
        ("--speculative-draft-model m", "0.5.23", {"speculative-draft-model": "m"}),
    ],
)
def test_an_abbreviation_is_completed_as_on_that_version(text: str, version: str, expected: dict[str, object]) -> None:
    assert values(text, version) == expected


def test_a_positional_model_is_taken_where_serve_takes_one() -> None:
    assert values("/m --tp-size 2", positional=True) == {"model-path": "/m", "tp-size": 2}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("--max-runing-requests 4", "did you mean --max-running-requests"),
        ("--cuda-graph-max-bs 4", "--cuda-graph-max-bs-decode or --cuda-graph-max-bs-prefill"),
        ("--tp-size eight", "takes a whole number, but got eight"),
        ("--mem-fraction-static much", "takes a number"),
        ("--tp-size", "takes a value, but none follows"),
        ("--tp-size --trust-remote-code", "takes a value, but none follows"),
        ("--trust-remote-code=yes", "takes no value"),
        ("--attention-backend flashinfr", "did you mean flashinfer"),
        ("-x 3", "-x is no flag"),
    ],
)
def test_what_argparse_would_refuse_is_refused_with_its_place(text: str, why: str) -> None:
    with pytest.raises(InputError, match=f"1:1: .*{why}"):
        placed(text)


def test_every_fault_is_told_at_once() -> None:
    with pytest.raises(InputError, match=r"(?s)--nosuchflag.*eight"):
        placed("--nosuchflag 1 --tp-size eight")


def test_a_value_that_the_text_does_not_tell_is_left_out_and_named() -> None:
    read = placed("--tp-size $N --trust-remote-code")
    assert [one.spelled for one in read.placed.values()] == ["trust-remote-code"]
    assert read.left[0].what == "--tp-size $N"


def test_a_stray_word_is_kept_aside() -> None:
    read = placed("--tp-size 2 stray")
    assert [left.what for left in read.left] == ["stray"]
