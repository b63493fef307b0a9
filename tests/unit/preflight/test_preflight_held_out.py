from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from builders import spec, workload

from autotune.domain.confirmation import Confirm
from autotune.domain.study import Budget, StudySpec
from autotune.preflight import confirmation_within


def study(folder: Path, held_out: int, confirm: Confirm | None = None) -> StudySpec:
    """Of a file that holds back so many prompts; a run takes 82 of them."""
    path = folder / "prompts.jsonl"
    path.write_text("".join(json.dumps({"prompt": f"prompt {number}"}) + "\n" for number in range(4 * held_out)))
    made = spec(workload=workload(prompts=str(path)), budget=Budget(5, confirm=confirm or Confirm()))
    assert made.plan().prompts == 82
    return made


def test_enough_prompts_leave_the_confirmation_as_it_was_asked_for(tmp_path: Path) -> None:
    asked = study(tmp_path, 4 * 6 * 82)
    assert confirmation_within(asked, 0) == (asked, ())


def test_fewer_prompts_give_fewer_finalists_and_rounds_and_say_so(tmp_path: Path) -> None:
    for held_out, wanted in ((4 * 5 * 82, Confirm(rounds=5)), (8 * 82, Confirm(finalists=1, rounds=4))):
        smaller, (told,) = confirmation_within(study(tmp_path, held_out), 0)
        assert smaller.budget.confirm == wanted
        assert f"holds back {held_out:,} prompts" in told


def test_prompts_that_are_gone_count_and_too_few_are_no_confirmation(tmp_path: Path) -> None:
    asked = study(tmp_path, 8 * 82)
    none, (told,) = confirmation_within(asked, 3 * 82)
    assert none.budget.confirm is None
    assert told.endswith("the winner is not confirmed")


def test_the_bundled_prompts_last_and_no_confirmation_needs_none(tmp_path: Path) -> None:
    bundled = spec(budget=Budget(60, confirm=Confirm()))
    assert confirmation_within(bundled, 0) == (bundled, ())
    off = replace(study(tmp_path, 1), budget=Budget(5))
    assert confirmation_within(off, 0) == (off, ())
