"""When the baseline is measured again, and what the search makes of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from made_up_node import ANYTHING, BASELINE, SPECULATION, Node, result, run, spec_of, tokens_per_second

from autotune.domain.study import Budget, StudySpec
from autotune.domain.trial import Origin, TrialRequest, TrialResult, TrialState
from autotune.study import conclude
from autotune.study.comparing.corrections import Corrections
from autotune.study.ledger import Ledger


class DriftingNode(Node):
    """Its speed follows `state` over node hours."""

    state: Callable[[float], float]

    def evaluate(self, request: TrialRequest) -> TrialResult:
        hours = sum(result.node_seconds for result in self.results) / 3600
        self.score = lambda configuration: tokens_per_second(configuration) * self.state(hours)
        return super().evaluate(request)


def drifting(state: Callable[[float], float]) -> DriftingNode:
    node = DriftingNode()
    node.state = state
    return node


def auto(trials: int | None = 60, hours: float | None = None, **more: object) -> StudySpec:
    return replace(spec_of(trials=trials, hours=hours), budget=Budget(trials, hours, "auto"), **more)  # type: ignore[arg-type]


def places(node: Node) -> list[int]:
    return [place for place, result in enumerate(node.results) if result.origin is Origin.BASELINE]


def test_the_second_measurement_comes_after_three_trials_and_a_steady_node_is_then_left_alone(tmp_path: Path) -> None:
    node = drifting(lambda _hours: 1.0)
    run(auto(trials=34), node, tmp_path)
    assert places(node)[:2] == [0, 4]
    gaps = [b - a for a, b in zip(places(node)[1:], places(node)[2:], strict=False)]
    assert gaps[-1] > 6


def test_a_node_that_drifts_is_asked_more_often_within_the_share(tmp_path: Path) -> None:
    steady, moving = drifting(lambda _hours: 1.0), drifting(lambda hours: 1.0 - 0.08 * hours)
    run(auto(trials=40), steady, tmp_path / "steady")
    run(auto(trials=40), moving, tmp_path / "moving")
    assert len(places(steady)) < len(places(moving)) <= 1 + 0.15 * 40


def test_few_trials_have_no_room_for_repeats(tmp_path: Path) -> None:
    node = drifting(lambda hours: 1.0 - 0.3 * hours)
    run(auto(trials=6), node, tmp_path)
    assert places(node) == [0]


def test_under_a_budget_of_hours_repeats_take_their_share_of_node_time(tmp_path: Path) -> None:
    node = drifting(lambda hours: 1.0 - 0.05 * hours)
    run(auto(trials=None, hours=4.0), node, tmp_path)
    repeats = len(places(node)) - 1
    assert 3 < repeats <= 0.15 * len(node.results) + 1


def test_a_repeat_that_failed_is_not_tried_again_at_once(tmp_path: Path) -> None:
    node = Node(failures=lambda request: TrialState.FAILED if request.number == 4 else None)
    run(auto(trials=14), node, tmp_path)
    assert places(node) == [0, 4, 13], "not before its share of node time allows another"


def test_a_drifting_study_stopped_anywhere_in_the_greedy_pass_goes_on_as_an_uninterrupted_one(tmp_path: Path) -> None:
    whole = drifting(lambda hours: 1.0 - 0.1 * hours)
    spec = auto(trials=18)
    run(spec, whole, tmp_path / "whole")
    parts = drifting(lambda hours: 1.0 - 0.1 * hours)
    for trials in range(1, 19):
        # The share of repeats goes by the whole budget, so the budget stays and the node stops.
        def evaluate(request: TrialRequest, last: int = trials) -> TrialResult:
            if request.number >= last:
                raise KeyboardInterrupt
            return parts.evaluate(request)

        stopped = Node()
        stopped.evaluate = evaluate  # type: ignore[method-assign]
        stopped.results = parts.results
        try:
            run(spec, stopped, tmp_path / "parts")
        except KeyboardInterrupt:
            continue
    assert parts.configurations == whole.configurations


def test_the_best_of_a_drifting_node_is_found_by_corrected_scores(tmp_path: Path) -> None:
    node = drifting(lambda hours: 1.0 + 0.06 * hours)
    spec = auto(trials=40)
    run(spec, node, tmp_path)
    found = conclude(spec, node.results)
    assert found.best is not None
    truths = [tokens_per_second(r.configuration) for r in node.results]
    raw = max(node.results, key=lambda r: r.score.estimate.value if r.score else 0.0)
    chosen = tokens_per_second(found.best.configuration)
    assert chosen >= 0.99 * max(truths)
    assert chosen >= tokens_per_second(raw.configuration)
    assert found.drift is not None
    assert found.drift.seen


def test_a_repeat_changes_what_models_see_and_not_what_the_greedy_pass_saw() -> None:
    spec = auto()
    corrections, ledger = Corrections(spec), Ledger(SPECULATION, ANYTHING)
    other = BASELINE.replace(graph=256)
    recorded = [
        result(0, BASELINE, 100.0, Origin.BASELINE),
        *(result(n, BASELINE.replace(graph=g), 100.0 * math.exp(-0.01 * n)) for n, g in ((1, 32), (2, 64))),
        result(3, other, 100.0 * math.exp(-0.03)),
        *(result(n, BASELINE, 100.0 * math.exp(-0.01 * n), Origin.BASELINE) for n in (4, 5, 6, 7)),
    ]
    for made in recorded:
        corrected, anew = corrections.add(made)
        ledger.add(corrected)
        assert anew is (made.number >= 4)
        if anew:
            ledger.revise(corrections.all())
    assert ledger.score(other) == pytest.approx(100.0 * math.exp(-0.03)), "as it was told"
    seen = next(r for r in ledger.results if r.configuration == other)
    assert seen.score is not None
    assert seen.score.estimate.value == pytest.approx(100.0, rel=0.01)
    assert corrections.raw == recorded
