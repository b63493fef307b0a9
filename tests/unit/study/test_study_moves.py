"""Levels, neighbours, random and exhaustive configurations; and the ledger of what was tried."""

from __future__ import annotations

import random

import pytest
from made_up_node import BASELINE, KNOWN_GOOD, SPECULATION, failed, ledger_of, parameter, result, space_of

from autotune.domain.configuration import Configuration, Value
from autotune.domain.space import Domain, FloatRange, IntRange, SearchSpace, Values
from autotune.domain.trial import TrialState
from autotune.study.moves import Rules, every_configuration, levels, neighbours, random_configuration


@pytest.mark.parametrize(
    ("domain", "expected"),
    [
        (Values((None, 1, 2, 3, 4, 5, 6)), (None, 1, 2, 3, 4, 5, 6)),
        (IntRange(1, 4), (1, 2, 3, 4)),
        (IntRange(1, 8), (1, 3, 5, 6, 8)),
        (IntRange(3, 3), (3,)),
        (IntRange(1, 1024, log=True), (1, 4, 32, 256, 1024)),
        (FloatRange(0.1, 0.3, 0.1), (0.1, 0.2, 0.3)),
        (FloatRange(0.0, 1.0), (0.0, 0.25, 0.5, 0.75, 1.0)),
    ],
)
def test_levels_of_a_domain(domain: Domain, expected: tuple[Value, ...]) -> None:
    assert levels(domain) == expected


def test_neighbours_differ_by_one_parameter_and_what_it_takes_with_it() -> None:
    rules = Rules(SPECULATION, lambda configuration: not SPECULATION.broken(configuration))
    found = list(neighbours(rules, KNOWN_GOOD))
    assert KNOWN_GOOD.replace(steps=2) in found
    assert KNOWN_GOOD.replace(steps=4) in found
    assert KNOWN_GOOD.replace(v2=False) in found
    assert BASELINE in found
    assert KNOWN_GOOD not in found
    assert not any(SPECULATION.broken(configuration) for configuration in found)


def test_random_configurations_hold_active_parameters_only() -> None:
    rng = random.Random(0)
    for _ in range(200):
        drawn = random_configuration(SPECULATION, rng)
        assert SPECULATION.normalise(drawn) == drawn
        assert all(drawn[p.name] in p.domain for p in SPECULATION.parameters if p.name in drawn)


def test_every_configuration_goes_beyond_the_grid_of_a_logarithmic_range() -> None:
    found = every_configuration(space_of(parameter("a", IntRange(1, 6, log=True))))
    assert found is not None
    assert [configuration["a"] for configuration in found] == [1, 2, 3, 4, 5, 6]


def test_a_continuous_range_cannot_be_enumerated() -> None:
    assert every_configuration(space_of(parameter("a", FloatRange(0.0, 1.0)))) is None


def test_the_first_measurement_of_a_configuration_is_its_score() -> None:
    ledger = ledger_of(SPECULATION, [result(0, BASELINE, 3.0), result(1, BASELINE, 5.0)])
    assert ledger.score(BASELINE) == 3.0


def test_a_configuration_that_never_ended_well_has_no_score() -> None:
    ledger = ledger_of(SPECULATION, [failed(0, BASELINE, TrialState.INFEASIBLE)])
    assert ledger.score(BASELINE) is None
    assert ledger.best is None


@pytest.mark.parametrize(
    ("states", "is_open"),
    [
        ((), True),
        ((TrialState.INTERRUPTED, TrialState.INTERRUPTED, TrialState.INTERRUPTED), True),
        ((TrialState.FAILED,), True),
        ((TrialState.FAILED, TrialState.FAILED), False),
        ((TrialState.INFEASIBLE,), False),
    ],
)
def test_what_may_be_tried_again(states: tuple[TrialState, ...], is_open: bool) -> None:
    results = [failed(number, BASELINE, state) for number, state in enumerate(states)]
    assert ledger_of(SPECULATION, results).is_open(BASELINE) is is_open


def test_an_inactive_value_makes_no_other_configuration() -> None:
    ledger = ledger_of(SPECULATION, [result(0, BASELINE, 3.0)])
    assert not ledger.is_open(BASELINE.replace(steps=4))


def test_unset_is_not_assumed_where_a_fixed_argument_would_step_in() -> None:
    proto = parameter("proto", Values((None, "LL")))
    ledger = ledger_of(SearchSpace((proto,), fixed={"proto": "Simple"}))
    assert ledger.point(Configuration({})) == Configuration({})
    assert ledger_of(SearchSpace((proto,))).point(Configuration({})) == Configuration({"proto": None})
