"""Effects, interactions, what was never tried and what a warm start took, as text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from builders import eagle, spec, study_result, trial

from autotune.domain.explanation import Effect, Explanation, Interaction, Untried
from autotune.domain.knowledge import Knowledge, KnownGood, Prior
from autotune.domain.measurement import Estimate
from autotune.domain.study import StudyResult
from autotune.domain.trial import Origin
from autotune.reporting import experiment_note, markdown_report, terminal_report
from autotune.reporting.sections.effects import effects_section, interactions_section, ratio_text, spread_line

CLEAR = Effect(
    "spec_v2",
    "false",
    "true",
    Estimate(1.071, 1.058, 1.084),
    {1: Estimate(1.02, 0.99, 1.05), 10: Estimate(1.1)},
    contexts=2,
    brought=("speculative_num_steps=3",),
    trials=(4,),
)
FAINT = Effect("NCCL_PROTO", "unset", "LL", Estimate(1.004, 0.98, 1.03))
KNOWN = Explanation(
    effects=(CLEAR, FAINT),
    interactions=(
        Interaction(
            "spec_v2", "false", "true", ("cuda_graph_max_bs",), ("64", "128"), (Estimate(1.01), Estimate(1.12)), 0.003
        ),
    ),
    looked_at=7,
    untried=(Untried("attention_backend", ("triton",), ("trtllm_mha",)),),
    untried_pairs=("spec_v2=true with NCCL_PROTO=Simple",),
    importances={"NCCL_PROTO": 0.7, "cuda_graph_max_bs": 0.3},
    importance_note="of 12 trials",
    launch_spread=0.006,
    replicates=4,
)


def explained(**changes: Any) -> StudyResult:
    return replace(study_result(), explanation=replace(KNOWN, **changes))


def test_a_ratio_is_shown_with_its_interval_and_without_one_alone() -> None:
    assert ratio_text(Estimate(1.071, 1.058, 1.084)) == "+7.1 % (+5.8 to +8.4)"
    assert ratio_text(Estimate(0.9)) == "-10.0 %"


def test_the_report_has_effects_by_level_interactions_what_is_missing_and_importances_beside_the_effects() -> None:
    text = markdown_report(explained())
    values = "| spec_v2 | false | true with speculative_num_steps=3 |"
    assert f"{values} +7.1 % (+5.8 to +8.4) | +2.0 % (-1.0 to +5.0) | +10.0 % |" in text
    assert "| spec_v2: false to true | cuda_graph_max_bs | 64: +1.0 % | 128: +12.0 % | 0.003 |" in text
    assert "Of 7 looked at" in text
    assert "| attention_backend | triton | trtllm_mha |" in text
    assert "- spec_v2=true with NCCL_PROTO=Simple" in text
    assert "| NCCL_PROTO | 0.70 | unclear |" in text
    assert "| cuda_graph_max_bs | 0.30 | not compared |" in text
    assert "PED-ANOVA tells which parameters" in text


def test_a_factor_whose_comparisons_are_all_unclear_is_called_unclear_and_not_without_effect() -> None:
    assert "Unclear, which is not the same as none: NCCL_PROTO." in effects_section(explained())
    assert "unclear (not the same as none): NCCL_PROTO" in terminal_report(explained())


def test_a_factor_that_was_compared_nowhere_is_named() -> None:
    assert "No pair tells of speculative_algorithm" in effects_section(explained())


@pytest.mark.parametrize(
    ("spread", "repeats", "said"),
    [
        (None, 0, "too narrow by that"),
        (0.006, 4, "varies by 0.6 %"),
        (0.006, 1, "out of 1 repeat)"),
        (0.0, 3, "no more than its windows explain"),
    ],
)
def test_what_the_intervals_hold_of_the_spread_between_launches_is_said(
    spread: float | None, repeats: int, said: str
) -> None:
    assert said in spread_line(replace(KNOWN, launch_spread=spread, replicates=repeats))


@pytest.mark.parametrize(
    ("looked_at", "said"),
    [(0, "None could be looked at"), (1, "The one that could be looked at is not"), (7, "None of 7 is significant")],
)
def test_without_an_interaction_it_is_said_how_many_were_looked_at(looked_at: int, said: str) -> None:
    assert said in interactions_section(explained(interactions=(), looked_at=looked_at))


def test_the_terminal_has_the_largest_clear_effects_and_the_note_of_the_experiment_has_the_table() -> None:
    assert "spec_v2: false to true (with speculative_num_steps=3): +7.1 % (+5.8 to +8.4)" in terminal_report(
        explained()
    )
    assert "| spec_v2 | false | true with" in experiment_note(explained())


def test_a_study_without_comparisons_has_none_of_these_sections() -> None:
    text = markdown_report(study_result())
    for title in ("Effects of the factors", "Interactions", "Importances", "Taken from earlier studies"):
        assert title not in text


def warm() -> StudyResult:
    """Trial 1 ran what trial 9 of an earlier study proposed."""
    chosen = eagle(speculative_num_steps=3)
    known = Knowledge(
        runs=("kimi-20260101",),
        order=("spec_v2",),
        idle=("NCCL_PROTO",),
        known_good=(
            KnownGood(chosen, "kimi-20260101", 9, 1.21),
            KnownGood(eagle(speculative_num_steps=4), "kimi-20260101", 12, None),
        ),
        priors=(Prior(chosen, "kimi-20260101", 9, {1: 1.2}),),
        notes=("warm start from kimi-20260101 (same node): 2 known-good configurations",),
    )
    trials = (trial(0), trial(1, 356.6, configuration=chosen, origin=Origin.KNOWN_GOOD))
    return study_result(*trials, spec=spec(earlier=known))


def test_what_came_from_an_earlier_study_is_marked_wherever_it_stands() -> None:
    text = markdown_report(warm())
    assert "| 1 | known_good (trial 9 of kimi-20260101) |" in text
    assert "| trial 9 of kimi-20260101 | +21.0 % | 1 | +7.1 % |" in text
    assert "| trial 12 of kimi-20260101 | - | - | not measured |" in text
    assert "- warm start from kimi-20260101 (same node)" in text
    assert "No figure in this report is theirs" in text
    assert "1 trial of an earlier study was given to the models" in text
