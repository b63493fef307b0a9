"""The life of a trial. Every step is a method; the order is `_attempt`."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from autotune.domain.engine import Engine, LaunchSite
from autotune.domain.measurement import Measurement
from autotune.domain.study import StudySpec
from autotune.domain.trial import (
    Blame,
    Difference,
    EngineVersion,
    Failure,
    LaunchCommand,
    Origin,
    Provenance,
    ResolvedArguments,
    TrialRequest,
    TrialResult,
    TrialState,
)
from autotune.domain.workload import PromptSource
from autotune.errors import TrialError
from autotune.launch import (
    Control,
    Readiness,
    Server,
    await_ready,
    complete_environment,
    free_port,
    short_tmpdir,
    start,
)
from autotune.load import Clock, run_level
from autotune.recording import RunFolder
from autotune.scoring import measure, score
from autotune.trial_runner.failures import explain, refuse_failed_requests, state_after

HOST = "127.0.0.1"
HTTP_OK = 200
MAX_ATTEMPTS = 2
_DYING_S = 2.0


@dataclass(frozen=True)
class TrialSite:
    """All that stays the same from trial to trial."""

    spec: StudySpec
    engine: Engine
    version: EngineVersion
    provenance: Provenance
    folder: RunFolder
    prompts: PromptSource
    tuner_python: str
    shell: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    on_phase: Callable[[str], None] = lambda _phase: None


@dataclass
class _Attempt:
    """What one launch has shown so far; filled as it goes, so that a failure keeps what came before it."""

    command: LaunchCommand | None = None
    startup_seconds: float | None = None
    resolved: ResolvedArguments | None = None
    differences: tuple[Difference, ...] = ()
    measurements: list[Measurement] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    failure: Failure | None = None
    interrupted: bool = False

    @property
    def ready(self) -> bool:
        return self.startup_seconds is not None


class TrialRunner:
    """`baseline` holds the baseline's measurements once they exist; a weighted_speedup needs them."""

    def __init__(self, site: TrialSite, baseline: Sequence[Measurement] = ()) -> None:
        self._site = site
        self._baseline = tuple(baseline)
        self._rate = site.engine.clock_rate(site.spec.engine)

    def evaluate(self, request: TrialRequest) -> TrialResult:
        """Never raises for what a trial can do wrong. Ctrl-C ends the server and gives an INTERRUPTED result."""
        started, clock = datetime.now(UTC), time.monotonic()
        failures: list[Failure] = []
        attempt = _Attempt()
        for number in range(1, MAX_ATTEMPTS + 1):
            attempt = self._attempt(request, number)
            if attempt.failure is None or attempt.interrupted:
                break
            failures.append(attempt.failure)
            if attempt.failure.reason.blame is Blame.CONFIGURATION:
                break
        return self._result(request, attempt, failures, started=started, clock=clock)

    def _attempt(self, request: TrialRequest, number: int) -> _Attempt:
        """The one catch site: what a trial can do wrong becomes `attempt.failure`; a bug of ours flies on."""
        attempt = _Attempt()
        try:
            self._serve(request, number, attempt)
        except TrialError as error:
            attempt.failure = explain(error, self._site.engine, exit_status=None, log="", ready=attempt.ready)
        except KeyboardInterrupt:
            attempt.interrupted = True
        return attempt

    def _serve(self, request: TrialRequest, number: int, attempt: _Attempt) -> None:
        spec, engine = self._site.spec, self._site.engine
        place = LaunchSite(HOST, free_port(HOST), _served_name(request), self._site.tuner_python)
        asked = engine.command(spec.engine, self._site.version, request.configuration, place)
        tmpdir = short_tmpdir()
        attempt.command = complete_environment(asked, self._site.shell, tmpdir=tmpdir)
        name = "server.log" if number == 1 else f"server-{number}.log"
        log_path = self._site.folder.trial_folder(request.number) / name
        self._site.on_phase("launching")
        server = start(attempt.command, log_path=log_path, tmpdir=tmpdir)
        with server, Control(HOST, place.port) as control:
            try:
                self._await_ready(server, control, place.served_name, attempt)
                self._read_back(control, request.number, number, attempt)
                self._measure(server, place.port, request.number, attempt)
            except TrialError as error:
                status = _settled_status(server)
                attempt.failure = explain(error, engine, exit_status=status, log=server.log(), ready=attempt.ready)
            self._site.on_phase("stopping")
            report = server.stop(grace_s=spec.limits.stop_grace_s)
        if report.killed and attempt.failure is None:
            attempt.remarks.append(
                f"had to be killed: it did not stop within {spec.limits.stop_grace_s:g} s of SIGTERM"
            )

    def _await_ready(self, server: Server, control: Control, served_name: str, attempt: _Attempt) -> None:
        endpoints, limits = self._site.engine.endpoints, self._site.spec.limits
        readiness = Readiness(
            ready_line=endpoints.ready_line,
            health=endpoints.health,
            identity=endpoints.identity,
            served_name=served_name,
            served_names=self._site.engine.served_names,
        )
        attempt.startup_seconds = await_ready(
            server,
            control,
            readiness,
            silence_s=limits.silence_s,
            start_s=limits.start_s,
            clock_rate=self._rate,
            on_phase=self._site.on_phase,
        )

    def _read_back(self, control: Control, trial: int, number: int, attempt: _Attempt) -> None:
        """What the server says it runs with. A server that does not say is measured all the same, and marked."""
        engine = self._site.engine
        for path in engine.endpoints.server_info:
            reply = control.get(path)
            resolved = engine.resolved(reply.text) if reply.status == HTTP_OK else None
            if resolved is not None and attempt.command is not None:
                self._site.folder.write_server_info(trial, number, reply.text)
                attempt.resolved = resolved
                attempt.differences = engine.differences(attempt.command, resolved)
                return
        attempt.remarks.append("the server did not say what it runs with: asked and resolved could not be compared")

    def _measure(self, server: Server, port: int, trial: int, attempt: _Attempt) -> None:
        plan, engine = self._site.spec.plan(), self._site.engine
        cap = engine.request_cap(attempt.resolved) if attempt.resolved is not None else None

        def ended() -> str | None:
            status = server.exit_status()
            return None if status is None else f"the server ended with status {status} under load"

        for level in plan.levels:
            self._site.on_phase(f"C={level.concurrency}")
            prompts = self._site.prompts
            self._site.folder.note_prompts(prompts.position + level.prompts)  # before: a killed study repeats none
            run = run_level(
                HOST,
                port,
                wire=engine.wire,
                plan=plan,
                level=level,
                prompts=prompts,
                clock=Clock(rate=self._rate, alive=ended),
            )
            self._site.folder.note_prompts(prompts.position)
            self._site.folder.write_records(trial, run)
            measurement = measure(run)
            if cap is not None and cap < level.concurrency:
                remark = f"the server runs {cap} requests at once: the other {level.concurrency - cap} wait in line"
                measurement = replace(measurement, remarks=(*measurement.remarks, remark))
            attempt.measurements.append(measurement)
            refuse_failed_requests(measurement, run.records)

    def _result(
        self, request: TrialRequest, attempt: _Attempt, failures: list[Failure], *, started: datetime, clock: float
    ) -> TrialResult:
        if attempt.interrupted:
            state = TrialState.INTERRUPTED
        elif attempt.failure is not None:
            state = state_after(failures)
        else:
            state = TrialState.COMPLETE
        spec = self._site.spec
        measurements = tuple(attempt.measurements)
        is_baseline = request.origin is Origin.BASELINE and state is TrialState.COMPLETE
        if is_baseline and not self._baseline:
            self._baseline = measurements
        scored = (
            score(measurements, spec.objective, spec.workload.concurrency, self._baseline or None)
            if state is TrialState.COMPLETE
            else None
        )
        earlier = [f"attempt {n}: {f.reason.word}: {f.evidence or f.message}" for n, f in enumerate(failures, 1)]
        return TrialResult(
            number=request.number,
            configuration=request.configuration,
            origin=request.origin,
            state=state,
            started_at=started.isoformat(timespec="milliseconds"),
            node_seconds=(time.monotonic() - clock) * self._rate,
            startup_seconds=attempt.startup_seconds,
            command=attempt.command,
            resolved=attempt.resolved,
            differences=attempt.differences,
            measurements=measurements,
            score=scored,
            failure=attempt.failure,
            attempts=max(1, len(failures) + (attempt.failure is None)),
            provenance=self._site.provenance,
            remarks=(*attempt.remarks, *(earlier if attempt.failure is None else earlier[:-1])),
        )


def _served_name(request: TrialRequest) -> str:
    """Unique to the launch, so that another server that answers on the port cannot pass for this one."""
    return f"autotune-trial{request.number}-{request.configuration.digest}-{secrets.token_hex(4)}"


def _settled_status(server: Server) -> int | None:
    """A dying server drops its connections before it is gone: give it a moment, so that its own log explains."""
    deadline = time.monotonic() + _DYING_S
    while (status := server.exit_status()) is None and time.monotonic() < deadline:
        time.sleep(0.05)
    return status
