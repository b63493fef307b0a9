"""The levels of one launch, on a server that is ready: measured one by one, again where disturbed, and remarked on."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace

from autotune.domain.level import label
from autotune.domain.measurement import LevelRun, Measurement
from autotune.domain.trial import Origin, TrialRequest
from autotune.domain.workload import LevelPlan
from autotune.launch import Server
from autotune.load import Clock, run_level
from autotune.scoring import Evidence, guarded, measure, with_goodput
from autotune.scoring.guarding.guards import by_circumstance
from autotune.trial_runner import hygiene
from autotune.trial_runner.ending import bound_after, hopeless_at, ordered, with_rule
from autotune.trial_runner.failures import refuse_failed_requests, refuse_void
from autotune.trial_runner.hygiene import WatchedLevel
from autotune.trial_runner.site import HOST, Attempt, TrialSite
from autotune.trial_runner.watching import PassageWatch


class LevelMeasurer:
    """Measures every level of the study's plan; what it finds goes into `attempt` at once, so that a failure at a
    later level keeps the earlier ones."""

    def __init__(
        self,
        site: TrialSite,
        server: Server,
        port: int,
        request: TrialRequest,
        attempt: Attempt,
        baseline: Sequence[Measurement] = (),
    ) -> None:
        """`baseline`: its measurements; empty while there are none."""
        self._site, self._server, self._port = site, server, port
        self._baseline = {measurement.level: measurement for measurement in baseline}
        self._request, self._attempt = request, attempt
        self._plan = ordered(site.spec.plan(), request.screen)
        held_out = site.held_out if request.origin is Origin.CONFIRMATION else None
        self._prompts, self._is_held_out = held_out or site.prompts, held_out is not None
        self._rate = site.engine.clock_rate(site.spec.engine)

    def run(self) -> None:
        """Raises TrialError where the server dies or gets stuck, or a guard voids a level that the score needs."""
        attempt, screen = self._attempt, self._request.screen
        for level in self._plan.levels:
            self._site.on_phase(label(level.level))
            self._level(level)
            attempt.bound = bound_after(screen, attempt.measurements, precision=self._site.spec.workload.precision)
            if attempt.bound is not None:
                attempt.note(str(attempt.bound))
                return

    def _level(self, level: LevelPlan) -> None:
        attempt, folder, trial = self._attempt, self._site.folder, self._request.number
        seen = self._pass(level)
        attempt.measurements.append(seen.measurement)
        folder.write_records(trial, seen.run)
        if seen.disturbed:
            _refuse_failed(seen.measurement, seen.run)
            seen = self._again(level, seen)
            folder.write_records(trial, seen.run)
        measurement = with_goodput(seen.measurement, seen.run, self._site.spec.slo.of_a_request(level.level))
        evidence = replace(self._evidence(seen), measurement=measurement, disturbed=seen.on_the_gpus)
        attempt.measurements[-1] = measurement = guarded(evidence)
        _refuse_failed(measurement, seen.run)
        if self._site.spec.workload.weights.get(level.level, 1.0) > 0:
            refuse_void(measurement.findings)

    def _evidence(self, seen: WatchedLevel) -> Evidence:
        engine, resolved = self._site.engine, self._attempt.resolved
        return Evidence(
            run=seen.run,
            measurement=seen.measurement,
            ignore_eos=self._plan.ignore_eos,
            server=seen.server,
            request_cap=engine.request_cap(resolved) if resolved is not None else None,
            graph_ceiling=engine.graph_ceiling(resolved) if resolved is not None else None,
            speculation=engine.speculation(resolved) if resolved is not None else None,
            baseline=self._baseline.get(seen.run.level),
            others=seen.others,
            client=self._site.client_finding(seen.run),
        )

    def _again(self, level: LevelPlan, first: WatchedLevel) -> WatchedLevel:
        """A disturbed level, measured once more if that can be; what stands of the two."""
        attempt, spec = self._attempt, self._site.spec
        why_not = hygiene.why_no_repeat(
            self._plan,
            level,
            self._prompts,
            promised=hygiene.promised_prompts(spec, self._request),
            hopeless=attempt.repeats_hopeless,
        )
        if why_not:
            return hygiene.unrepeated(first, why_not)
        attempt.measurements[-1] = hygiene.unrepeated(first, "the second time did not come to its end").measurement
        self._site.on_phase(f"{label(level.level)} again")
        second = self._pass(level)
        attempt.repeats_hopeless = bool(second.disturbed)
        return hygiene.settled(first, second)

    def _pass(self, level: LevelPlan) -> WatchedLevel:
        """One level, once, with an eye on the GPUs, the server and the node."""
        folder, prompts, attempt = self._site.folder, self._prompts, self._attempt
        level = with_rule(
            self._plan,
            level,
            prompts,
            precision=self._site.spec.workload.precision,
            promised=hygiene.promised_prompts(self._site.spec, self._request),
            hopeless=hopeless_at(level, self._request.screen, attempt.measurements),
        )
        folder.note_prompts(  # before: a killed study repeats none
            prompts.position + level.most_prompts, held_out=self._is_held_out
        )
        sampler = attempt.gpus.sampler() if attempt.gpus is not None else None
        watch = PassageWatch(self._server)
        with sampler or nullcontext():
            began_s = time.monotonic()
            run = run_level(
                HOST,
                self._port,
                wire=self._site.engine.wire_for(self._site.spec.workload.endpoint, attempt.served_name),
                plan=self._plan,
                level=level,
                prompts=prompts,
                clock=Clock(rate=self._rate, alive=watch.alive),
            )
        watch.finish()
        folder.note_prompts(prompts.position, held_out=self._is_held_out)
        if sampler is not None and sampler.problem:
            attempt.note(f"the trial's GPUs were not watched all the time: {sampler.problem}")
        seen = replace(
            hygiene.watched(run, measure(run), sampler, began_s=began_s, rate=self._rate),
            server=watch.server_window(self._site.engine, run, began_s=began_s, rate=self._rate),
            others=watch.others,
        )
        spoiled = tuple(found.text for found in guarded(self._evidence(seen)).findings if by_circumstance(found))
        return replace(seen, disturbed=(*seen.disturbed, *spoiled), spoiled=spoiled)


def _refuse_failed(measurement: Measurement, run: LevelRun) -> None:
    if run.sustained:
        refuse_failed_requests(measurement, run.records)
