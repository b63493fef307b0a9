"""The life of a trial. Every step is a method; the order is `_attempt`."""

from __future__ import annotations

import secrets
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from autotune.domain.engine import LaunchSite
from autotune.domain.measurement import Measurement
from autotune.domain.trial import (
    Blame,
    Failure,
    LaunchCommand,
    Origin,
    Provenance,
    TrialRequest,
    TrialResult,
    TrialState,
)
from autotune.errors import TrialError, WrongServer
from autotune.launch import (
    Control,
    GpuChoice,
    GpuWatch,
    Readiness,
    Server,
    await_ready,
    complete_environment,
    free_port,
    short_tmpdir,
    start,
)
from autotune.scoring import judge, score
from autotune.trial_runner.failures import Scene, asks_for_health, explain, refuse_void, state_after
from autotune.trial_runner.identity import KnownServers, duplicate_remark
from autotune.trial_runner.measuring import LevelMeasurer
from autotune.trial_runner.proof import Prover
from autotune.trial_runner.site import HOST, Attempt, TrialSite
from autotune.trial_runner.text_check import TextCheck

HTTP_OK = 200
MAX_ATTEMPTS = 2
_DYING_S = 2.0


class TrialRunner:
    """`baseline` holds the baseline's measurements once they exist; a weighted_speedup needs them."""

    def __init__(
        self, site: TrialSite, baseline: Sequence[Measurement] = (), history: Sequence[TrialResult] = ()
    ) -> None:
        """`history`: the trials that the study has recorded so far."""
        self._site = site
        self._baseline = tuple(baseline)
        self._known = KnownServers(history)
        self._prover = Prover(site.spec, site.engine, site.folder.path, site.ask_allreduce)
        self._rate = site.engine.clock_rate(site.spec.engine)
        self._texts = TextCheck(site, history)

    def evaluate(self, request: TrialRequest) -> TrialResult:
        """Never raises for what a trial can do wrong. Ctrl-C ends the server and gives an INTERRUPTED result."""
        started, clock = datetime.now(UTC), time.monotonic()
        failures: list[Failure] = []
        attempt = Attempt()
        for number in range(1, MAX_ATTEMPTS + 1):
            attempt = self._attempt(request, number)
            if attempt.failure is None or attempt.interrupted:
                break
            failures.append(attempt.failure)
            if attempt.failure.reason.blame is Blame.CONFIGURATION:
                break
        result = self._result(request, attempt, failures, started=started, clock=clock)
        self._known.add(result)
        return result

    def _attempt(self, request: TrialRequest, number: int) -> Attempt:
        """The one catch site: what a trial can do wrong becomes `attempt.failure`; a bug of ours flies on."""
        attempt = Attempt()
        try:
            self._serve(request, number, attempt)
        except TrialError as error:
            attempt.failure = explain(error, self._site.engine, Scene(ready=attempt.ready))
        except KeyboardInterrupt:
            attempt.interrupted = True
        return attempt

    def _serve(self, request: TrialRequest, number: int, attempt: Attempt) -> None:
        spec, engine = self._site.spec, self._site.engine
        place = LaunchSite(HOST, free_port(HOST), _served_name(request), self._site.tuner_python)
        attempt.served_name = place.served_name
        asked = self._site.serving.command(request.configuration, place)
        attempt.gpus = self._free_gpus(asked, attempt)
        if not self._communicates(asked, attempt):
            return
        tmpdir = short_tmpdir()
        attempt.command = complete_environment(asked, self._site.shell, tmpdir=tmpdir)
        attempt.remarks += [f"acceptance simulated: {pretence}" for pretence in engine.pretences(asked)]
        name = "server.log" if number == 1 else f"server-{number}.log"
        log_path = self._site.folder.trial_folder(request.number) / name
        self._site.on_phase("launching")
        server = start(attempt.command, log_path=log_path, tmpdir=tmpdir)
        with server, Control(HOST, place.port) as control:
            try:
                self._await_ready(server, control, place.served_name, attempt)
                if attempt.gpus is not None:
                    attempt.gpus.serving(lambda: [pid for pid, _name in server.descendants()])
                self._read_back(control, request.number, number, attempt)
                if not self._is_known(request, attempt):
                    LevelMeasurer(self._site, server, place.port, request, attempt, self._baseline).run()
                    self._check_server(request, attempt, place.port, server, control)
            except TrialError as error:
                attempt.failure = explain(error, engine, self._scene(error, server, control, attempt))
            self._site.on_phase("stopping")
            report = server.stop(grace_s=spec.limits.stop_grace_s)
        if attempt.gpus is not None:
            attempt.gpus.confirm_gone()
        if report.killed and attempt.failure is None:
            attempt.remarks.append(
                f"had to be killed: it did not stop within {spec.limits.stop_grace_s:g} s of SIGTERM"
            )

    def _check_server(
        self, request: TrialRequest, attempt: Attempt, port: int, server: Server, control: Control
    ) -> None:
        """Once its levels are measured: whether the answers were the target's, and this launch's. Raises LevelVoid,
        WrongServer."""
        self._texts.run(request, attempt, port, lambda: _death_of(server))
        refuse_void(attempt.findings)
        engine = self._site.engine
        reply = control.get(engine.endpoints.identity)
        names = engine.served_names(reply.text) if reply.status == HTTP_OK else ()
        if names and attempt.served_name not in names:
            raise WrongServer(
                f"after the last level the port answers as {', '.join(names)} and not as {attempt.served_name}",
                hint="another server took the port: none of this trial's figures can be trusted",
            )

    def _communicates(self, asked: LaunchCommand, attempt: Attempt) -> bool:
        """Proves the NCCL settings before a model is loaded; False where they fail."""
        if not self._prover.is_due(asked):
            return True
        self._site.on_phase("proving NCCL")
        proven = self._prover.prove(asked, self._site.shell)
        attempt.proof, attempt.failure = proven.proof, proven.failure
        attempt.remarks += proven.remarks
        if proven.failure is not None:
            attempt.command = complete_environment(asked, self._site.shell, tmpdir=Path(tempfile.gettempdir()))
        return proven.failure is None

    def _is_known(self, request: TrialRequest, attempt: Attempt) -> bool:
        """Whether the server turned out to be one whose figures the study has."""
        if attempt.command is None or attempt.resolved is None:
            return False
        engine = self._site.engine
        attempt.identity = engine.resolved_identity(attempt.command, attempt.resolved)
        attempt.original = self._known.original(
            request, attempt.identity, self._site.spec.plan(), simulated=engine.simulated
        )
        if attempt.original is not None:
            attempt.remarks.append(duplicate_remark(attempt.original))
        return attempt.original is not None

    def _free_gpus(self, asked: LaunchCommand, attempt: Attempt) -> GpuWatch | None:
        """The GPUs that the command will take, once they are idle. Raises NodeBusy."""
        positions = self._site.engine.gpus(asked)
        if positions is None:
            return None
        setting = {**self._site.shell, **asked.environment}.get("CUDA_VISIBLE_DEVICES")
        watch = self._site.gpu_watch(GpuChoice(setting, positions), attempt.note)
        watch.await_free(self._site.on_phase)
        return watch

    def _scene(self, error: TrialError, server: Server, control: Control, attempt: Attempt) -> Scene:
        status, healthy = _settled_status(server), None
        if status is None and asks_for_health(error):
            healthy = control.get(self._site.engine.endpoints.health).status == HTTP_OK
        return Scene(status, server.log(), attempt.ready, server.killed_by_kernel(), healthy)

    def _await_ready(self, server: Server, control: Control, served_name: str, attempt: Attempt) -> None:
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

    def _read_back(self, control: Control, trial: int, number: int, attempt: Attempt) -> None:
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

    def _result(
        self, request: TrialRequest, attempt: Attempt, failures: list[Failure], *, started: datetime, clock: float
    ) -> TrialResult:
        if attempt.interrupted:
            state = TrialState.INTERRUPTED
        elif attempt.failure is not None:
            state = state_after(failures)
        else:
            state = TrialState.COMPLETE if attempt.bound is None else TrialState.PRUNED
        spec = self._site.spec
        original = attempt.original if state is TrialState.COMPLETE else None
        own = sorted(attempt.measurements, key=lambda measurement: measurement.level)
        measurements = tuple(own) if original is None else original.measurements
        is_baseline = request.origin is Origin.BASELINE and state is TrialState.COMPLETE
        if is_baseline and not self._baseline:
            self._baseline = measurements
        scored = (
            score(measurements, spec.objective, spec.workload.weights, self._baseline or None)
            if state is TrialState.COMPLETE
            else None
        )
        checks = judge(measurements, spec.slo, spec.workload.levels) if state is TrialState.COMPLETE else ()
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
            provenance=self._provenance(request),
            remarks=(*attempt.remarks, *(earlier if attempt.failure is None else earlier[:-1])),
            resolved_identity=attempt.identity,
            duplicate_of=None if original is None else original.number,
            proof=attempt.proof,
            pretences=() if attempt.command is None else self._site.engine.pretences(attempt.command),
            slo=checks,
            replicate=request.replicate,
            findings=tuple(attempt.findings),
            bound=attempt.bound if state is TrialState.PRUNED else None,
        )

    def _provenance(self, request: TrialRequest) -> Provenance:
        known, version = self._site.provenance, self._site.serving.version(request.configuration)
        return replace(known, engine_version=version.text, node={**known.node, **version.details})


def _served_name(request: TrialRequest) -> str:
    """Unique to the launch, so that another server that answers on the port cannot pass for this one."""
    return f"autotune-trial{request.number}-{request.configuration.digest}-{secrets.token_hex(4)}"


def _settled_status(server: Server) -> int | None:
    """A dying server drops its connections before it is gone: give it a moment, so that its own log explains."""
    deadline = time.monotonic() + _DYING_S
    while (status := server.exit_status()) is None and time.monotonic() < deadline:
        time.sleep(0.05)
    return status


def _death_of(server: Server) -> str | None:
    status = server.exit_status()
    return None if status is None else f"the server ended with status {status} while its text was compared"
