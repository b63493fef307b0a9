"""The measuring alone, against a server that already runs: the same client, the same statistics, no study.

Nothing is started or changed on the server. Redirects are not followed.
"""

from __future__ import annotations

import dataclasses
import json
import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from autotune import engines
from autotune.client_test import ClientTest
from autotune.domain.engine import Engine, Wire
from autotune.domain.measurement import LevelRun, Measurement, RequestRecord
from autotune.domain.trial import ResolvedArguments
from autotune.domain.workload import (
    ENDPOINTS,
    LATE_PRECISION,
    LATE_WARM_UP,
    LEAST_AT_RATE,
    REQUESTS_PER_SLOT,
    LevelPlan,
    MeasurementPlan,
    at_rate,
)
from autotune.errors import InputError, LoadFailed, ServingEnvironmentError
from autotune.launch import Control
from autotune.load import Clock, prompt_source, run_level
from autotune.scoring import Evidence, guarded, measure
from autotune.scoring.intervals.stopping import WarmAndPrecise
from autotune.trial_runner.failures import RequestsFailed, refuse_failed_requests

LEAST_REQUESTS = 10
DIALECT = "sglang"
_HTTP_OK, _DENIED = 200, (401, 403)


@dataclass(frozen=True)
class BenchPlan:
    """`url`: http://host:port. `requests`: per level; None is 5 for each slot and at least 10, or 60 at a rate.
    `rates`: requests a second; where there are any, `concurrency` is not used. `precision`, `level_seconds`: as in a
    workload, for levels. `seed` None: fresh prompts each time."""

    url: str
    concurrency: tuple[int, ...] = (1, 8, 64)
    rates: tuple[float, ...] = ()
    requests: int | None = None
    max_tokens: int = 512
    prompts: str = "coding"
    endpoint: str = "generate"
    model: str | None = None
    api_key: str | None = dataclasses.field(default=None, repr=False)
    seed: int | None = None
    precision: float | None = None
    level_seconds: float | None = None


@dataclass(frozen=True)
class BenchResult:
    """`simulated`: the server says that it is a simulated node; times are then the node's."""

    plan: BenchPlan
    model: str | None
    version: str | None
    simulated: bool
    measurements: tuple[Measurement, ...]

    def summary(self) -> dict[str, Any]:
        """What `--json` prints; None where there is nothing."""
        return {
            "url": self.plan.url,
            "endpoint": self.plan.endpoint,
            "model": self.model,
            "server_version": self.version,
            "simulated": self.simulated,
            "prompts": self.plan.prompts,
            "max_tokens": self.plan.max_tokens,
            "levels": [dataclasses.asdict(measurement) for measurement in self.measurements],
        }


@dataclass(frozen=True)
class _Site:
    host: str
    port: int
    wire: Wire
    model: str | None
    resolved: ResolvedArguments | None
    speed: float | None  # of a simulated node
    names: tuple[str, ...] = ()  # that it answered to at first

    def evidence(self, run: LevelRun, engine: Engine) -> Evidence:
        """Nothing is known of its log: the guards that read it say nothing."""
        known = self.resolved
        return Evidence(
            run=run,
            measurement=measure(run),
            request_cap=engine.request_cap(known) if known is not None else None,
            graph_ceiling=engine.graph_ceiling(known) if known is not None else None,
            speculation=engine.speculation(known) if known is not None else None,
        )


def bench(
    plan: BenchPlan,
    *,
    on_level: Callable[[Measurement], None] = lambda _measurement: None,
    client: ClientTest | None = None,
) -> BenchResult:
    """Measures each level or rate in turn; `on_level` is called after each.

    Raises InputError for a plan that cannot be carried out, a server that is not there or does not let us in;
    LoadFailed where it stops answering, or a level has no completed request.
    """
    levels = _levels(plan)
    seed = secrets.randbits(32) if plan.seed is None else plan.seed
    prompts = prompt_source(plan.prompts, seed=seed)
    engine = engines.get(DIALECT)
    site = _look(plan, engine)
    measurements = []
    for level in levels:
        run = run_level(
            site.host,
            site.port,
            wire=site.wire,
            plan=MeasurementPlan(levels, plan.max_tokens),
            level=level,
            prompts=prompts,
            clock=Clock(rate=site.speed or 1.0),
        )
        measurement = guarded(
            replace(
                site.evidence(run, engine),
                client=None if client is None else client.finding_on(run, site.speed or 1.0),
            )
        )
        if run.sustained:  # a rate that was too high is a finding, though many of its requests have no end
            _refuse_failed(measurement, run.records)
        measurements.append(measurement)
        on_level(measurement)
    _confirm(plan, site, engine)
    version = site.resolved.version if site.resolved is not None else None
    return BenchResult(plan, site.model, version, site.speed is not None, tuple(measurements))


def _refuse_failed(measurement: Measurement, records: tuple[RequestRecord, ...]) -> None:
    try:
        refuse_failed_requests(measurement, records)
    except RequestsFailed as error:
        raise LoadFailed(f"{error.message}: {error.evidence}", hint="see the server's own log") from error


def test_line(true_rate: float, delivered: float, concurrency: int, lag_p99_s: float | None, cpu: float | None) -> str:
    lag = "-" if lag_p99_s is None else f"{1e3 * lag_p99_s:.1f} ms"
    share = "-" if cpu is None else f"{cpu:.0%} of a core"
    return f"C={concurrency:3d} | true: {true_rate:8.1f} tok/s | delivered: {delivered:.4f} | lag p99: {lag} | {share}"


def _levels(plan: BenchPlan) -> tuple[LevelPlan, ...]:
    """Raises InputError for levels that cannot be measured."""
    if plan.endpoint not in ENDPOINTS:
        raise InputError(f"an endpoint is one of {', '.join(ENDPOINTS)}, but got {plan.endpoint!r}")
    if plan.rates:
        wrong = [rate for rate in plan.rates if not (rate > 0 and math.isfinite(rate))]
        if wrong:
            raise InputError(f"a rate must be above 0 requests a second, but got {wrong[0]:g}")
        return tuple(at_rate(rate, plan.requests or LEAST_AT_RATE) for rate in plan.rates)
    if not plan.concurrency or min(plan.concurrency) < 1:
        raise InputError(f"concurrency levels must be at least 1, but got {plan.concurrency}")
    needed = REQUESTS_PER_SLOT * max(plan.concurrency)
    if plan.requests is not None and plan.requests < needed:
        raise InputError(
            f"level {max(plan.concurrency)} needs at least {needed} requests ({REQUESTS_PER_SLOT} for each slot), "
            f"but --requests is {plan.requests}: with fewer, ramp-up and tail are measured",
            hint=f"--requests {needed}, or leave it out",
        )
    return tuple(
        _level(plan, level, plan.requests or max(REQUESTS_PER_SLOT * level, LEAST_REQUESTS))
        for level in plan.concurrency
    )


def _level(plan: BenchPlan, concurrency: int, floor: int) -> LevelPlan:
    return LevelPlan(
        concurrency,
        floor,
        most_requests=floor * (LATE_WARM_UP if plan.precision is None else LATE_PRECISION),
        seconds=plan.level_seconds,
        rule=WarmAndPrecise(plan.precision),
    )


def _look(plan: BenchPlan, engine: Engine) -> _Site:
    """Who answers there, and under which name."""
    host, port = _address(plan.url)
    shown = f"[{host}]" if ":" in host else host
    with Control(shown, port, api_key=plan.api_key) as control:
        said = control.get(engine.endpoints.identity)
        if said.status is None:
            raise ServingEnvironmentError(
                f"nothing answers at {plan.url}: {said.text}", hint="is the server up, and is this its address?"
            )
        if said.status in _DENIED:
            raise InputError(
                f"{plan.url} answers {said.status}: it wants a key, or another one",
                hint="put the key into an environment variable, and name that: --api-key-env NAME",
            )
        names = engine.served_names(said.text) if said.status == _HTTP_OK else ()
        model = plan.model or (names[0] if names else None)
        if model is None and plan.endpoint != "generate":
            raise InputError(f"{plan.url} does not say which model it serves", hint="--model NAME")
        info = next(
            (r for path in engine.endpoints.server_info if (r := control.get(path)).status == _HTTP_OK),
            None,
        )
    resolved = engine.resolved(info.text) if info is not None else None
    return _Site(
        host,
        port,
        engine.wire_for(plan.endpoint, model or "", api_key=plan.api_key),
        model,
        resolved,
        _simulated_speed(info.text) if info is not None else None,
        names,
    )


def _confirm(plan: BenchPlan, site: _Site, engine: Engine) -> None:
    """Raises LoadFailed where another server answers than the one that was looked at."""
    shown = f"[{site.host}]" if ":" in site.host else site.host
    with Control(shown, site.port, api_key=plan.api_key) as control:
        said = control.get(engine.endpoints.identity)
    names = engine.served_names(said.text) if said.status == _HTTP_OK else ()
    if names and site.names and names != site.names:
        raise LoadFailed(
            f"{plan.url} answered as {', '.join(site.names)} before the first level, and as {', '.join(names)} after "
            "the last: nobody knows which of them was measured"
        )


def _address(url: str) -> tuple[str, int]:
    hint = "write --url http://host:port"
    try:
        parts = urlsplit(url if "//" in url else f"//{url}")
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise InputError(f"not an address: {url} ({error})", hint=hint) from None
    if parts.username is not None or parts.password is not None:
        raise InputError("an address must hold no user name or password", hint="--api-key-env NAME")
    if parts.scheme not in ("", "http"):
        raise InputError(f"the load client speaks http only, but the address begins with {parts.scheme}", hint=hint)
    if not host or port is None or parts.path not in ("", "/") or parts.query:
        raise InputError(f"an address must be a host and a port, but got {url}", hint=hint)
    return host, port


def _simulated_speed(info: str) -> float | None:
    """Node seconds per second, where the server says that it is a simulated node."""
    try:
        said = json.loads(info)
    except ValueError:
        return None
    node = said.get("simulated_node") if isinstance(said, dict) else None
    speed = node.get("speed") if isinstance(node, dict) else None
    return float(speed) if isinstance(speed, int | float) else None
