"""From an exception of a trial to a FailureReason with its evidence."""

from __future__ import annotations

from autotune.domain.engine import Engine
from autotune.domain.measurement import Measurement, RequestRecord
from autotune.domain.trial import Blame, Failure, FailureReason, TrialState
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

_MAX_FAILED_SHARE = 0.05
"""More failed requests than this and the level's throughput is that of another workload."""

_REASONS: tuple[tuple[type[TrialError], FailureReason], ...] = (
    (WrongServer, FailureReason.WRONG_SERVER),
    (ServerLeftovers, FailureReason.LEFTOVERS),
    (LevelRefused, FailureReason.LEVEL_REFUSED),
    (NoTokens, FailureReason.STUCK_SERVING),
    (LoadFailed, FailureReason.CLIENT_FAILED),
)


class RequestsFailed(TrialError):
    """`evidence` is the first failed request's own message."""

    def __init__(self, message: str, *, evidence: str) -> None:
        super().__init__(message)
        self.evidence = evidence


def refuse_failed_requests(measurement: Measurement, records: tuple[RequestRecord, ...]) -> None:
    """Raises RequestsFailed where more than 1 request in 20 of a level failed, or none was answered."""
    errors = [record.error for record in records if record.error is not None]
    total = measurement.requests_total
    if errors and (not total or (total - measurement.requests_ok) > _MAX_FAILED_SHARE * total):
        raise RequestsFailed(
            f"at concurrency {measurement.concurrency}, {len(errors)} of {len(records)} requests failed",
            evidence=errors[0],
        )
    if not measurement.requests_ok:
        raise RequestsFailed(
            f"at concurrency {measurement.concurrency}, no request of {len(records)} was completed",
            evidence="no completed request in the window",
        )


def explain(error: TrialError, engine: Engine, *, exit_status: int | None, log: str, ready: bool) -> Failure:
    """A server that has ended explains more than the client that noticed: its log comes first."""
    if isinstance(error, ServerDied) or (exit_status is not None and not isinstance(error, ServerLeftovers)):
        status = error.exit_status if isinstance(error, ServerDied) else exit_status
        if not log.strip() and isinstance(error, ServerDied):  # it never ran: the message is all there is
            return Failure(FailureReason.DIED_STARTING, error.message, error.message, error.hint, status)
        return engine.diagnose(status, log, ready=ready)
    if isinstance(error, RequestsFailed):
        return Failure(FailureReason.REQUESTS_FAILED, error.message, error.evidence)
    if isinstance(error, ServerStuck):
        reason = FailureReason.STUCK_SERVING if ready else FailureReason.STUCK_STARTING
        return Failure(reason, error.message, _last_line(log), error.hint)
    reason = next(reason for kind, reason in _REASONS if isinstance(error, kind))
    return Failure(reason, error.message, _last_line(log) if reason is FailureReason.STUCK_SERVING else "", error.hint)


def state_after(failures: list[Failure]) -> TrialState:
    """What the failures of all attempts come to: see Blame."""
    last = failures[-1].reason
    if last.blame is Blame.CONFIGURATION:
        return TrialState.INFEASIBLE
    twice = len(failures) > 1 and failures[-2].reason is last
    return TrialState.INFEASIBLE if last.blame is Blame.UNKNOWN and twice else TrialState.FAILED


def _last_line(log: str) -> str:
    lines = [line for line in log.splitlines() if line.strip()]
    return lines[-1].strip()[:500] if lines else ""
