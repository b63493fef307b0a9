"""A search over a workload with rates: no model foretells goodput there, and all that would ask one steps aside."""

from __future__ import annotations

from typing import Any

import pytest
from builders import eagle, estimate, measurement, spec, trial, workload
from made_up_node import ANYTHING

from autotune.domain.configuration import Configuration
from autotune.domain.level import Rate
from autotune.domain.measurement import Objective, Score
from autotune.domain.slo import Slo, SloCheck
from autotune.domain.study import STRATEGIES, Budget, StudySpec
from autotune.domain.trial import Origin, TrialResult
from autotune.study.comparing.corrections import Corrections
from autotune.study.early_stopping.screening import Screening
from autotune.study.ledger import Ledger
from autotune.study.model.improvement import GreyBoxProposer
from autotune.study.model.settling import Settling
from autotune.study.optuna_space import outcome
from autotune.study.strategies import proposer

RATE = Rate(4.0)


def asked(*, concurrency: dict[int, float] | None = None, **overrides: Any) -> StudySpec:
    return spec(
        objective=Objective("weighted_goodput"),
        workload=workload(concurrency=concurrency or {}, rates={4.0: 1.0, 8.0: 1.0}),
        slo=Slo({"ttft_ms": 500.0}),
        budget=Budget(trials=60, stop_when_settled=True, early_stopping=True),
        **overrides,
    )


def at_rates(number: int, good: float, **overrides: Any) -> TrialResult:
    seen = tuple(measurement(9, rate=rate, goodput=estimate(good, 0.1)) for rate in (4.0, 8.0))
    made = Score("weighted_goodput", estimate(good, 0.1), {RATE: good, Rate(8.0): good})
    steps = {} if number == 0 else {"configuration": eagle(speculative_num_steps=number)}
    return trial(number, measurements=seen, score=made, **{**steps, **overrides})


def ledger_of(wanted: StudySpec) -> Ledger:
    return Ledger(wanted.space, ANYTHING)


class Tpe:
    def propose(self) -> Configuration | None:
        return None


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("concurrency", [{}, {1: 1.0, 8: 1.0}])
def test_every_strategy_leaves_rates_to_tpe(strategy: str, concurrency: dict[int, float]) -> None:
    wanted, tpe = asked(concurrency=concurrency), Tpe()
    assert proposer(wanted, ledger_of(wanted), tpe, strategy) is tpe


def test_a_study_of_levels_keeps_its_model() -> None:
    wanted = spec()
    assert isinstance(proposer(wanted, ledger_of(wanted), Tpe(), "greybox"), GreyBoxProposer)


@pytest.mark.parametrize("concurrency", [{}, {1: 1.0, 8: 1.0}])
def test_no_trial_is_screened_and_no_study_ends_by_itself(concurrency: dict[int, float]) -> None:
    wanted = asked(concurrency=concurrency)
    ledger = ledger_of(wanted)
    trials = [
        at_rates(number, 3.0 + 0.1 * number, origin=Origin.SAMPLER if number else Origin.BASELINE)
        for number in range(8)
    ]
    for made in trials:
        ledger.add(made)
    assert (
        Screening(wanted, ledger, Corrections.of(wanted, trials)).screen(eagle(speculative_num_steps=8), Origin.SAMPLER)
        is None
    )
    assert Settling(wanted, ledger, Tpe()).reason() is None


def test_a_bound_that_a_rate_breaks_reaches_the_sampler_by_its_name() -> None:
    broken = SloCheck("ttft_p95_ms", RATE, 500.0, 1000.0, 1.0, 60)
    behind = SloCheck("ttft_p95_ms", Rate(8.0), 500.0, 400.0, None, 60, sustained=False)
    _state, value, constraints = outcome(at_rates(1, 3.0, slo=(broken, behind)))
    assert value == 3.0
    assert constraints["slo.ttft_p95_ms.4 req/s"] == pytest.approx(0.25)
    assert constraints["slo.ttft_p95_ms.8 req/s"] == pytest.approx(0.25)
