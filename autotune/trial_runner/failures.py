"""From an exception of a trial to a FailureReason with its evidence."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from autotune.domain.engine import Engine
from autotune.domain.finding import Effect, Finding
from autotune.domain.level import Level, Rate
from autotune.domain.measurement import Measurement, RequestRecord
from autotune.domain.trial import Blame, Failure, FailureReason, TrialState
from autotune.errors import (
    LevelRefused,
    LoadFailed,
    NodeBusy,
    NoTokens,
    ServerDied,
    ServerLeftovers,
    ServerStuck,
    TrialError,
    WrongServer,
)
from autotune.scoring.guarding.guards import GUARDS, reason_of

_REASONS: tuple[tuple[type[TrialError], FailureReason], ...] = (
    (WrongServer, FailureReason.WRONG_SERVER),
    (ServerLeftovers, FailureReason.LEFTOVERS),
    (NodeBusy, FailureReason.NODE_BUSY),
    (LevelRefused, FailureReason.LEVEL_REFUSED),
    (LoadFailed, FailureReason.CLIENT_FAILED),
)

_NOT_SAID = (FailureReason.DIED_STARTING, FailureReason.DIED_SERVING)
_ZOMBIE_HINT = "old versions do not notice that a scheduler is gone or hangs: see the trial's log"


class RequestsFailed(TrialError):
    """`evidence` is the first failed request's own message."""

    def __init__(self, message: str, *, evidence: str) -> None:
        super().__init__(message)
        self.evidence = evidence


class LevelVoid(TrialError):
    """`found`: the guard's finding."""

    def __init__(self, found: Finding) -> None:
        where = "" if found.level is None else f"at {_at(found.level)}: "
        super().__init__(f"{where}{found.text}", hint=f"guard {found.guard}: {GUARDS[found.guard].why}")
        self.found = found


def refuse_void(findings: Iterable[Finding]) -> None:
    """Raises LevelVoid for the first finding that voids."""
    for found in findings:
        if found.effect is Effect.VOID:
            raise LevelVoid(found)


def refuse_failed_requests(measurement: Measurement, records: tuple[RequestRecord, ...]) -> None:
    """Raises RequestsFailed where more than 1 request in 20 of a level failed, or none was answered. Not to be asked of
    a rate that was not sustained: that requests had no end when it was given up is what it shows."""
    errors = [record.error for record in records if record.error is not None]
    total = measurement.requests_total
    if errors and (not total or (total - measurement.requests_ok) > GUARDS["failed_requests"].threshold * total):
        raise RequestsFailed(
            f"at {_at(measurement.level)}, {len(errors)} of {len(records)} requests failed",
            evidence=errors[0],
        )
    if not measurement.requests_ok:
        raise RequestsFailed(
            f"at {_at(measurement.level)}, no request of {len(records)} was completed",
            evidence="no completed request in the window",
        )


def _at(level: Level) -> str:
    return str(level) if isinstance(level, Rate) else f"concurrency {level}"


@dataclass(frozen=True)
class Scene:
    """What is found where a trial failed. `exit_status`: None while the server lives. `healthy`: what its health
    check said; `killed_by_kernel`: whether the kernel's OOM killer was at work; None where nobody asked or knows."""

    exit_status: int | None = None
    log: str = ""
    ready: bool = False
    killed_by_kernel: bool | None = None
    healthy: bool | None = None


def explain(error: TrialError, engine: Engine, scene: Scene) -> Failure:
    """A server that has ended explains more than the client that noticed: its log comes first."""
    log = scene.log
    if isinstance(error, ServerDied) or (scene.exit_status is not None and not isinstance(error, ServerLeftovers)):
        status = error.exit_status if isinstance(error, ServerDied) else scene.exit_status
        if not log.strip() and isinstance(error, ServerDied) and status is None:  # it never ran
            return Failure(FailureReason.DIED_STARTING, error.message, error.message, error.hint, status)
        return engine.diagnose(status, log, ready=scene.ready, killed_by_kernel=scene.killed_by_kernel)
    if isinstance(error, LevelVoid):
        return Failure(reason_of(error.found), error.message, "", error.hint)
    if isinstance(error, RequestsFailed):
        return Failure(FailureReason.REQUESTS_FAILED, error.message, error.evidence)
    if isinstance(error, ServerStuck | NoTokens):
        return _stuck(error, engine, scene)
    reason = next(reason for kind, reason in _REASONS if isinstance(error, kind))
    return Failure(reason, error.message, "", error.hint)


def asks_for_health(error: TrialError) -> bool:
    """Whether the answer of the health check tells one reason of `error` from another."""
    return isinstance(error, NoTokens)


def _stuck(error: TrialError, engine: Engine, scene: Scene) -> Failure:
    """A server may outlive what has made it useless: a scheduler that died, a collective operation that hangs."""
    found = engine.diagnose(None, scene.log, ready=scene.ready, killed_by_kernel=scene.killed_by_kernel, alive=True)
    if found.reason not in _NOT_SAID:
        return replace(found, message=f"{error.message}: {found.message}")
    last = _last_line(scene.log)
    if scene.healthy:
        message = f"{error.message}; its health check still said that all is well"
        return Failure(FailureReason.STUCK_BUT_HEALTHY, message, last, error.hint or _ZOMBIE_HINT)
    reason = FailureReason.STUCK_SERVING if scene.ready else FailureReason.STUCK_STARTING
    return Failure(reason, error.message, last, error.hint)


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
