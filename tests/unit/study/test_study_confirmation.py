"""What runs after the search: planned from the search's results, counted by the budget, gone on with after a stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from made_up_node import BASELINE, KNOWN_GOOD, Node, result, run, spec_of, tokens_per_second

from autotune.domain.confirmation import Confirm
from autotune.domain.measurement import Estimate
from autotune.domain.study import Budget, StudySpec
from autotune.domain.trial import Origin, TrialRequest, TrialResult, TrialState
from autotune.errors import Interrupted
from autotune.study import StudyEvent, conclude
from autotune.study.comparing.confirmation import finalists, search_budget


def confirming(trials: int | None = 12, hours: float | None = None, **plan: float) -> StudySpec:
    spec = spec_of(trials=trials, hours=hours)
    return replace(spec, budget=replace(spec.budget, confirm=Confirm(**plan)))  # type: ignore[arg-type]


def stopping_at(number: int) -> Callable[[TrialRequest], TrialState | None]:
    return lambda request: TrialState.INTERRUPTED if request.number == number else None


def confirmed(node: Node) -> list[TrialResult]:
    return [result for result in node.results if result.origin is Origin.CONFIRMATION]


def test_after_the_search_the_best_and_the_baseline_run_on_servers_of_their_own(tmp_path: Path) -> None:
    node = Node()
    reason = run(confirming(), node, tmp_path)
    assert reason == "12 trials, as the budget asks; confirmation: decided after 4 rounds"
    runs = confirmed(node)
    assert [r.number for r in node.results] == list(range(20))
    best = max(node.results[:12], key=lambda r: tokens_per_second(r.configuration))
    assert {r.configuration for r in runs} == {BASELINE, best.configuration}
    assert [r.replicate.confirms for r in runs if r.replicate][:4] == [None, best.number, best.number, None]
    found = conclude(confirming(), node.results)
    assert found.best == best
    assert found.confirmation is not None
    assert found.confirmation.winner is not None
    gain = tokens_per_second(best.configuration) / tokens_per_second(BASELINE)
    assert found.confirmation.winner.gain is not None
    assert found.confirmation.winner.gain.value == pytest.approx(gain)


def test_a_confirmation_stopped_after_any_run_goes_on_to_the_same_end(tmp_path: Path) -> None:
    whole = Node()
    run(confirming(finalists=2, share=0.5), whole, tmp_path / "whole")
    assert len(whole.results) > 20
    for stop in range(12, len(whole.results)):
        part = Node(results=whole.results[:12], failures=stopping_at(stop))
        with pytest.raises(Interrupted):
            run(confirming(finalists=2, share=0.5), part, tmp_path / str(stop))
        part.failures = lambda _request: None
        run(confirming(finalists=2, share=0.5), part, tmp_path / str(stop))
        ended = [r for r in part.results if r.state is not TrialState.INTERRUPTED]
        assert [r.configuration for r in ended] == whole.configurations
        assert [r.replicate for r in ended] == [r.replicate for r in whole.results]


def test_a_finished_study_that_is_resumed_measures_nothing_more(tmp_path: Path) -> None:
    node = Node()
    first = run(confirming(), node, tmp_path)
    count = len(node.results)
    assert run(confirming(), node, tmp_path) == first
    assert len(node.results) == count


def test_a_search_that_goes_on_is_confirmed_anew_under_new_numbers(tmp_path: Path) -> None:
    node = Node()
    run(confirming(12), node, tmp_path)
    earlier = len(node.results)
    run(confirming(16), node, tmp_path)
    assert [r.number for r in node.results] == list(range(len(node.results)))
    assert [r.origin is Origin.CONFIRMATION for r in node.results[earlier : earlier + 5]] == [False] * 4 + [True]
    found = conclude(confirming(16), node.results).confirmation
    assert found is not None
    assert found.baseline_servers == found.rounds <= 6


def test_the_hours_are_shared_and_never_exceeded_by_more_than_half_a_run(tmp_path: Path) -> None:
    node = Node(hours=0.1)
    run(confirming(None, 4.0, share=0.25, finalists=1), node, tmp_path)
    search = sum(r.node_seconds for r in node.results if r.origin is not Origin.CONFIRMATION) / 3600
    assert search == pytest.approx(3.0, abs=0.06)
    assert len(confirmed(node)) >= 6
    assert sum(r.node_seconds for r in node.results) / 3600 <= 4.0 + 0.05


def test_hours_that_run_out_end_the_confirmation_undecided(tmp_path: Path) -> None:
    node = Node(hours=0.1)

    def slower(request: TrialRequest) -> TrialState | None:
        node.hours = 0.4 if request.origin is Origin.CONFIRMATION else 0.1
        return None

    node.failures = slower
    spec = confirming(None, 4.0, share=0.25, finalists=1)
    assert "node hours used, of 4" in run(spec, node, tmp_path).split("; confirmation: ")[1]
    found = conclude(spec, node.results).confirmation
    assert found is not None
    assert found.outcome == "undecided"


def test_too_little_time_for_three_rounds_is_said_and_spends_nothing(tmp_path: Path) -> None:
    node = Node(hours=0.1)
    assert run(confirming(None, 2.0, share=0.1), node, tmp_path).endswith("not confirmed: too little node time is left")
    assert confirmed(node) == []


def test_where_nothing_may_be_faster_than_the_baseline_nothing_is_confirmed(tmp_path: Path) -> None:
    node = Node(score=lambda configuration: 100.0 if configuration == BASELINE else 50.0)
    reason = run(confirming(), node, tmp_path)
    assert reason.endswith("nothing to confirm: no trial may be faster than the baseline")
    assert conclude(confirming(), node.results).confirmation is None


def test_off_means_off(tmp_path: Path) -> None:
    node = Node()
    assert run(spec_of(trials=12), node, tmp_path) == "12 trials, as the budget asks"
    assert confirmed(node) == []


def test_runs_of_a_confirmation_are_announced_before_and_after(tmp_path: Path) -> None:
    events: list[StudyEvent] = []
    run(confirming(), Node(), tmp_path, events=events)
    told = [e for e in events if e.request is not None and e.request.origin is Origin.CONFIRMATION]
    assert [e.kind for e in told] == ["asked", "told"] * 8


def test_finalists_reach_into_the_interval_of_the_best_and_above_the_baseline() -> None:
    base = result(0, BASELINE, 100.0, Origin.BASELINE)
    others = [
        result(n, KNOWN_GOOD.replace(steps=n), score) for n, score in enumerate((130.0, 129.0, 128.0, 60.0), start=1)
    ]
    measured = [replace(r, score=replace(r.score, estimate=_exact(r))) for r in (base, *others) if r.score is not None]
    found = finalists(confirming(), measured, 2)
    assert [r.number for r in found] == [1, 2]
    assert [r.number for r in finalists(confirming(), measured, 9)] == [1, 2, 3]


def test_a_duplicate_and_the_baseline_are_no_finalists() -> None:
    base = result(0, BASELINE, 100.0, Origin.BASELINE)
    again = result(1, BASELINE, 200.0)
    twin = replace(result(2, KNOWN_GOOD, 200.0), duplicate_of=1)
    assert finalists(confirming(), [base, again, twin], 3) == ()


def test_the_search_keeps_the_confirmations_share_of_the_hours_free() -> None:
    assert search_budget(Budget(60, 10.0, "auto", Confirm(share=0.25))) == Budget(60, 7.5, "auto")
    assert search_budget(Budget(60, None, 3, Confirm())) == Budget(60, None, 3, Confirm())
    assert search_budget(Budget(None, 10.0)) == Budget(None, 10.0)


def _exact(made: TrialResult) -> Estimate:
    assert made.score is not None
    value = made.score.estimate.value
    return Estimate(value, value - 0.5, value + 0.5, batches=20)
