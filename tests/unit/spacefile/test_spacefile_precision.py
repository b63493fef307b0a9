from __future__ import annotations

import pytest

from autotune.errors import SpaceFileError
from autotune.spacefile.loader import load_text

TEXT = """\
study: precise
engine: {{name: simulated, model: m}}
parameters: {{cuda_graph_max_bs: [32, 64]}}
workload: {{concurrency: {{1: 1, 4: 1}}, {more}}}
budget: {{trials: 2}}
"""


@pytest.mark.parametrize(("written", "read"), [("2%", 0.02), ("1.5 %", 0.015), ("0.02", 0.02), ("unset", None)])
def test_a_precision_is_a_percentage_a_share_or_unset(written: str, read: float | None) -> None:
    assert load_text(TEXT.format(more=f"precision: {written}"), "x").workload.precision == read


@pytest.mark.parametrize("written", ["3", "0%", "60%", "-0.1", "fine"])
def test_what_is_no_precision_is_a_fault(written: str) -> None:
    with pytest.raises(SpaceFileError, match=r"workload\.precision must be"):
        load_text(TEXT.format(more=f"precision: {written}"), "x")


def test_a_precision_raises_the_bound_of_every_level_and_leaves_its_floor() -> None:
    plain, precise = (load_text(TEXT.format(more=more), "x").plan() for more in ("max_tokens: 64", "precision: 2%"))
    assert [level.requests for level in precise.levels] == [level.requests for level in plain.levels] == [10, 20]
    assert [level.most_requests for level in plain.levels] == [20, 40]
    assert [level.most_requests for level in precise.levels] == [80, 160]
    assert precise.prompts == plain.prompts


def test_level_seconds_bounds_every_level() -> None:
    levels = load_text(TEXT.format(more="level_seconds: 90"), "x").plan().levels
    assert [level.seconds for level in levels] == [90.0, 90.0]
