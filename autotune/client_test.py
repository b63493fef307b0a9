"""The load client put to the test before it measures anything: against a reference server, at a study's own levels.

A client that cannot keep up shows a slow server where there is none, and shows it most at the high levels. So each
level is run against `autotune.load.reference`, a process of its own that knows what it sent and when, at a pace like a
real server's; and the highest level at rising rates, until less than 99.5 % of what was sent is delivered in time.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from autotune.domain.engine import Engine, Wire
from autotune.domain.finding import Finding
from autotune.domain.measurement import LevelRun
from autotune.domain.study import StudySpec
from autotune.domain.trial import LaunchCommand
from autotune.domain.workload import REQUESTS_PER_SLOT, LevelPlan, MeasurementPlan
from autotune.errors import InputError, LoadFailed, TrialError
from autotune.launch import Control, Server, complete_environment, short_tmpdir, start
from autotune.load import Clock, prompt_source, run_level
from autotune.load.reference import READY_LINE
from autotune.scoring.guarding.guards import finding
from autotune.scoring.window import chunks_inside, tokens_until

HOST = "127.0.0.1"
TOLERANCE = 0.005
STREAM_INTERVAL_S = 0.02
FIRST_RATE = 20_000.0
"""Tokens a second that a level is tested at, or 50 for each of its streams if that is less."""
SHORTEST_INTERVAL_S = 0.002
"""Between the chunks of one stream, where the rate is raised: no server is faster."""
REACHED = 0.9
AT_RATES = (32, 256)
"""Streams at which the client is tested for a study's rates: what is in flight there is not known beforehand."""
SLOWER_TRIES = 3
"""Halvings of a rate that was not held: a level is refused for the client where it does not hold an eighth of it."""
RATES = (20_000.0, 40_000.0, 80_000.0)
REQUEST_S = 0.6
TTFT_S = 0.02
_START_PATIENCE_S = 30.0


@dataclass(frozen=True)
class ClientLevel:
    """One run against the reference server. `true_rate`: tokens a second that it sent (a chunk each) inside the
    client's window; `delivered`: what the client counted over that; `lag_p99_s`, `cpu_share`: see ClientHealth."""

    concurrency: int
    true_rate: float
    delivered: float
    lag_p99_s: float | None
    cpu_share: float | None

    @property
    def holds(self) -> bool:
        return abs(self.delivered - 1.0) <= TOLERANCE


@dataclass(frozen=True)
class ClientTest:
    """`largest_rate`: the largest true rate, in tokens (and chunks) a second, that was delivered within 0.5 %; None
    if none was. It is a lower bound: the reference server may be what ran out first."""

    levels: tuple[ClientLevel, ...] = ()

    @property
    def largest_rate(self) -> float | None:
        return max((level.true_rate for level in self.levels if level.holds), default=None)

    @property
    def facts(self) -> dict[str, str]:
        """For the provenance of a study; empty where nothing was tested."""
        if not self.levels:
            return {}
        largest = self.largest_rate
        lags = [level.lag_p99_s for level in self.levels if level.lag_p99_s is not None]
        return {
            "client_largest_rate": "none" if largest is None else f"{largest:.0f} chunks/s",
            "client_lag_p99": "unknown" if not lags else f"{1e3 * max(lags):.1f} ms",
        }

    def finding_on(self, run: LevelRun, clock_rate: float = 1.0) -> Finding | None:
        """What is to be said of a level at which more came than the client was shown to bear; None if nothing is, or
        nothing was tested. `clock_rate`: seconds of `run` in one of the wall."""
        if not self.levels or run.window is None or run.window[1] <= run.window[0]:
            return None
        seconds = (run.window[1] - run.window[0]) / clock_rate
        return self.finding(run.concurrency, chunks_inside(run.records, run.window) / seconds)

    def finding(self, concurrency: int, chunks_per_s: float) -> Finding | None:
        """The same for a level of so many streams and chunks a second."""
        bound = self.shown(concurrency)
        if chunks_per_s <= bound:
            return None
        broken = [level for level in self.levels if level.concurrency <= concurrency and not level.holds]
        failed_at = min((level.true_rate for level in broken), default=None)
        if failed_at is not None and chunks_per_s >= failed_at:
            text = (
                f"this level had {chunks_per_s:,.0f} chunks/s, and in its own test the client did not keep up with "
                f"{failed_at:,.0f}"
            )
            return finding("client_disproved", text, concurrency, chunks_per_s=chunks_per_s, failed_at=failed_at)
        text = (
            f"the client was tested up to {bound:,.0f} chunks/s at {concurrency} streams, and this level had "
            f"{chunks_per_s:,.0f}: it may have been the slow one"
        )
        return finding("client_untested", text, concurrency, chunks_per_s=chunks_per_s, tested_to=bound)

    def shown(self, concurrency: int) -> float:
        """The largest rate, in chunks a second, that the client was shown to take in at so many streams or more."""
        known = [level for level in self.levels if level.concurrency >= concurrency and level.holds]
        return max((level.true_rate for level in known), default=0.0)

    def refuse_levels(self, wanted: Collection[int] | None = None) -> None:
        """Raises InputError for levels at which the client did not keep up with any rate that it was tested at.
        `wanted`: those that matter; None: all."""
        tested = {level.concurrency for level in self.levels}
        lost = sorted(level for level in tested if not self.shown(level) and (wanted is None or level in wanted))
        if not lost:
            return
        tried = "; ".join(
            f"{level.concurrency} streams at {level.true_rate:,.0f} tok/s: {level.delivered:.2%} delivered"
            for level in self.levels
            if level.concurrency in lost
        )
        raise InputError(
            f"the load client must deliver within {TOLERANCE:.1%} at every level of the study, but in its own test it "
            f"did at no rate of level {', '.join(str(level) for level in lost)} ({tried})",
            hint="end what else runs on this machine, or leave these levels out; "
            "`autotune bench --self-test` repeats the test",
        )


@dataclass(frozen=True)
class Truth:
    """What the reference server did: `steps` are stamps, `tokens` and `chunks` what left at each; `received` and
    `answered` (first token) are stamps of requests, in the order of their first tokens."""

    steps: tuple[float, ...]
    tokens: tuple[int, ...]
    chunks: tuple[int, ...]
    received: tuple[float, ...]
    answered: tuple[float, ...]
    cpu_share: float

    def tokens_between(self, opened: float, closed: float) -> float:
        """Tokens of a step count as made evenly since the step before, as scoring counts those of chunks."""
        made = np.interp([opened, closed], self.steps, np.cumsum(self.tokens), left=0.0)
        return float(made[1] - made[0])


class ReferenceProcess:
    """The reference server while it runs."""

    def __init__(self, control: Control, port: int) -> None:
        self.port = port
        self._control = control

    def pace(self, *, interval_s: float, ttft_s: float = TTFT_S, tokens_per_chunk: int = 1) -> None:
        pace = {"interval_s": interval_s, "ttft_s": ttft_s, "tokens_per_chunk": tokens_per_chunk}
        self._control.post("/reference/pace", json.dumps(pace).encode())
        self.truth()

    def truth(self) -> Truth:
        """Since the last call, or the last change of pace."""
        reply = self._control.get("/reference/truth", timeout_s=30.0)
        if reply.status is None:
            raise LoadFailed(f"the reference server does not answer: {reply.text}")
        said: dict[str, Any] = json.loads(reply.text)
        fields: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in said.items()
        }
        return Truth(**fields)


@contextmanager
def reference_process(tuner_python: str) -> Iterator[ReferenceProcess]:
    """Starts `python -m autotune.load.reference` under a guard, and ends it. Raises LoadFailed if it fails to start."""
    folder, tmpdir = Path(tempfile.mkdtemp(prefix="autotune-client-")), short_tmpdir()
    # The tuner's own modules, wherever they came from: it may have been found through PYTHONPATH, which no server gets.
    own = {"PYTHONPATH": os.pathsep.join(place for place in sys.path if place)}
    command = complete_environment(
        LaunchCommand((tuner_python, "-m", "autotune.load.reference"), own), dict(os.environ), tmpdir=tmpdir
    )
    try:
        with start(command, log_path=folder / "reference.log", tmpdir=tmpdir) as server:
            port = _await_port(server)
            with Control(HOST, port) as control:
                yield ReferenceProcess(control, port)
            server.stop(grace_s=1.0)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _await_port(server: Server) -> int:
    deadline = time.monotonic() + _START_PATIENCE_S
    while time.monotonic() < deadline and server.exit_status() is None:
        if (said := server.log()).endswith("\n") and READY_LINE in said:
            return int(said.rsplit(READY_LINE, 1)[1])
        time.sleep(0.02)
    raise LoadFailed(f"the reference server did not start: {server.log()[-300:] or 'it wrote nothing'}")


def run_client_test(
    levels: Sequence[int],
    wire: Wire,
    *,
    tuner_python: str,
    on_level: Callable[[ClientLevel], None] = lambda _level: None,
) -> ClientTest:
    """About four seconds for each level, and as much for each rate. Raises LoadFailed if the test cannot be made."""
    found: list[ClientLevel] = []
    with reference_process(tuner_python) as reference:

        def test(concurrency: int, rate: float) -> ClientLevel:
            found.append(_test_level(reference, wire, concurrency, rate))
            on_level(found[-1])
            return found[-1]

        for concurrency in sorted(levels):
            rate = min(FIRST_RATE, concurrency / STREAM_INTERVAL_S)
            level = test(concurrency, rate)
            for _ in range(SLOWER_TRIES):
                if level.holds:
                    break
                rate /= 2
                level = test(concurrency, rate)
            if concurrency != max(levels):
                continue
            for higher in RATES:
                if not level.holds or level.true_rate < REACHED * rate:  # or the reference server itself gave out
                    break
                if rate < higher <= concurrency / SHORTEST_INTERVAL_S:
                    rate, level = higher, test(concurrency, higher)
    return ClientTest(tuple(found))


def for_study(spec: StudySpec, engine: Engine, *, tuner_python: str, note: Callable[[str], None]) -> ClientTest:
    """At the study's own levels; for its rates at AT_RATES, which refuse nothing: what the client does not hold there
    is said of a level that comes so far. Empty on a simulated node, whose clock runs as fast as its file says; and
    where the test cannot be made, which `note` is told: it is no reason not to measure. Raises InputError for levels
    that the client cannot bear."""
    if engine.simulated:
        return ClientTest()
    try:
        wire = engine.wire_for(spec.workload.endpoint, "reference")
        closed = spec.workload.closed
        streams = {*closed, *(AT_RATES if spec.workload.rates else ())}
        tested = run_client_test(sorted(streams), wire, tuner_python=tuner_python)
    except TrialError as error:
        note(f"the load client could not be tested: {error.message}")
        return ClientTest()
    tested.refuse_levels(closed)
    return tested


def _test_level(reference: ReferenceProcess, wire: Wire, concurrency: int, rate: float) -> ClientLevel:
    interval_s = concurrency / rate
    reference.pace(interval_s=interval_s)
    tokens = max(8, round(REQUEST_S / interval_s))
    level = LevelPlan(concurrency, REQUESTS_PER_SLOT * concurrency)
    run = run_level(
        HOST,
        reference.port,
        wire=wire,
        plan=MeasurementPlan((level,), tokens),
        level=level,
        prompts=prompt_source("coding", seed=0),
        clock=Clock(),
    )
    return judge(run, reference.truth())


def judge(run: LevelRun, truth: Truth) -> ClientLevel:
    """The client's records against the server's. Raises LoadFailed if there was no window."""
    if run.window is None:
        errors = [record.error for record in run.records if record.error]
        raise LoadFailed(
            f"the client had no window at {run.concurrency} streams: {errors[0] if errors else 'no error'}"
        )
    opened, closed = run.window
    began = min(truth.received) - min(record.sent_s for record in run.records)  # the level's tick 0, as a stamp
    made = tokens_until(run.records, np.asarray(run.window))
    true = truth.tokens_between(began + opened, began + closed)
    return ClientLevel(
        concurrency=run.concurrency,
        true_rate=true / (closed - opened),
        delivered=float(made[1] - made[0]) / true if true > 0 else 0.0,
        lag_p99_s=run.client.lag_p99_s,
        cpu_share=run.client.cpu_share,
    )
