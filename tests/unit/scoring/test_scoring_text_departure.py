"""Texts that move late are another kernel's; texts that are other ones from the start are another model's."""

import pytest

from autotune.scoring.guarding.repetition import looping_share, loops
from autotune.scoring.guarding.text_departure import Departure, departure, text_finding

TEXT = "def parse(line): return [part.strip() for part in line.split(',')]  # commas only, no quotes"
PROMPTS = [f"p{index}" for index in range(8)]


def texts(*departing: tuple[str, float]) -> dict[str, str]:
    """The same answer to every prompt but to these, which leave it at this share of its length."""
    found = dict.fromkeys(PROMPTS, TEXT)
    for prompt, share in departing:
        found[prompt] = TEXT[: int(share * len(TEXT))] + "~" * 40
    return found


def test_only_an_early_difference_counts() -> None:
    assert departure(texts(), texts()) == Departure(8, 0, 8)
    assert departure(texts(("p0", 0.3), ("p1", 0.9), ("p2", 0.1)), texts()) == Departure(8, 1, 5)


def test_an_answer_that_stops_early_departs_where_it_stops() -> None:
    assert departure({"p0": TEXT[:5]}, {"p0": TEXT}) == Departure(1, 1, 0)


def test_prompts_that_one_side_did_not_answer_are_left_out() -> None:
    assert departure({"p0": TEXT, "p1": ""}, {"p0": TEXT, "p1": TEXT, "p2": TEXT}).count == 1
    assert Departure(0, 0, 0).share == 0.0


@pytest.mark.parametrize(("departing", "found"), [(0, False), (4, False), (5, True), (8, True)])
def test_more_than_half_of_the_texts_must_depart_at_once(departing: int, found: bool) -> None:
    other = texts(*((prompt, 0.0) for prompt in PROMPTS[:departing]))
    assert (text_finding(other, [texts(), texts()]) is not None) is found


def test_texts_that_all_move_late_are_let_be() -> None:
    assert text_finding(texts(*((prompt, 0.4) for prompt in PROMPTS)), [texts(), texts()]) is None


def test_what_the_baseline_departs_from_itself_is_borne() -> None:
    unsteady = texts(*((prompt, 0.0) for prompt in PROMPTS[:4]))
    other = texts(*((prompt, 0.0) for prompt in PROMPTS))
    assert text_finding(other, [texts(), unsteady]) is None
    assert text_finding(other, [texts(), unsteady, texts(), texts()]) is not None


@pytest.mark.parametrize("baseline", [[], [texts()], [texts(), {}]], ids=["none", "once", "unanswered"])
def test_without_the_baselines_own_departure_nothing_is_said(baseline: list[dict[str, str]]) -> None:
    assert text_finding(texts(*((prompt, 0.0) for prompt in PROMPTS)), baseline) is None


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("x" * 398, None),
        ("x" * 400, True),
        ("one refrain, " * 40, True),
        ("".join(f"{index}. the same long point in the same {'very ' * 9} words\n" for index in range(40)), True),
        ("".join(f"value_{index * 31337 % 9973} = {index * 7919 % 1009}\n" for index in range(60)), False),
        (
            "".join(f"value_{index * 31337 % 9973} = {index * 7919 % 1009}\n" for index in range(30)) + "end " * 200,
            True,
        ),
        (TEXT * 2 + "".join(f"line {index * 2741 % 613} goes on to {index * index}\n" for index in range(40)), False),
    ],
    ids=["short", "one letter", "refrain", "numbered refrain", "a table", "ends in a loop", "goes on"],
)
def test_a_loop_is_a_second_half_that_says_the_same_over_and_over(text: str, verdict: bool | None) -> None:
    assert loops(text) is verdict


def test_a_share_of_nothing_is_missing() -> None:
    assert looping_share([]) == (None, 0)
