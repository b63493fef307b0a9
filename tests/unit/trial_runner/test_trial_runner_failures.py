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
from autotune.scoring.guarding.guards import finding
from autotune.trial_runner.failures import (
    LevelVoid,
    RequestsFailed,
    Scene,
    asks_for_health,
    explain,
    refuse_failed_requests,
    refuse_void,
    state_after,
)

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
        (LevelVoid(finding("client_slow", "the client was slow", 64)), True, FailureReason.LEVEL_VOID),
        (LevelVoid(finding("text", "other text", None)), True, FailureReason.WRONG_ANSWERS),
        (RequestsFailed("9 of 10", evidence="status 500"), True, FailureReason.REQUESTS_FAILED),
    ],
    ids=lambda value: value.name if isinstance(value, FailureReason) else type(value).__name__,
)
def test_each_error_of_a_trial_has_its_reason(error: TrialError, ready: bool, reason: FailureReason) -> None:
    assert explain(error, ENGINE, Scene(log="all well", ready=ready)).reason is reason


def test_a_server_that_ended_explains_more_than_the_client_that_noticed() -> None:
    log = "usage: launch_server\nlaunch_server.py: error: argument --attention-backend: invalid choice: 'fa9'\n"
    found = explain(LoadFailed("connection refused"), ENGINE, Scene(exit_status=2, log=log))
    assert found.reason is FailureReason.ARGUMENT_REJECTED
    assert "fa9" in found.evidence


def test_a_server_that_never_ran_is_explained_by_the_message() -> None:
    error = ServerDied("no such file: /nowhere/python", exit_status=None)
    found = explain(error, ENGINE, Scene())
    assert found.reason is FailureReason.DIED_STARTING
    assert "/nowhere/python" in found.evidence


def test_a_server_that_ended_at_once_without_a_word_is_explained_by_its_status() -> None:
    found = explain(ServerDied("ended", exit_status=3), ENGINE, Scene(exit_status=3))
    assert found.reason is FailureReason.DIED_STARTING
    assert found.exit_status == 3
    assert "exit status 3" in found.message


@pytest.mark.parametrize("killed", [True, False, None])
def test_the_kernels_counter_reaches_the_diagnosis(killed: bool | None) -> None:
    scene = Scene(exit_status=-9, log="[2026-11-29 15:16:00] Decode batch\n", ready=True, killed_by_kernel=killed)
    found = explain(LoadFailed("connection reset"), ENGINE, scene)
    assert found.reason is (FailureReason.KILLED_BY_KERNEL if killed else FailureReason.DIED_SERVING)


@pytest.mark.parametrize(
    ("healthy", "reason"),
    [
        (True, FailureReason.STUCK_BUT_HEALTHY),
        (False, FailureReason.STUCK_SERVING),
        (None, FailureReason.STUCK_SERVING),
    ],
)
def test_a_hang_that_the_health_check_does_not_see_has_a_name_of_its_own(
    healthy: bool | None, reason: FailureReason
) -> None:
    found = explain(NoTokens("none for 120 s"), ENGINE, Scene(log="last line\n", ready=True, healthy=healthy))
    assert found.reason is reason
    assert found.evidence == "last line"
    assert ("health check" in found.message) is (healthy is True)


def test_only_a_server_that_sends_no_tokens_is_asked_for_its_health() -> None:
    assert asks_for_health(NoTokens("none"))
    assert not asks_for_health(LoadFailed("no prompts left"))
    assert not asks_for_health(ServerStuck("no progress"))


def test_a_stuck_server_whose_log_says_why_is_explained_by_its_log() -> None:
    log = (
        "[2026-11-29 15:16:01 TP3] Scheduler hit an exception: Traceback (most recent call last):\n"
        '  File "/opt/sglang/x.py", line 7, in run\n'
        "torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n"
    )
    found = explain(NoTokens("none for 120 s"), ENGINE, Scene(log=log, ready=True, healthy=True))
    assert found.reason is FailureReason.ENGINE_BUG
    assert found.message.startswith("none for 120 s: ")
    assert found.exit_status is None


def test_a_start_that_hangs_while_the_gpus_connect_is_a_hang_of_communication() -> None:
    log = "[2026-11-29 15:16:01 TP0] Init torch distributed begin.\n"
    found = explain(ServerStuck("no progress for 300 s"), ENGINE, Scene(log=log))
    assert found.reason is FailureReason.COMMUNICATION_HUNG
    assert "no progress for 300 s" in found.message


@pytest.mark.parametrize(
    ("reasons", "state"),
    [
        ([FailureReason.OUT_OF_MEMORY], TrialState.INFEASIBLE),
        ([FailureReason.PORT_TAKEN, FailureReason.PORT_TAKEN], TrialState.FAILED),
        ([FailureReason.DIED_SERVING, FailureReason.DIED_SERVING], TrialState.INFEASIBLE),
        ([FailureReason.DIED_SERVING, FailureReason.STUCK_SERVING], TrialState.FAILED),
        ([FailureReason.PORT_TAKEN, FailureReason.OUT_OF_MEMORY], TrialState.INFEASIBLE),
        ([FailureReason.ENGINE_BUG, FailureReason.ENGINE_BUG], TrialState.INFEASIBLE),
        ([FailureReason.KILLED_BY_KERNEL, FailureReason.DIED_SERVING], TrialState.FAILED),
        ([FailureReason.SHARED_MEMORY_FULL, FailureReason.SHARED_MEMORY_FULL], TrialState.FAILED),
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


def test_only_a_finding_that_voids_fails_the_trial_and_says_where_and_why() -> None:
    mark, void = finding("queue", "waits", 64), finding("foreign_requests", "9 ran where 4 were sent", 4)
    refuse_void([mark])
    with pytest.raises(LevelVoid, match="at concurrency 4: 9 ran where 4 were sent") as raised:
        refuse_void([mark, void])
    assert raised.value.hint.startswith("guard foreign_requests: ")


def test_a_void_by_circumstance_is_never_held_against_the_configuration_and_wrong_answers_twice_are() -> None:
    assert state_after([failure(FailureReason.LEVEL_VOID)] * 2) is TrialState.FAILED
    assert state_after([failure(FailureReason.WRONG_ANSWERS)] * 2) is TrialState.INFEASIBLE
