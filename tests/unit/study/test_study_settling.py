"""A study that ends by itself: when another node hour is expected to gain less than noise."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_up_throughput import candidates
from test_study_greybox_strategy import ANYTHING, measured, spec_of, true_score

from autotune.domain.measurement import Estimate, Objective
from autotune.domain.study import StudySpec
from autotune.domain.trial import TrialRequest, TrialResult
from autotune.study import run_study
from autotune.study.ledger import Ledger
from autotune.study.model.outlook import Outlook, hour_of
from autotune.study.model.settling import IN_A_ROW, Settling

HOURS = 1800.0


def settling(strategy: str, *, trials: int = 60, wanted: bool = True) -> StudySpec:
    spec = spec_of(strategy, trials)
    return replace(spec, budget=replace(spec.budget, stop_when_settled=wanted))


def run(spec: StudySpec, folder: Path, change: Callable[[TrialResult], TrialResult]) -> tuple[str, list[TrialResult]]:
    rng, results = random.Random(5), []

    def evaluate(request: TrialRequest) -> TrialResult:
        results.append(change(measured(request, rng)))
        return results[-1]

    why = run_study(spec, evaluate=evaluate, validity=ANYTHING, history=(), storage=folder / "journal.log")
    return why, results


def as_measured(result: TrialResult) -> TrialResult:
    return result


def lottery(result: TrialResult) -> TrialResult:
    rng = random.Random(result.number)
    drawn = [replace(m, output_throughput=Estimate(100 * 4 ** rng.gauss(0, 1))) for m in result.measurements]
    return replace(result, measurements=tuple(drawn))


@pytest.mark.parametrize("strategy", ["greybox", "greedy_tpe"])
def test_it_ends_when_the_optimum_is_found_and_says_why_with_figures(tmp_path: Path, strategy: str) -> None:
    why, results = run(settling(strategy), tmp_path, as_measured)
    best = max(true_score(configuration) for configuration in candidates())
    assert max(true_score(result.configuration) for result in results) > 0.98 * best
    assert len(results) < 50
    figures = re.search(r"at most ([\d.e-]+) %, and two trials of one configuration differ by ([\d.]+) %", why)
    assert figures is not None
    assert float(figures[1]) < float(figures[2]) < 5


def test_unless_asked_it_goes_on_to_its_budget(tmp_path: Path) -> None:
    why, results = run(settling("greybox", trials=36, wanted=False), tmp_path, as_measured)
    assert (why, len(results)) == ("36 trials, as the budget asks", 36)


def test_where_the_model_foretells_nothing_it_does_not_end(tmp_path: Path) -> None:
    why, results = run(settling("greybox", trials=14), tmp_path, lottery)
    assert (why, len(results)) == ("14 trials, as the budget asks", 14)


class Known:
    """A strategy whose outlook is given."""

    def __init__(self, outlooks: list[Outlook | None]) -> None:
        self._outlooks = outlooks
        self.outlook: Outlook | None = None

    def propose(self) -> None:
        self.outlook = self._outlooks.pop(0)


GOOD, BAD = Outlook(0.001, 0.01, 0.9), Outlook(0.02, 0.01, 0.9)


@pytest.mark.parametrize(
    ("outlooks", "ends"),
    [
        ([GOOD] * IN_A_ROW, True),
        ([*[GOOD] * (IN_A_ROW - 1), BAD, GOOD], False),
        ([*[GOOD] * (IN_A_ROW - 1), None, GOOD], False),
        ([None] * IN_A_ROW, False),
    ],
)
def test_several_looks_in_a_row_must_agree(
    monkeypatch: pytest.MonkeyPatch, outlooks: list[Outlook | None], ends: bool
) -> None:
    known = Known(list(outlooks))
    monkeypatch.setattr(Settling, "_watching", lambda *_arguments: known)
    spec = settling("tpe")
    rule = Settling(spec, Ledger(spec.space, ANYTHING), known)
    rule._asks_itself = True
    assert bool([why for _ in outlooks if (why := rule.reason()) is not None]) is ends


@pytest.mark.parametrize(
    ("outlook", "settled"),
    [
        (Outlook(0.001, 0.01, 0.9), True),
        (Outlook(0.01, 0.01, 0.9), False),
        (Outlook(0.001, 0.01, 0.3), False),
        (Outlook(0.001, 0.0, 0.9), False),
    ],
)
def test_little_to_gain_counts_only_where_the_model_is_to_be_believed(outlook: Outlook, settled: bool) -> None:
    assert outlook.settled is settled


def test_an_hour_holds_the_gains_that_pay_most_for_their_time() -> None:
    gains, seconds = np.array([0.01, 0.03, 0.02, 0.04]), np.array([HOURS, HOURS, HOURS, 4 * HOURS])
    assert hour_of(gains, seconds) == pytest.approx(0.05)
    assert hour_of(gains[3:], seconds[3:]) == pytest.approx(0.02), "the part of it that an hour holds"
    assert hour_of(gains[:1], seconds[:1]) == pytest.approx(0.01)


def test_a_study_for_goodput_does_not_end_by_a_model_of_throughput() -> None:
    spec = replace(settling("tpe"), objective=Objective("weighted_goodput"))
    assert Settling(spec, Ledger(spec.space, ANYTHING), Known([])).reason() is None
