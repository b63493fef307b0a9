"""What the model says of the factors, as text: beside the pairs, marked as the model's, or why not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from builders import study_result

from autotune.domain.explanation import Effect, Explanation, Interaction, Modelled
from autotune.domain.measurement import Estimate
from autotune.domain.study import StudyResult
from autotune.reporting import experiment_note, markdown_report, terminal_report
from autotune.reporting.sections.modelled import modelled_section

PAIR = Effect("spec_v2", "false", "true", Estimate(1.071, 1.058, 1.084), contexts=2)
SAME = Effect(
    "spec_v2",
    "false",
    "true",
    Estimate(1.06, 1.05, 1.07),
    {1: Estimate(1.02, 0.99, 1.05), 10: Estimate(1.1, 1.09, 1.11)},
    0,
)
ALONE = Effect("NCCL_PROTO", "unset", "LL", Estimate(1.04, 1.03, 1.05), {1: Estimate(1.04, 1.02, 1.06)}, 0)
FAINT = Effect("attention_backend", "flashinfer", "triton", Estimate(1.0, 0.98, 1.02), {}, 0)
TOGETHER = Interaction(
    "NCCL_PROTO", "unset", "LL", ("cuda_graph_max_bs",), ("64", "128"), (Estimate(1.01), Estimate(1.12)), 0.003
)
MODELLED = Modelled(
    trial=4, effects=(SAME, ALONE, FAINT), interactions=(TOGETHER,), looked_at=9, fitted=31, foretold=0.87
)


def explained(pairs: tuple[Effect, ...] = (PAIR,), **changes: Any) -> StudyResult:
    return replace(study_result(), explanation=Explanation(effects=pairs, modelled=replace(MODELLED, **changes)))


def test_an_effect_by_the_model_has_every_level_and_the_pairs_figure_of_the_same_change_beside_it() -> None:
    text = modelled_section(explained())
    assert "| factor | from | to | by the model | C=1 | C=10 | out of pairs | reading |" in text
    assert (
        "| spec_v2 | false | true | +6.0 % (+5.0 to +7.0) | +2.0 % (-1.0 to +5.0) | +10.0 % (+9.0 to +11.0) "
        "| +7.1 % (+5.8 to +8.4) | faster |"
    ) in text
    assert "| NCCL_PROTO | unset | LL | +4.0 % (+3.0 to +5.0) | +4.0 % (+2.0 to +6.0) | - | - | faster |" in text


def test_another_treatment_of_the_same_factor_is_not_put_beside_it() -> None:
    other = replace(PAIR, brought=("speculative_num_steps=3",))
    assert "+7.1 %" not in modelled_section(explained((other,)))


def test_it_is_said_whose_surroundings_how_many_trials_and_how_far_the_model_is_to_be_believed() -> None:
    text = modelled_section(explained())
    assert "Foretold, not measured: what one setting of the best configuration (trial 4) does" in text
    assert "all 31 trials at once" in text
    assert "foretells 87 % of the spread of the objective." in text
    assert "without the knowledge" in modelled_section(explained(decomposed=False))


def test_intervals_that_were_stretched_are_said_to_be() -> None:
    assert "stretched 1.30 times" in modelled_section(explained(widened=1.3))
    assert "stretched" not in modelled_section(explained())


def test_what_is_unclear_and_what_has_no_row_is_named() -> None:
    text = modelled_section(explained())
    assert "Unclear, which is not the same as none: attention_backend." in text
    assert "No row: speculative_algorithm, " in text


def test_interactions_by_the_model_stand_in_the_form_of_the_measured_ones() -> None:
    text = modelled_section(explained())
    assert "of 9 pairs of factors" in text
    assert "| NCCL_PROTO: unset to LL | cuda_graph_max_bs | 64: +1.0 % | 128: +12.0 % | 0.003 |" in text
    assert "none of 9 pairs" in modelled_section(explained(interactions=()))


@pytest.mark.parametrize("render", [markdown_report, experiment_note])
def test_a_model_that_is_not_believed_gives_its_reason_and_no_figure(render: Any) -> None:
    text = render(explained(effects=(), interactions=(), withheld="the model foretells 3 %, and 20 % are needed"))
    assert "## Effects by the model\n\nNot shown: the model foretells 3 %, and 20 % are needed." in text
    assert "by the model |" not in text


@pytest.mark.parametrize("render", [markdown_report, experiment_note])
def test_the_report_and_the_note_of_the_experiment_have_the_table(render: Any) -> None:
    assert "| NCCL_PROTO | unset | LL | +4.0 % (+3.0 to +5.0)" in render(explained())


def test_the_terminal_has_what_no_pair_tells_clearly_and_marks_it_as_foretold() -> None:
    text = terminal_report(explained())
    shown = text[text.index("foretold by the model") :]
    assert "NCCL_PROTO: unset to LL: +4.0 % (+3.0 to +5.0)" in shown
    assert "spec_v2: false to true: +6.0 %" not in shown, "the pairs are clear there"
    assert "NCCL_PROTO=LL depends on cuda_graph_max_bs (64 or 128): +1.0 % against +12.0 %" in shown
    assert "foretold by the model" not in terminal_report(explained(effects=(), interactions=(), withheld="no"))


@pytest.mark.parametrize("known", [None, Explanation()])
def test_a_study_that_asked_no_model_has_no_such_section(known: Explanation | None) -> None:
    assert "Effects by the model" not in markdown_report(replace(study_result(), explanation=known))


def test_a_study_that_measured_nothing_gives_no_reason_either() -> None:
    withheld = Explanation(modelled=Modelled(withheld="0 complete trials"))
    nothing = replace(study_result(), trials=(), explanation=withheld)
    assert modelled_section(nothing) == ""
    assert modelled_section(replace(study_result(), explanation=withheld)) == "Not shown: 0 complete trials."
