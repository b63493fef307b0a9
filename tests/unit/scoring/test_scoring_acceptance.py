import pytest
from builders import level_run, record

from autotune.domain.finding import Effect
from autotune.domain.measurement import LevelRun
from autotune.domain.models import Speculation
from autotune.scoring.guarding.acceptance import acceptance_findings

EAGLE3 = Speculation("EAGLE3", has_draft_model=True, draft_tokens=4)
NGRAM = Speculation("NGRAM", has_draft_model=False, draft_tokens=4)


def run(answers: int, tokens: int, passes: int | None) -> LevelRun:
    """`answers` answers of `tokens` tokens each, made in `passes` verify passes each."""
    records = [
        record(sent_s=0.1 + index / 100, tokens=tokens, gap_s=0.001, verify_count=passes, identity=f"r{index}")
        for index in range(answers)
    ]
    return level_run(*records)


def test_a_draft_that_is_accepted_raises_nothing() -> None:
    assert acceptance_findings(run(10, 64, 25), EAGLE3) == ()


def test_a_draft_of_which_nothing_is_accepted_raises_the_alarm() -> None:
    (alarm,) = acceptance_findings(run(10, 32, 31), EAGLE3)
    assert alarm.text.startswith("accept length 1.03 over 310 verify passes (1.00 without each")


def test_the_first_token_of_each_answer_is_not_taken_for_an_accepted_one() -> None:
    (alarm,) = acceptance_findings(run(50, 9, 8), EAGLE3)
    assert alarm.text.startswith("accept length 1.12 over 400 verify passes (1.00 without each")


@pytest.mark.parametrize(("passes", "raised"), [(961, True), (940, False)], ids=["1.04", "1.06"])
def test_the_bound_is_one_accepted_token_in_twenty_passes(passes: int, raised: bool) -> None:
    assert bool(acceptance_findings(run(1, 1001, passes), EAGLE3)) is raised


def test_too_few_passes_prove_nothing() -> None:
    assert acceptance_findings(run(6, 32, 31), EAGLE3) == ()
    assert len(acceptance_findings(run(7, 32, 31), EAGLE3)) == 1


def test_a_server_that_does_not_say_how_it_speculates_is_not_spared() -> None:
    assert acceptance_findings(run(10, 32, 31), None)[0].effect is Effect.ALARM


def test_without_a_draft_model_it_is_a_remark_that_accuses_no_draft() -> None:
    (remark,) = acceptance_findings(run(10, 32, 31), NGRAM)
    assert remark.effect is Effect.MARK
    assert "NGRAM" in remark.text


def test_no_speculation_and_no_window_raise_nothing() -> None:
    assert acceptance_findings(run(10, 32, None), None) == ()
    assert acceptance_findings(level_run(record(verify_count=300), window=None), EAGLE3) == ()


def test_more_tokens_a_pass_than_draft_tokens_raise_the_alarm() -> None:
    (alarm,) = acceptance_findings(run(10, 121, 24), EAGLE3)
    assert (
        "accept length 5.04 over 240 verify passes, where it must lie between 1 and 4 (the draft tokens)" in alarm.text
    )
    assert acceptance_findings(run(10, 97, 24), EAGLE3) == ()


def test_fewer_tokens_than_passes_raise_the_alarm_but_for_the_spare_passes_of_an_answer() -> None:
    assert "counters" in acceptance_findings(run(10, 32, 40), EAGLE3)[0].text
    assert "does not fit" in acceptance_findings(run(10, 32, 34), EAGLE3)[0].text
