"""Why a server ended, from its log. Exit statuses do not tell: a failed child makes the parent kill itself."""

from __future__ import annotations

import re
import signal
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

from autotune.domain.trial import Failure, FailureReason
from autotune.engines.dialect.failure_rules import (
    BUG,
    BUG_HINT,
    BUG_MESSAGE,
    EXCEPTION_RULES,
    LINE_RULES,
    MARKS,
    Phase,
    Rule,
)
from autotune.engines.dialect.tracebacks import Chain, Raised, chains

_HEAD, _TAIL = 500_000, 2_000_000  # characters; what lies between in a longer log is the traffic of a healthy server
_MAX_LINE = 300
_SILENT_HINT = "read the trial's log; SIGKILL may be the kernel's when main memory runs out (dmesg tells)"
_STOPPED_HINT = "if the tuner did not send it, find out what on this node does"
_LAST_LINES = 3
_MAX_EVIDENCE = 1500
_SHELL_SIGNAL = 128  # a wrapper shell reports death by signal n as status 128 + n

_TOLD_TO_STOP = re.compile(r"^(?:\[[^\]]*\] )?SIGTERM received|Gracefully exiting")
_STUCK = re.compile(r"Scheduler watchdog timeout")
_GRAPH_CAPTURE = re.compile(r"Capture (cuda|cpu) graph failed", re.IGNORECASE)
_DEATHS = re.compile(
    r"^Fatal Python error|^terminate called|what\(\):|crashed with exit code|died during initialization"
    r"|Initialization failed\. warmup error|Segmentation fault"
)
_NOISE = re.compile(
    r"^\s*$|nanobind|^ - leaked|^ - \.\.\. skipped|\"(GET|POST) \S+ HTTP/|kill_process_tree called"
    r"|\d+%\||resource_tracker|SIGQUIT received|Received sigquit|Sleeping \d+ seconds before crash"
    r"|No live scheduler processes found|INFO: +(Shutting down|Waiting for|Finished server|Application shutdown)"
)


@dataclass(frozen=True)
class _Log:
    """`marks`: numbers of the lines at which a phase began, ascending, and the phases."""

    lines: Sequence[str]
    marks: tuple[tuple[int, ...], tuple[Phase, ...]]
    ready: bool

    def phase_at(self, index: int) -> Phase:
        """A log that is cut, or whose ready line is missing, does not make a serving server a starting one."""
        if self.ready:
            return Phase.SERVING
        at = bisect_right(self.marks[0], index)
        return self.marks[1][at - 1] if at else Phase.ARGUMENTS


def diagnose(exit_status: int | None, log: str, *, ready: bool) -> Failure:
    """From the first exception that ended a process; then from lines known to be fatal; then `died`, with the last
    lines as evidence. Never raises."""
    text = _read(log, ready)
    everything = chains(text.lines)
    verdict = _from_exceptions(text, everything) or _from_lines(text) or _from_watchdog(text) or _died(text, everything)
    return replace(
        verdict,
        evidence=verdict.evidence[:_MAX_EVIDENCE],
        exit_status=exit_status,
        message=(verdict.message + _ended_by(exit_status)),
    )


def _read(log: str, ready: bool) -> _Log:
    if len(log) > _HEAD + _TAIL:
        log = log[:_HEAD] + "\n" + log[-_TAIL:]
    lines = log.splitlines()
    if ready:  # what was logged before the server was ready did not end it
        start = next((i for i, line in enumerate(lines) if MARKS[-1][0].search(line)), -1)
        lines = lines[start + 1 :]
    stop = next((i for i, line in enumerate(lines) if _TOLD_TO_STOP.search(line)), None)
    if stop is not None:  # what follows is the noise of stopping
        lines = lines[: stop + 1]
    places: list[tuple[int, Phase]] = [
        (index, phase) for index, line in enumerate(lines) for pattern, phase in MARKS if pattern.search(line)
    ]
    return _Log(lines, (tuple(i for i, _ in places), tuple(p for _, p in places)), ready)


def _from_exceptions(log: _Log, everything: Sequence[Chain]) -> Failure | None:
    for chain in sorted(everything, key=lambda c: not c.fatal):  # stable: the order of the log within each
        for raised in chain.exceptions:
            phase = log.phase_at(raised.index)
            for rule in EXCEPTION_RULES:
                if _holds(rule, raised, phase):
                    message = f"{rule.message} (while {phase.value})"
                    return Failure(rule.reason, message, _shown(raised), rule.hint_in(phase))
        root = chain.exceptions[0]
        captured = any(_GRAPH_CAPTURE.search(raised.message) for raised in chain.exceptions)
        if captured and not _is_bug(root.message):
            return Failure(
                FailureReason.GRAPH_CAPTURE_FAILED,
                "the graphs of the decode steps could not be captured",
                _shown(root),
                "try another cuda_graph_max_bs or attention_backend",
            )
    return None


def _holds(rule: Rule, raised: Raised, phase: Phase) -> bool:
    return (
        phase in rule.phases
        and (not rule.kinds or raised.kind in rule.kinds)
        and rule.pattern.search(raised.message) is not None
        and (rule.frames is None or rule.frames.search(raised.frames) is not None)
    )


def _from_lines(log: _Log) -> Failure | None:
    for rule in LINE_RULES:
        for index, line in enumerate(log.lines):
            if rule.pattern.search(line) and (phase := log.phase_at(index)) in rule.phases:
                return Failure(rule.reason, rule.message, line.strip(), rule.hint_in(phase))
    return None


def _from_watchdog(log: _Log) -> Failure | None:
    line = next((line for line in log.lines if _STUCK.search(line)), None)
    if line is None:
        return None
    return Failure(
        FailureReason.STUCK_SERVING if log.ready else FailureReason.STUCK_STARTING,
        "the engine's own watchdog saw no progress of a scheduler, and ended the server",
        line.strip(),
        "a kernel that is compiled for longer than watchdog-timeout looks the same: raise it if this was a first start",
    )


def _died(log: _Log, everything: Sequence[Chain]) -> Failure:
    reason = FailureReason.DIED_SERVING if log.ready else FailureReason.DIED_STARTING
    while_doing = log.phase_at(len(log.lines)).value
    told = next((line for line in log.lines if _TOLD_TO_STOP.search(line)), None)
    if everything:
        first = min(everything, key=lambda chain: not chain.fatal).exceptions[0]
        if _is_bug(first.message):
            return Failure(reason, f"{BUG_MESSAGE} (while {while_doing})", _shown(first), BUG_HINT)
        message = f"the server ended by an exception while {while_doing}"
        return Failure(reason, message, _shown(first), "its traceback is in the trial's log")
    if told is not None:
        return Failure(reason, "the server was told to stop by a SIGTERM", told.strip(), _STOPPED_HINT)
    bug = next((line for line in log.lines if _is_bug(line)), None)
    if bug is not None:
        return Failure(reason, f"{BUG_MESSAGE} (while {while_doing})", bug.strip(), BUG_HINT)
    death = next((line for line in log.lines if _DEATHS.search(line)), None)
    last = [line.strip()[:_MAX_LINE] for line in log.lines if not _NOISE.search(line)][-_LAST_LINES:]
    evidence = death.strip() if death is not None else "\n".join(last)
    message = f"the server ended while {while_doing}, and its log does not say why"
    return Failure(reason, message, evidence, _SILENT_HINT)


def _is_bug(text: str) -> bool:
    return BUG.search(text) is not None


def _shown(raised: Raised) -> str:
    """An exception without a text (a bare assert) says nothing: the place where it was raised does."""
    if ":" in raised.line.rstrip(":"):
        return raised.line
    places = [line.strip() for line in raised.frames.splitlines() if line.lstrip().startswith("File ")]
    return f"{raised.line.rstrip(':')} at {places[-1]}" if places else raised.line


def _ended_by(exit_status: int | None) -> str:
    if exit_status is None:
        return ""
    if exit_status >= 0 and exit_status <= _SHELL_SIGNAL:
        return f"; exit status {exit_status}"
    number = -exit_status if exit_status < 0 else exit_status - _SHELL_SIGNAL
    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"; exit status {exit_status}"
    return f"; ended by {name}"
