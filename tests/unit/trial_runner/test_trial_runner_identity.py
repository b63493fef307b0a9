from dataclasses import replace
from typing import Any

import pytest
from builders import configuration, eagle, measurement, plan, provenance, trial

from autotune.domain.trial import Origin, TrialRequest, TrialResult, TrialState
from autotune.trial_runner.identity import KnownServers, duplicate_remark

PLAN = plan(1, 10)


def measured(number: int = 1, identity: str | None = "a", **overrides: Any) -> TrialResult:
    return replace(trial(number, 340.0), resolved_identity=identity, **overrides)


def request(origin: Origin = Origin.GREEDY, **values: Any) -> TrialRequest:
    return TrialRequest(9, eagle(**values), origin)


OTHERWISE = request(cuda_graph_max_bs=512)


def test_a_server_that_was_measured_under_another_configuration_is_known() -> None:
    known = KnownServers([measured(0, "z"), measured(1), measured(2)])
    found = known.original(OTHERWISE, "a", PLAN, simulated=False)
    assert found is not None
    assert found.number == 1
    assert "trial 1" in duplicate_remark(found)


def test_what_is_added_later_is_known_too() -> None:
    known = KnownServers()
    assert known.original(OTHERWISE, "a", PLAN, simulated=False) is None
    known.add(measured())
    assert known.original(OTHERWISE, "a", PLAN, simulated=False) is not None


@pytest.mark.parametrize(
    "earlier",
    [
        measured(identity="b"),
        measured(identity=None),
        measured(score=None),
        measured(state=TrialState.FAILED),
        measured(duplicate_of=0),
        measured(provenance=provenance(simulated=True)),
        measured(provenance=None),
        measured(measurements=(measurement(1),)),
    ],
    ids=["other", "unknown", "no_score", "failed", "itself_a_duplicate", "simulated", "of_nowhere", "other_levels"],
)
def test_what_did_not_measure_the_same_on_the_same_node_lends_nothing(earlier: TrialResult) -> None:
    assert KnownServers([earlier]).original(OTHERWISE, "a", PLAN, simulated=False) is None


def test_a_finalist_is_measured_whatever_is_known_and_its_figures_are_lent_to_nobody() -> None:
    known = KnownServers([measured(1), measured(2, "b", origin=Origin.CONFIRMATION)])
    assert known.original(request(Origin.CONFIRMATION, cuda_graph_max_bs=512), "a", PLAN, simulated=False) is None
    assert known.original(OTHERWISE, "b", PLAN, simulated=False) is None


def test_the_baseline_and_a_configuration_that_ran_before_are_measured_again_on_purpose() -> None:
    known = KnownServers([measured(), measured(0)])
    assert known.original(request(Origin.BASELINE, cuda_graph_max_bs=512), "a", PLAN, simulated=False) is None
    again = TrialRequest(9, configuration(), Origin.SAMPLER)
    assert known.original(again, "a", PLAN, simulated=False) is None


def test_a_server_that_did_not_say_what_it_runs_with_is_nobodys_duplicate() -> None:
    assert KnownServers([measured(identity=None)]).original(OTHERWISE, None, PLAN, simulated=False) is None
