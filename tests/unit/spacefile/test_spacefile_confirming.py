from __future__ import annotations

import pytest

from autotune import spacefile
from autotune.domain.confirmation import Confirm
from autotune.domain.study import Budget
from autotune.errors import SpaceFileError

FILE = """
study: s
engine: {{name: sglang, model: m}}
workload: {{concurrency: {{1: 1}}}}
budget: {{trials: 3, {more}}}
"""


def budget(more: str) -> Budget:
    spec = spacefile.load_text(FILE.format(more=more), "f")
    assert spacefile.load_text(spacefile.dump(spec.source), "again").budget == spec.budget
    return spec.budget


def test_a_key_of_the_confirmation_that_is_left_out_takes_its_default() -> None:
    assert budget("confirm: {finalists: 1}").confirm == Confirm(finalists=1)
    assert budget("confirm: {share: 0.5, rounds: 3}").confirm == Confirm(share=0.5, rounds=3)


def test_off_leaves_the_confirmation_out_and_unset_measures_the_baseline_once() -> None:
    assert budget("confirm: off, baseline_every: unset") == Budget(3, stop_when_settled=True, early_stopping=True)


@pytest.mark.parametrize(
    ("more", "rule"),
    [
        ("confirm: {finalist: 1}", "unknown key `finalist` in budget.confirm"),
        ("confirm: {finalists: 0}", "budget.confirm.finalists must be a whole number of at least 1"),
        ("confirm: {share: 0.9}", "budget.confirm.share must be a share above 0 and of at most 0.8"),
        ("confirm: {share: 0}", "budget.confirm.share must be a number above 0"),
        ("confirm: {rounds: 2}", "budget.confirm.rounds must be a whole number of at least 3"),
        ("confirm: true", "budget.confirm must be a mapping of finalists, share, rounds, or `off`"),
        ("baseline_every: often", "budget.baseline_every must be `auto`, a number of trials, or unset"),
        ("baseline_every: 0", "budget.baseline_every must be a whole number of at least 1"),
    ],
)
def test_what_is_no_confirmation_is_a_fault_with_its_place(more: str, rule: str) -> None:
    with pytest.raises(SpaceFileError) as caught:
        budget(more)
    (fault,) = caught.value.faults
    assert fault.rule == rule
    assert fault.line == 5
