"""One line for a level, one line for a trial."""

from __future__ import annotations

from autotune.domain.measurement import Measurement
from autotune.domain.trial import TrialResult
from autotune.reporting.changes import differences_from_baseline
from autotune.reporting.figures import (
    MISSING,
    change_text,
    duration,
    number,
    one_line,
)
from autotune.reporting.sections.pruned import score_or_bound
from autotune.reporting.sections.servers import state_word
from autotune.reporting.sections.slo import breach


def level_line(m: Measurement) -> str:
    """`C= 10 | 60 requests | throughput: … tok/s ± … | per-req: … | latency avg/p50/p99: … | ok: 60/60`, and
    ` | accept 2.91` where it is known. At a rate that comes first (`rate 4/s | C=  9 | …`, the mean number in flight),
    and ` | good 96.7%` where the SLO says what is good."""
    throughput = m.output_throughput
    shown = number(throughput.value if throughput else None)
    half = "" if throughput is None or throughput.half_width is None else f" ± {number(throughput.half_width)}"
    latency = [number(value) for value in ((m.e2e_s.mean, m.e2e_s.p50, m.e2e_s.p99) if m.e2e_s else (None,) * 3)]
    unit = "s" if m.e2e_s else ""
    parts = [
        *([] if m.rate is None else [f"rate {m.rate:g}/s"]),
        f"C={m.concurrency:3d}",
        f"{m.requests_total} requests",
        f"throughput: {shown:>7} tok/s{half}",
        f"per-req: {number(m.per_request_rate):>6} tok/s",
        "latency avg/p50/p99: " + "/".join(f"{value:>6}" for value in latency) + unit,
        f"ok: {m.requests_ok}/{m.requests_total}",
    ]
    if m.rate is not None and m.good_share is not None:
        parts.append(f"good {m.good_share.value:.1%}")
    if not m.sustained:
        parts.append("not sustained")
    if m.accept_length is not None:
        parts.append(f"accept {m.accept_length:.2f}")
    return " | ".join(parts)


def trial_line(trial: TrialResult, baseline: TrialResult | None) -> str:
    """Number, state, score, change against the baseline, node time, and what the configuration changes; which bounds of
    the SLO it breaks; of a trial that failed the reason with its evidence instead of figures."""
    if baseline is None or trial.number == baseline.number:
        what = str(trial.configuration)
    else:
        what = differences_from_baseline(trial.configuration, baseline.configuration)
    head = f"trial {trial.number:3d} | {state_word(trial):<11}"
    tail = f"{duration(trial.node_seconds)} | {what}"
    if trial.failure is not None:
        return f"{head} | {reason_text(trial)} | {tail}"
    change = "baseline" if baseline is not None and trial.number == baseline.number else change_text(trial, baseline)
    broken = f" | {breach(trial)}" if trial.broken else ""
    return f"{head} | {score_or_bound(trial)} | {change}{broken} | {tail}"


def reason_text(trial: TrialResult) -> str:
    """`out_of_memory: the line of the log that shows it`."""
    if trial.failure is None:
        return MISSING
    return f"{trial.failure.reason.word}: {one_line(trial.failure.evidence or trial.failure.message)}"
