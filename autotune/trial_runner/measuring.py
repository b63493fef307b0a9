"""The levels of one launch, on a server that is ready: measured one by one, again where disturbed, and remarked on."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

from autotune.domain.trial import TrialRequest
from autotune.domain.workload import LevelPlan
from autotune.launch import Server
from autotune.load import Clock, run_level
from autotune.scoring import acceptance_alarms, measure
from autotune.trial_runner import hygiene
from autotune.trial_runner.failures import refuse_failed_requests
from autotune.trial_runner.hygiene import WatchedLevel
from autotune.trial_runner.site import HOST, Attempt, TrialSite


class LevelMeasurer:
    """Measures every level of the study's plan; what it finds goes into `attempt` at once, so that a failure at a
    later level keeps the earlier ones."""

    def __init__(self, site: TrialSite, server: Server, port: int, request: TrialRequest, attempt: Attempt) -> None:
        self._site, self._server, self._port = site, server, port
        self._request, self._attempt = request, attempt
        self._plan = site.spec.plan()
        self._rate = site.engine.clock_rate(site.spec.engine)

    def run(self) -> None:
        """Raises TrialError where the server dies, gets stuck, or too many requests fail."""
        for level in self._plan.levels:
            self._site.on_phase(f"C={level.concurrency}")
            self._level(level)

    def _level(self, level: LevelPlan) -> None:
        attempt, folder, trial = self._attempt, self._site.folder, self._request.number
        seen = self._pass(level)
        attempt.measurements.append(seen.measurement)
        folder.write_records(trial, seen.run)
        if seen.disturbed:
            refuse_failed_requests(seen.measurement, seen.run.records)
            seen = self._again(level, seen)
            folder.write_records(trial, seen.run)
        measurement = replace(seen.measurement, remarks=(*seen.measurement.remarks, *self._findings(level, seen)))
        attempt.measurements[-1] = measurement
        refuse_failed_requests(measurement, seen.run.records)

    def _findings(self, level: LevelPlan, seen: WatchedLevel) -> list[str]:
        """Remarks that need to know the server or the client beside the records."""
        engine, resolved = self._site.engine, self._attempt.resolved
        cap = engine.request_cap(resolved) if resolved is not None else None
        speculation = engine.speculation(resolved) if resolved is not None else None
        found = []
        if cap is not None and cap < level.concurrency:
            found.append(f"the server runs {cap} requests at once: the other {level.concurrency - cap} wait in line")
        found += acceptance_alarms(seen.run, speculation)
        own = self._site.client_remark(seen.run)
        return [*found, own] if own else found

    def _again(self, level: LevelPlan, first: WatchedLevel) -> WatchedLevel:
        """A disturbed level, measured once more if that can be; what stands of the two."""
        attempt, spec = self._attempt, self._site.spec
        why_not = hygiene.why_no_repeat(
            self._plan,
            level,
            self._site.prompts,
            promised=hygiene.promised_prompts(spec, self._request.number),
            hopeless=attempt.repeats_hopeless,
        )
        if why_not:
            return hygiene.unrepeated(first, why_not)
        attempt.measurements[-1] = hygiene.unrepeated(first, "the second time did not come to its end").measurement
        self._site.on_phase(f"C={level.concurrency} again")
        second = self._pass(level)
        attempt.repeats_hopeless = bool(second.disturbed)
        return hygiene.settled(first, second)

    def _pass(self, level: LevelPlan) -> WatchedLevel:
        """One level, once, with an eye on the GPUs."""
        folder, prompts, attempt = self._site.folder, self._site.prompts, self._attempt
        folder.note_prompts(prompts.position + level.prompts)  # before: a killed study repeats none
        sampler = attempt.gpus.sampler() if attempt.gpus is not None else None
        with sampler or nullcontext():
            began_s = time.monotonic()
            run = run_level(
                HOST,
                self._port,
                wire=self._site.engine.wire_for(self._site.spec.workload.endpoint, attempt.served_name),
                plan=self._plan,
                level=level,
                prompts=prompts,
                clock=Clock(rate=self._rate, alive=_death_of(self._server)),
            )
        folder.note_prompts(prompts.position)
        if sampler is not None and sampler.problem:
            attempt.note(f"the trial's GPUs were not watched all the time: {sampler.problem}")
        return hygiene.watched(run, measure(run), sampler, began_s=began_s, rate=self._rate)


def _death_of(server: Server) -> Callable[[], str | None]:
    def ended() -> str | None:
        status = server.exit_status()
        return None if status is None else f"the server ended with status {status} under load"

    return ended
