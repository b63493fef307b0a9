from dataclasses import replace

import pytest
from builders import command, comparison, configuration, failure, measurement, provenance, spec, study_result, trial

from autotune.domain.study import StudyResult
from autotune.domain.trial import Difference
from autotune.reporting import experiment_note, markdown_report, terminal_report
from autotune.reporting.layout import Table, as_markdown, as_text, code_block, escape

documents = pytest.mark.parametrize("document", [terminal_report, markdown_report, experiment_note])


def study(**best: object) -> StudyResult:
    return study_result(trial(0), trial(1, 356.6, **best), trial(2, None), comparison=comparison())


@documents
def test_every_document_has_verdict_throughput_and_launch_command(document: object) -> None:
    text = document(study())  # type: ignore[operator]
    assert "trial 1 beats the baseline by 7.1 % ± 1.3" in text
    assert "485.3 ± 1.0" in text
    assert "NCCL_PROTO=LL /opt/sglang/bin/python -m sglang.launch_server --model-path /models/kimi" in text
    assert text.endswith("\n")


@documents
def test_every_document_of_a_simulated_study_is_stamped_with_the_clock_rate(document: object) -> None:
    text = document(study(provenance=provenance(simulated=True, clock_rate=20.0)))  # type: ignore[operator]
    assert "SIMULATED" in text
    assert "clock rate 20" in text
    assert "[simulated]" in text.replace("\\", "")
    assert "SIMULATED" not in document(study())  # type: ignore[operator]


@documents
def test_no_document_shows_a_secret(document: object) -> None:
    launched = command(
        "--api-key", "hush1", "--admin-api-key=hush2", chosen={"HF_TOKEN": "hush3", "A_PASSWORD": "4711"}
    )
    differences = (Difference("api_key", "hush1", "hush5"),)
    text = document(study(command=launched, differences=differences))  # type: ignore[operator]
    for secret in ("hush", "4711"):
        assert secret not in text
    assert 'HF_TOKEN="${HF_TOKEN}"' in text
    assert '--api-key "${API_KEY}"' in text


@documents
def test_a_study_of_which_nothing_came_still_has_every_document(document: object) -> None:
    text = document(StudyResult(spec(), (), stopped_because="interrupted"))  # type: ignore[operator]
    assert "no trial completed" in text
    assert "interrupted" in text
    assert "None" not in text


def test_the_report_has_a_section_for_each_thing_a_reader_must_know() -> None:
    differences = (Difference("max_running_requests", "256", "48"),)
    remarked = (measurement(1, 99.3), measurement(10, 485.3, remarks=("in flight fell to 9 of 10",)))
    text = markdown_report(study(differences=differences, measurements=remarked, remarks=("had to be killed",)))
    for said in (
        "| max_running_requests | 256 | 48 |",
        "- trial 1, level 10: in flight fell to 9 of 10",
        "- trial 1: had to be killed",
        "| 2 | out_of_memory | 1 |",
        "CUDA out of memory. Tried to allocate 2.00 GiB",
        "- NCCL_ALGO",
        "| engine | sglang 0.5.23 |",
        "| node: gpu | 8 x RTX PRO 6000 Blackwell |",
        "| tuner: commit | abc1234 |",
        "10 at 1, 50 at 10",
        "| speculative_algorithm | unset | EAGLE3 |",
        "C= 10 | 60 requests | throughput:   485.3 tok/s",
    ):
        assert said in text


def test_the_note_leaves_out_what_the_report_is_for() -> None:
    note = experiment_note(study())
    assert "Provenance" not in note
    assert len(note) < len(markdown_report(study())) / 2


def test_trials_of_different_provenance_are_told_apart() -> None:
    text = markdown_report(study(provenance=provenance(engine_version="0.5.15")))
    assert "Trials 0, 2:" in text
    assert "Trials 1:" in text
    assert "| engine | sglang 0.5.15 |" in text


def test_values_that_are_mark_up_stay_what_they_are() -> None:
    awkward = "a|b `c` *d*\n# e [f](g) <h>"
    failed = trial(2, None, configuration=configuration(note=awkward), failure=failure(evidence=awkward))
    text = markdown_report(study_result(trial(0), failed, spec=replace(spec(), name=awkward)))
    shown = "a\\|b \\`c\\` \\*d\\* # e \\[f\\](g) \\<h>"
    assert f"# {shown}" in text
    assert text.count(shown) >= 4
    lines = [line for line in text.splitlines() if line.startswith("| 2 | out_of_memory")]
    assert lines[0].replace("\\|", "").count("|") == 6


def test_a_code_block_cannot_be_left_from_inside() -> None:
    assert code_block("a ``` b") == "````\na ``` b\n````"
    assert code_block("x", "bash") == "```bash\nx\n```"


def test_escaped_text_is_one_line() -> None:
    assert escape("a\n\nb\\c") == "a b\\\\c"


def test_a_table_aligns_numbers_to_the_right() -> None:
    table = Table(("name", "n"), (("a", "1"), ("long name", "22")), frozenset({1}))
    assert as_text(table) == "name        n\n---------  --\na           1\nlong name  22"
    assert as_markdown(table) == "| name | n |\n| --- | ---: |\n| a | 1 |\n| long name | 22 |"


def test_a_table_without_rows_is_nothing() -> None:
    assert as_text(Table(("a",), ())) == as_markdown(Table(("a",), ())) == ""
