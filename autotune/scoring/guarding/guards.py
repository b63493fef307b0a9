"""The one place that says what each guard's finding does: void the level, raise an alarm, or mark it.

`GUARDS` is the rule; docs/guards.md is held against it by a test. What a guard looks at, and its arithmetic, is in
`guard_checks.py`; a guard whose `at` names another place is carried out there, by the threshold that stands here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from autotune.domain.finding import Effect, Finding
from autotune.domain.level import Level
from autotune.domain.measurement import Measurement
from autotune.domain.trial import FailureReason


@dataclass(frozen=True)
class Guard:
    """`rule`: when it finds something, with `threshold` in it. `reason`: why a trial with such a level failed.
    `passing`: another passage of the level may be free of it, so that it is measured once more first."""

    name: str
    effect: Effect
    rule: str
    why: str
    threshold: float = 0.0
    reason: FailureReason | None = None
    passing: bool = False


_VOID, _ALARM, _MARK = Effect.VOID, Effect.ALARM, Effect.MARK

_TABLE = (
    Guard(
        "failed_requests",
        _VOID,
        "more than 5 % of the requests failed, or none was answered",
        "a failed request is short, so that the rest is another, lighter workload",
        0.05,
        FailureReason.REQUESTS_FAILED,
    ),
    Guard(
        "in_flight",
        _VOID,
        "a slot stood empty, and in flight was on average less than 98 % of the level",
        "throughput goes with what is in flight: this was another level",
        0.98,
        FailureReason.LEVEL_VOID,
    ),
    Guard(
        "foreign_requests",
        _VOID,
        "by its log the server ran on average more requests than were sent: over 105 % of the level and a half",
        "somebody else is served too, and takes part of the throughput",
        1.05,
        FailureReason.LEVEL_VOID,
    ),
    Guard(
        "server_identity",
        _VOID,
        "after the last level the port no longer answers as this launch's server",
        "nobody knows since when",
        reason=FailureReason.WRONG_SERVER,
    ),
    Guard(
        "client_slow",
        _VOID,
        "the client used at least 95 % of a core, and its 99th percentile of lag was at least 20 ms",
        "the client was what was measured",
        0.95,
        FailureReason.LEVEL_VOID,
    ),
    Guard(
        "client_disproved",
        _VOID,
        "as many chunks a second as the client failed to take in its own test, at as many streams or fewer",
        "the client is known not to keep up",
        reason=FailureReason.LEVEL_VOID,
    ),
    Guard(
        "answer_length",
        _VOID,
        "end of sequence ignored, and answers were on average over 5 % longer or shorter than asked for",
        "contexts, and so steps, are another workload's",
        0.05,
        FailureReason.WRONG_ANSWERS,
    ),
    Guard(
        "text",
        _VOID,
        "greedy text leaves the baseline's within the first quarter of the answer, in a share of the prompts that is "
        "over 50 points above that of the baseline against itself",
        "kernels turn near ties and move text late; a verification that accepts what the target would not say moves it "
        "at once, and is fast for that",
        0.5,
        FailureReason.WRONG_ANSWERS,
    ),
    Guard(
        "acceptance_bounds",
        _ALARM,
        "accept length below 1 or above the draft tokens",
        "the server's counters, or its verification, are broken",
    ),
    Guard(
        "nothing_accepted",
        _ALARM,
        "at most 1.05 tokens a verify pass over 200 passes, with a draft model",
        "the draft does not fit: the cost of speculation is measured, and no gain can be",
        1.05,
    ),
    Guard(
        "nothing_proposed",
        _MARK,
        "the same without a draft model",
        "the text has nothing to propose from",
        1.05,
    ),
    Guard(
        "acceptance_disagrees",
        _MARK,
        "accept length by the server's log over 15 % from that by the requests' own counters",
        "one of the two is not what it is called in this version",
        0.15,
    ),
    Guard(
        "request_cap",
        _MARK,
        "the server runs fewer requests at once than the level",
        "true of this configuration; but the cap is measured, not the level",
    ),
    Guard(
        "graph_ceiling",
        _MARK,
        "the largest decode graph is below the level",
        "true of this configuration; whole batches run without a graph",
    ),
    Guard(
        "eager_steps",
        _MARK,
        "by its log over 5 % of a server's decode steps ran without a graph, though it has graphs",
        "true of this configuration; a larger ceiling would be another one",
        0.05,
    ),
    Guard(
        "queue",
        _MARK,
        "by its log on average over 10 % of the level waited in the server's queue",
        "the level is not served at once: KV cache or cap are too small for it",
        0.10,
    ),
    Guard(
        "short_window",
        _MARK,
        "fewer than 6 requests ended in it, of more than one in flight; or by its log over 2 % of the level waited in "
        "the server's queue, and the window was shorter than two requests",
        "it holds a prefill more or less than its share; and a full server takes requests in as others end, in bursts "
        "that come back with every request, of which a short window sees some. The interval knows of neither",
        0.02,
    ),
    Guard(
        "running",
        _MARK,
        "by its log the server decoded on average less than half of the level (or of its own cap) at once",
        "prefill takes most of the time, or requests do not reach the server",
        0.5,
    ),
    Guard(
        "rate_not_sustained",
        _MARK,
        "open loop: in flight grows without bound",
        "latencies grow with the length of the measurement; the throughput is the most that the server gives",
    ),
    Guard(
        "answer_length_shift",
        _MARK,
        "answers that end by themselves are over 10 % longer or shorter than the baseline's",
        "text is not the baseline's, and neither is the workload",
        0.10,
    ),
    Guard(
        "repetition",
        _MARK,
        "a share of looping answers over 10 points above the baseline's (of the baseline: above 10 %)",
        "a loop is easy to draft: accept lengths are better than on text that goes on",
        0.10,
    ),
    Guard(
        "client_busy",
        _MARK,
        "the client used at least 80 % of a core, or its 99th percentile of lag was at least 20 ms",
        "latencies are late by the lag; a little more and throughput is",
        0.80,
    ),
    Guard(
        "client_untested",
        _MARK,
        "more chunks a second than the client's own test reached, at as many streams",
        "whether it keeps up is not known",
    ),
    Guard(
        "pause",
        _MARK,
        "once to three times no stream had anything for over five times as long as ever else, and as the prompts that "
        "waited explain, over 2 % of the window in all; in the window, and in its repetition if there was one",
        "a kernel was compiled, or the node stood still: another window would have shown more",
        0.02,
        passing=True,
    ),
    Guard(
        "gpu_disturbed",
        _MARK,
        "GPUs held down, or a stranger's process on them, in the window and in its repetition (docs/measuring.md)",
        "another window would have shown more",
    ),
    Guard(
        "node_cpu",
        _MARK,
        "other processes used on average more than 1 core",
        "the scheduler of a server and the client wait for cores",
        1.0,
    ),
)

GUARDS = {guard.name: guard for guard in _TABLE}
LAG_S = 0.020
"""Of the client's loop, 99th percentile, wall seconds: a hundredth of a two-second answer."""

_ORDER = {name: place for place, name in enumerate(GUARDS)}


def finding(guard: str, text: str, level: Level | None, **values: float | None) -> Finding:
    """With the effect that the table gives; values that are not known are left out."""
    known = {name: float(value) for name, value in values.items() if value is not None}
    return Finding(guard, GUARDS[guard].effect, text, level, known)


def settle(measurement: Measurement, findings: Iterable[Finding]) -> Measurement:
    """The measurement with these findings, in the order of the table. One that voids takes every figure away: what
    was seen instead of the level's throughput is then among the finding's values only."""
    ordered = tuple(sorted((*measurement.findings, *findings), key=lambda found: _ORDER[found.guard]))
    if not any(found.effect is Effect.VOID for found in ordered):
        return replace(measurement, findings=ordered)
    seen = measurement.output_throughput
    if seen is not None:
        ordered = tuple(
            replace(found, values={**found.values, "output_throughput": seen.value})
            if found.effect is Effect.VOID
            else found
            for found in ordered
        )
    return replace(
        measurement,
        findings=ordered,
        output_throughput=None,
        per_request_rate=None,
        ttft_ms=None,
        itl_ms=None,
        tpot_ms=None,
        e2e_s=None,
        accept_length=None,
        completion_tokens=None,
        good_share=None,
        goodput=None,
    )


def reason_of(found: Finding) -> FailureReason:
    """Why a trial failed that had this void finding."""
    return GUARDS[found.guard].reason or FailureReason.LEVEL_VOID


def by_circumstance(found: Finding) -> bool:
    """Whether another passage of the level may be free of it."""
    is_void = found.effect is Effect.VOID and reason_of(found) is FailureReason.LEVEL_VOID
    return is_void or GUARDS[found.guard].passing
