"""What is told of prompts that are too few for rates."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from builders import spec, workload

from autotune.domain.study import Budget, StudySpec
from autotune.errors import InputError
from autotune.preflight import prompt_warnings
from autotune.preflight.prompts import require_prompts


def at_eight(folder: Path, screening: int) -> StudySpec:
    """Of a file with so many prompts for screening; two trials take at least 132 each, and at 10 s each request
    320."""
    path = folder / "prompts.jsonl"
    count = screening * 4 // 3
    path.write_text("".join(json.dumps({"prompt": f"prompt {number}"}) + "\n" for number in range(count)))
    asked = workload(concurrency={}, rates={8.0: 1.0}, prompts=str(path), max_tokens=400)
    return spec(workload=asked, budget=Budget(trials=2))


def test_fewer_prompts_than_the_rates_are_expected_to_want_are_told_with_both_figures(tmp_path: Path) -> None:
    few = at_eight(tmp_path, 300)
    require_prompts(few)
    (told,) = prompt_warnings(few)
    assert "has 300 prompts, but 2 trials at these rates would take about 640 (320 each, if a request gets 40" in told
    assert prompt_warnings(few, 4000.0) == ()


def test_enough_prompts_and_studies_without_rates_are_told_nothing(tmp_path: Path) -> None:
    enough = at_eight(tmp_path, 660)
    assert prompt_warnings(enough) == ()
    closed = workload(concurrency={1: 1.0}, prompts="/nowhere.jsonl")
    assert prompt_warnings(replace(enough, workload=closed)) == ()


def test_fewer_prompts_than_the_least_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"2 trials of 132 requests \(264\), but .* has 240"):
        require_prompts(at_eight(tmp_path, 240))
