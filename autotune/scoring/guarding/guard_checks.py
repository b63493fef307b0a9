"""What each guard looks at: one function a guard, from the evidence of a level to a finding or nothing.

What a finding does stands in guards.py alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from autotune.domain.finding import Finding, ServerWindow
from autotune.domain.measurement import UNSUSTAINED, LevelRun, Measurement, RequestRecord
from autotune.domain.models import Speculation
from autotune.domain.workload import ENDS_FOR_A_BOUND
from autotune.scoring.guarding.acceptance import acceptance_findings
from autotune.scoring.guarding.guards import GUARDS, LAG_S, finding, settle
from autotune.scoring.guarding.pauses import pauses
from autotune.scoring.guarding.repetition import looping_share
from autotune.scoring.latency import e2e_s
from autotune.scoring.window import Window, arrived_inside, ended_inside

LEAST_LINES = 3
"""Lines of the server's log, below which its samples say nothing of the window."""
LEAST_ANSWERS = 10
REQUESTS_FOR_A_QUEUE = 2.0
"""So many requests long is a window over which the bursts of a full server even out: docs/studies/coverage.md."""


@dataclass(frozen=True)
class Evidence:
    """What stands beside a level's records; None, or nothing, is what nobody knows.

    `baseline`: its measurement of this level, None of the baseline itself. `others`: processes that are not the
    trial's, with the cores that each used. `disturbed`: what happened on the GPUs, also the second time. `client`:
    what its own test has against the level.
    """

    run: LevelRun
    measurement: Measurement
    ignore_eos: bool = True
    server: ServerWindow | None = None
    request_cap: int | None = None
    graph_ceiling: int | None = None
    speculation: Speculation | None = None
    baseline: Measurement | None = None
    others: tuple[tuple[str, float], ...] = ()
    disturbed: tuple[str, ...] = ()
    client: Finding | None = None

    @property
    def level(self) -> int:
        """Requests in flight; at a rate their mean number."""
        return self.run.concurrency

    @property
    def closed(self) -> bool:
        return self.run.rate is None

    def answers(self) -> list[RequestRecord]:
        """Requests that ended well inside the window (open loop: that arrived inside it)."""
        if self.run.window is None:
            return []
        chosen = ended_inside if self.closed else arrived_inside
        return [record for record in chosen(self.run.records, self.run.window) if record.ok]


def guarded(evidence: Evidence) -> Measurement:
    """The measurement with what the guards look at, and what they found."""
    answers = evidence.answers()
    lengths = [record.completion_tokens for record in answers if record.completion_tokens is not None]
    looping, _count = looping_share(answers)
    seen = replace(
        evidence.measurement,
        server=evidence.server,
        looping_share=looping,
        answer_tokens=sum(lengths) / len(lengths) if lengths else None,
    )
    return settle(seen, findings(replace(evidence, measurement=seen)))


def findings(evidence: Evidence) -> list[Finding]:
    found = [made for check in _CHECKS if (made := check(evidence)) is not None]
    found += acceptance_findings(evidence.run, evidence.speculation)
    found += [] if evidence.client is None else [evidence.client]
    return [replace(one, level=evidence.run.level) for one in found]


def _in_flight(evidence: Evidence) -> Finding | None:
    run, level = evidence.run, evidence.level
    if not evidence.closed or run.window is None or run.in_flight_minimum is None or run.in_flight_minimum >= level:
        return None
    mean = mean_in_flight(run.records, run.window)
    if mean is None or mean >= GUARDS["in_flight"].threshold * level:
        return None
    text = f"on average {mean:.1f} of {level} requests were in flight, at the least {run.in_flight_minimum}"
    return finding("in_flight", f"{text}: the level was not reached", level, mean=mean, least=run.in_flight_minimum)


def mean_in_flight(records: tuple[RequestRecord, ...], window: Window) -> float | None:
    """Over the time of the window; None if it has no length. A request that failed before its first token counts for
    no time at all."""
    start, end = window
    if end <= start:
        return None
    total = 0.0
    for record in records:
        last = end if record.cancelled else max([record.sent_s, *record.chunk_times_s[-1:], record.ended_s or 0.0])
        total += max(0.0, min(last, end) - max(record.sent_s, start))
    return total / (end - start)


def _foreign_requests(evidence: Evidence) -> Finding | None:
    seen, level = _said(evidence), evidence.level
    if seen is None or not evidence.closed or seen.running <= GUARDS["foreign_requests"].threshold * level + 0.5:
        return None
    text = f"the server ran {seen.running:.1f} requests on average where {level} were sent: it serves somebody else too"
    return finding("foreign_requests", text, level, running=seen.running)


def _client_slow(evidence: Evidence) -> Finding | None:
    client, level = evidence.run.client, evidence.level
    cpu, lag = client.cpu_share or 0.0, client.lag_p99_s or 0.0
    shown = f"the client used {cpu:.0%} of a core and ran up to {1e3 * lag:.0f} ms late (p99)"
    values = {"cpu_share": client.cpu_share, "lag_p99_s": client.lag_p99_s}
    if cpu >= GUARDS["client_slow"].threshold and lag >= LAG_S:
        return finding("client_slow", f"{shown}: it was the slow one", level, **values)
    if cpu >= GUARDS["client_busy"].threshold:
        return finding("client_busy", f"{shown}: it may have been the slow one", level, **values)
    if lag >= LAG_S:
        return finding("client_busy", f"{shown}: latencies may be too long by that", level, **values)
    return None


def _answer_length(evidence: Evidence) -> Finding | None:
    seen = evidence.measurement.answer_tokens
    answers = evidence.answers()
    if seen is None or len(answers) < LEAST_ANSWERS:
        return None
    guard = "answer_length" if evidence.ignore_eos else "answer_length_shift"
    whose = "asked for" if evidence.ignore_eos else "the baseline's"
    if evidence.ignore_eos:
        wanted = sum(record.requested_tokens for record in answers) / len(answers)
    elif evidence.baseline is not None and evidence.baseline.answer_tokens:
        wanted = evidence.baseline.answer_tokens
    else:
        return None
    if abs(seen / wanted - 1.0) <= GUARDS[guard].threshold:
        return None
    text = f"answers had {seen:.1f} tokens on average, and {wanted:.1f} were {whose}"
    return finding(guard, text.replace("were the", "are the"), evidence.level, tokens=seen, wanted=wanted)


def _acceptance_disagrees(evidence: Evidence) -> Finding | None:
    seen, counted = _said(evidence), evidence.measurement.accept_length
    if seen is None or seen.accept_length is None or counted is None:
        return None
    if abs(seen.accept_length / counted - 1.0) <= GUARDS["acceptance_disagrees"].threshold:
        return None
    text = f"accept length {seen.accept_length:.2f} by the server's log, {counted:.2f} by its answers"
    return finding("acceptance_disagrees", text, evidence.level, log=seen.accept_length, answers=counted)


def _request_cap(evidence: Evidence) -> Finding | None:
    cap, level = evidence.request_cap, evidence.level
    if cap is None or cap >= level:
        return None
    text = f"the server runs {cap} requests at once: the other {level - cap} wait in line"
    return finding("request_cap", text, level, cap=cap)


def _graph_ceiling(evidence: Evidence) -> Finding | None:
    ceiling, level = evidence.graph_ceiling, evidence.level
    batch = level if evidence.request_cap is None else min(level, evidence.request_cap)
    if not ceiling or ceiling >= batch:
        return None
    text = f"the largest decode graph holds {ceiling} requests, and up to {batch} run together: they run without one"
    return finding("graph_ceiling", text, level, ceiling=ceiling)


def _eager_steps(evidence: Evidence) -> Finding | None:
    seen = _said(evidence)
    if seen is None or seen.eager_share is None or evidence.graph_ceiling == 0:
        return None
    if seen.eager_share <= GUARDS["eager_steps"].threshold:
        return None
    text = f"{seen.eager_share:.0%} of {seen.lines} sampled decode steps ran without a graph"
    return finding("eager_steps", text, evidence.level, eager_share=seen.eager_share, lines=seen.lines)


def _queue(evidence: Evidence) -> Finding | None:
    seen, level = _said(evidence), evidence.level
    if seen is None or seen.queued is None or not evidence.closed or seen.queued <= GUARDS["queue"].threshold * level:
        return None
    text = f"on average {seen.queued:.1f} of {level} requests waited in the server's queue"
    return finding("queue", text, level, queued=seen.queued)


def _short_window(evidence: Evidence) -> Finding | None:
    """Of one slot a window holds whole turns, however few."""
    level, window = evidence.level, evidence.run.window
    if not evidence.closed or window is None or window[1] <= window[0]:
        return None
    window_s, ended = window[1] - window[0], len(ended_inside(evidence.run.records, window))
    if level > 1 and ended < ENDS_FOR_A_BOUND:
        text = f"only {ended} requests ended in the window of {window_s:.3g} s: one prefill more or less would tell"
        return finding("short_window", text, level, window_s=window_s, ended=ended)
    return _short_for_a_queue(evidence, window_s)


def _short_for_a_queue(evidence: Evidence, window_s: float) -> Finding | None:
    """Even after warm-up: where the batch is full, ends come in the rhythm of the starts of a request earlier."""
    seen, level = _said(evidence), evidence.level
    if seen is None or seen.queued is None or seen.queued <= GUARDS["short_window"].threshold * level:
        return None
    lengths = e2e_s([answer for answer in evidence.answers() if answer.chunk_times_s])
    if not len(lengths) or window_s >= REQUESTS_FOR_A_QUEUE * (request_s := float(lengths.mean())):
        return None
    waited = f"{seen.queued:.1f} of {level} requests waited in the server's queue"
    text = f"{waited}, and a window of {window_s:.3g} s is short for requests of {request_s:.3g} s"
    return finding("short_window", text, level, window_s=window_s, request_s=request_s, queued=seen.queued)


def _running(evidence: Evidence) -> Finding | None:
    seen, level = _said(evidence), evidence.level
    most = level if evidence.request_cap is None else min(level, evidence.request_cap)
    if seen is None or not evidence.closed or seen.running >= GUARDS["running"].threshold * most:
        return None
    text = f"the server decoded {seen.running:.1f} requests at once on average, of {most}"
    return finding("running", text, level, running=seen.running)


def _rate_not_sustained(evidence: Evidence) -> Finding | None:
    """The load client ends such a level early, and says by what it knows."""
    run = evidence.run
    if run.sustained:
        return None
    return finding(UNSUSTAINED, run.remarks[0], evidence.level, rate=run.rate)


def _repetition(evidence: Evidence) -> Finding | None:
    share, count = looping_share(evidence.answers())
    if share is None or count < LEAST_ANSWERS:
        return None
    base = evidence.baseline.looping_share if evidence.baseline is not None else None
    if share - (base or 0.0) <= GUARDS["repetition"].threshold:
        return None
    beside = "" if base is None else f", and {base:.0%} of the baseline's"
    text = f"{share:.0%} of {count} answers loop{beside}: drafts of such text are accepted too often"
    return finding("repetition", text, evidence.level, looping_share=share, baseline_looping_share=base)


def _pause(evidence: Evidence) -> Finding | None:
    window = evidence.run.window
    if not evidence.closed or window is None:
        return None
    seen = pauses(evidence.run.records, window)
    if seen is None or sum(seen.lengths_s) <= GUARDS["pause"].threshold * (window[1] - window[0]):
        return None
    told = ", ".join(f"{length:.3g}" for length in seen.lengths_s)
    text = f"no stream had anything for {told} s, and else never for more than {seen.usual_s:.3g} s"
    return finding("pause", text, evidence.level, pause_s=sum(seen.lengths_s), usual_s=seen.usual_s)


def _gpu_disturbed(evidence: Evidence) -> Finding | None:
    if not evidence.disturbed:
        return None
    return finding("gpu_disturbed", "; ".join(evidence.disturbed), evidence.level)


def _node_cpu(evidence: Evidence) -> Finding | None:
    cores = sum(used for _name, used in evidence.others)
    if cores <= GUARDS["node_cpu"].threshold:
        return None
    largest = sorted(evidence.others, key=lambda other: -other[1])[:3]
    named = ", ".join(f"{name} {used:.1f}" for name, used in largest)
    return finding("node_cpu", f"other processes used {cores:.1f} cores: {named}", evidence.level, cores=cores)


def _said(evidence: Evidence) -> ServerWindow | None:
    seen = evidence.server
    return None if seen is None or seen.lines < LEAST_LINES else seen


_CHECKS: tuple[Callable[[Evidence], Finding | None], ...] = (
    _in_flight,
    _foreign_requests,
    _client_slow,
    _answer_length,
    _acceptance_disagrees,
    _request_cap,
    _graph_ceiling,
    _eager_steps,
    _queue,
    _short_window,
    _running,
    _rate_not_sustained,
    _repetition,
    _pause,
    _gpu_disturbed,
    _node_cpu,
)
