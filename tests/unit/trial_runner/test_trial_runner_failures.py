import pytest
from builders import record

from autotune import engines
from autotune.domain.measurement import Measurement
from autotune.domain.trial import Failure, FailureReason, TrialState
from autotune.errors import (
    LevelRefused,
    LoadFailed,
    NoTokens,
    ServerDied,
    ServerLeftovers,
    ServerStuck,
    TrialError,
    WrongServer,
)
from autotune.trial_runner.failures import RequestsFailed, explain, refuse_failed_requests, state_after

ENGINE = engines.get("sglang")


def failure(reason: FailureReason) -> Failure:
    return Failure(reason, "message")


@pytest.mark.parametrize(
    ("error", "ready", "reason"),
    [
        (ServerStuck("no progress"), False, FailureReason.STUCK_STARTING),
        (ServerStuck("no progress"), True, FailureReason.STUCK_SERVING),
        (WrongServer("another name"), False, FailureReason.WRONG_SERVER),
        (ServerLeftovers("pid 7"), True, FailureReason.LEFTOVERS),
        (LevelRefused("30 < 1250"), True, FailureReason.LEVEL_REFUSED),
        (NoTokens("none for 120 s"), True, FailureReason.STUCK_SERVING),
        (LoadFailed("no prompts left"), True, FailureReason.CLIENT_FAILED),
        (RequestsFailed("9 of 10", evidence="status 500"), True, FailureReason.REQUESTS_FAILED),
    ],
    ids=lambda value: value.name if isinstance(value, FailureReason) else type(value).__name__,
)
def test_each_error_of_a_trial_has_its_reason(error: TrialError, ready: bool, reason: FailureReason) -> None:
    assert explain(error, ENGINE, exit_status=None, log="all well", ready=ready).reason is reason


def test_a_server_that_ended_explains_more_than_the_client_that_noticed() -> None:
    log = "usage: launch_server\nlaunch_server.py: error: argument --attention-backend: invalid choice: 'fa9'\n"
    found = explain(LoadFailed("connection refused"), ENGINE, exit_status=2, log=log, ready=False)
    assert found.reason is FailureReason.ARGUMENT_REJECTED
    assert "fa9" in found.evidence


def test_a_server_that_never_ran_is_explained_by_the_message() -> None:
    error = ServerDied("no such file: /nowhere/python", exit_status=None)
    found = explain(error, ENGINE, exit_status=None, log="", ready=False)
    assert found.reason is FailureReason.DIED_STARTING
    assert "/nowhere/python" in found.evidence


@pytest.mark.parametrize(
    ("reasons", "state"),
    [
        ([FailureReason.OUT_OF_MEMORY], TrialState.INFEASIBLE),
        ([FailureReason.PORT_TAKEN, FailureReason.PORT_TAKEN], TrialState.FAILED),
        ([FailureReason.DIED_SERVING, FailureReason.DIED_SERVING], TrialState.INFEASIBLE),
        ([FailureReason.DIED_SERVING, FailureReason.STUCK_SERVING], TrialState.FAILED),
        ([FailureReason.PORT_TAKEN, FailureReason.OUT_OF_MEMORY], TrialState.INFEASIBLE),
    ],
)
def test_a_failure_is_held_against_the_configuration_when_it_is_its_own_or_came_twice(
    reasons: list[FailureReason], state: TrialState
) -> None:
    assert state_after([failure(reason) for reason in reasons]) is state


def test_one_failed_request_in_twenty_is_let_pass_and_more_are_not() -> None:
    good = [record() for _ in range(19)]
    bad = record(error="status 500")
    refuse_failed_requests(Measurement(4, requests_total=20, requests_ok=19), (*good, bad))
    with pytest.raises(RequestsFailed, match="2 of 20"):
        refuse_failed_requests(Measurement(4, requests_total=20, requests_ok=18), (*good[:18], bad, bad))


def test_a_level_with_no_completed_request_is_no_measurement() -> None:
    with pytest.raises(RequestsFailed, match="no request"):
        refuse_failed_requests(Measurement(4, requests_total=0, requests_ok=0), (record(cancelled=True),))
