"""Why a server ended, from its log. Exit statuses do not tell: a failed child makes the parent kill itself."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from autotune.domain.trial import Failure, FailureReason
from autotune.engines.dialect import log_text
from autotune.engines.dialect.failure_rules import ABORT_LINES, EXCEPTION_RULES, LINE_RULES, ROOT_LINES
from autotune.engines.dialect.kernel_rules import BUG
from autotune.engines.dialect.log_text import TOLD_TO_STOP, LogText
from autotune.engines.dialect.phases import Phase
from autotune.engines.dialect.rule import Rule
from autotune.engines.dialect.tracebacks import Chain, Raised, chains

_MAX_LINE = 300
_LAST_LINES = 3
_MAX_EVIDENCE = 1500
_SHELL_SIGNAL = 128  # a wrapper shell reports death by signal n as status 128 + n
_SIGKILLED = (-signal.SIGKILL, _SHELL_SIGNAL + signal.SIGKILL)

_SILENT_HINT = "read the trial's log"
_STOPPED_HINT = "if the tuner did not send it, find out what on this node does"
_KERNEL_HINT = "main memory ran out: see dmesg; free some, raise the container's limit, or let the server use less"
_KILLED_HINT = "it was not the kernel's OOM killer: find out who sends SIGKILL on this node (a scheduler's limits, say)"
_PERHAPS_KERNEL_HINT = "SIGKILL may be the kernel's when main memory runs out: see dmesg"

_STUCK = re.compile(r"watchdog timeout \(")
_SOFT = re.compile(r"soft=True")
_GRAPH_CAPTURE = re.compile(r"Capture (cuda|cpu) graph failed", re.IGNORECASE)
_KILLED_CHILD = re.compile(
    r"(crashed with exit code|died during initialization \(exit code:) (-9|137)\b|[Ee]xit(ed| code:?) -9\b"
)
_OWN_END = re.compile(
    r"kill_process_tree called|Received sigquit|SIGQUIT received|Triggering SIGQUIT"
    r"|hit an exception|Initialization failed"
)
_FOLLOW_UP = re.compile(
    r"died during initialization|^RuntimeError: Initialization failed|[Cc]onnection (closed|reset) by peer"
    r"|ncclRemoteError|^(EOFError|BrokenPipeError|ConnectionResetError|KeyboardInterrupt|SystemExit)"
    r"|^(asyncio\.exceptions\.)?CancelledError"
)
_GOES_ON = re.compile(r"(Prefill|Decode) batch")
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
class _Case:
    """What is known of an end. `primary`: tracebacks that may have caused it; `follow_ups`: those that other
    tracebacks or deaths bring about."""

    log: LogText
    primary: Sequence[Chain]
    follow_ups: Sequence[Chain]
    exit_status: int | None
    killed_by_kernel: bool | None
    alive: bool


def diagnose(
    exit_status: int | None,
    log: str,
    *,
    ready: bool,
    killed_by_kernel: bool | None = None,
    alive: bool = False,
) -> Failure:
    """From the first exception that ended a process; then from lines known to be fatal; then `died`, with the last
    lines as evidence. `killed_by_kernel`: whether the kernel's OOM killer was at work meanwhile; None if that is
    not known. `alive`: the server has not ended, it is stuck. Never raises."""
    case = _case(exit_status, log, ready=ready, killed_by_kernel=killed_by_kernel, alive=alive)
    steps: tuple[Callable[[_Case], Failure | None], ...] = (
        lambda c: _from_exceptions(c.log, c.primary),
        lambda c: _from_lines(c.log, LINE_RULES, after=c.log.last_mark),
        lambda c: _from_sigkill(c) if c.killed_by_kernel else None,
        lambda c: _from_lines(c.log, ABORT_LINES),
        _from_watchdog,
        _from_sigkill,
        lambda c: _from_exceptions(c.log, c.follow_ups),
        _from_silence,
    )
    verdict = next((found for step in steps if (found := step(case)) is not None), None) or _died(case)
    verdict = _rooted(verdict, case.log)
    return replace(
        verdict,
        evidence=verdict.evidence[:_MAX_EVIDENCE],
        exit_status=exit_status,
        message=verdict.message + _ended_by(case),
    )


def _case(exit_status: int | None, log: str, *, ready: bool, killed_by_kernel: bool | None, alive: bool) -> _Case:
    text = log_text.read(log, ready=ready)
    goes_on = max((i for i, line in enumerate(text.lines) if _GOES_ON.search(line)), default=-1)
    goes_on = max(goes_on, text.last_mark)
    # What a server survives says nothing of its end: an optional import that failed, a request that was refused.
    counted = [c for c in chains(text.lines) if c.fatal or (not alive and c.exceptions[-1].index > goes_on)]
    counted.sort(key=lambda chain: not chain.fatal)  # stable: the order of the log within each
    primary = [chain for chain in counted if not _FOLLOW_UP.search(chain.exceptions[0].message)]
    follow_ups = [chain for chain in counted if _FOLLOW_UP.search(chain.exceptions[0].message)]
    return _Case(text, primary, follow_ups, exit_status, killed_by_kernel, alive)


def _from_exceptions(log: LogText, counted: Sequence[Chain]) -> Failure | None:
    for chain in counted:
        for raised in chain.exceptions:
            phase = log.phase_at(raised.index)
            for rule in EXCEPTION_RULES:
                if _holds(rule, raised, phase):
                    evidence = _shown(raised) + _further(rule, raised)
                    return Failure(rule.reason, f"{rule.message} (while {phase.value})", evidence, rule.hint)
        if any(_GRAPH_CAPTURE.search(raised.message) for raised in chain.exceptions):
            return Failure(
                FailureReason.GRAPH_CAPTURE_FAILED,
                "the graphs of the decode steps could not be captured",
                _shown(chain.exceptions[0]),
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


def _further(rule: Rule, raised: Raised) -> str:
    """The line of a long message that the rule found, where it is not the first: a compiler's own error, say."""
    found = rule.pattern.search(raised.message)
    line = raised.message.count("\n", 0, found.start()) if found else 0
    return "\n" + raised.message.split("\n")[line].strip() if line else ""


def _from_lines(log: LogText, rules: Sequence[Rule], *, after: int = -1) -> Failure | None:
    for rule in rules:
        for index, line in enumerate(log.lines):
            if index > after and rule.pattern.search(line) and (phase := log.phase_at(index)) in rule.phases:
                return Failure(rule.reason, f"{rule.message} (while {phase.value})", line.strip(), rule.hint)
    return None


def _rooted(verdict: Failure, log: LogText) -> Failure:
    """NCCL's `unhandled system error` has its cause in a warning before it."""
    if verdict.reason is FailureReason.COMMUNICATION_FAILED:
        return _from_lines(log, ROOT_LINES) or verdict
    return verdict


def _from_sigkill(case: _Case) -> Failure | None:
    """SIGKILL that SGLang did not send itself: to one of its processes, or to all of them at once."""
    child = next((line for line in case.log.lines if _KILLED_CHILD.search(line)), None)
    told = any(_OWN_END.search(line) or TOLD_TO_STOP.search(line) for line in case.log.lines)
    silent = case.exit_status in _SIGKILLED and not told
    if child is None and not silent and not (case.alive and case.killed_by_kernel):
        return None
    whom = "the server" if silent else "a process of the server"
    evidence = child.strip() if child is not None else _last_lines(case.log)
    while_doing = case.log.phase_at(len(case.log.lines)).value
    if case.killed_by_kernel:
        message = f"the kernel's OOM killer ended {whom} (while {while_doing})"
        return Failure(FailureReason.KILLED_BY_KERNEL, message, evidence, _KERNEL_HINT)
    message = f"{whom} was ended while {while_doing} by a SIGKILL that it did not send itself"
    hint = _PERHAPS_KERNEL_HINT if case.killed_by_kernel is None else _KILLED_HINT
    return Failure(_died_reason(case.log), message, evidence, hint)


def _from_watchdog(case: _Case) -> Failure | None:
    line = next((line for line in case.log.lines if _STUCK.search(line) and not _SOFT.search(line)), None)
    if line is None:
        return None
    return Failure(
        FailureReason.WATCHDOG_TIMEOUT,
        "the engine's own watchdog saw no progress of a scheduler, and ended the server",
        line.strip(),
        "a kernel that is compiled for longer than watchdog-timeout looks the same: raise it if this was a first start",
    )


def _from_silence(case: _Case) -> Failure | None:
    """A server that is alive, and whose last sign of progress is that its GPUs began to connect."""
    if not case.alive or case.log.phase_at(len(case.log.lines)) is not Phase.COMMUNICATION:
        return None
    return Failure(
        FailureReason.COMMUNICATION_HUNG,
        "the server's processes did not get past connecting to each other",
        case.log.lines[case.log.last_mark].strip(),
        "check the NCCL_ variables of this configuration; if the baseline hangs so too, check the node",
    )


def _died(case: _Case) -> Failure:
    log = case.log
    reason = _died_reason(log)
    while_doing = log.phase_at(len(log.lines)).value
    everything = (*case.primary, *case.follow_ups)
    if everything:
        message = f"the server ended by an exception while {while_doing}"
        return Failure(reason, message, _shown(everything[0].exceptions[0]), "its traceback is in the trial's log")
    told = next((line for line in log.lines if TOLD_TO_STOP.search(line)), None)
    if told is not None:
        return Failure(reason, "the server was told to stop by a SIGTERM", told.strip(), _STOPPED_HINT)
    bug = next((line for line in log.lines if BUG.search(line)), None)
    death = bug or next((line for line in log.lines if _DEATHS.search(line)), None)
    message = f"the server ended while {while_doing}, and its log does not say why"
    return Failure(reason, message, death.strip() if death is not None else _last_lines(log), _SILENT_HINT)


def _died_reason(log: LogText) -> FailureReason:
    return FailureReason.DIED_SERVING if log.ready else FailureReason.DIED_STARTING


def _last_lines(log: LogText) -> str:
    told = [line for line in log.lines if not _NOISE.search(line)] or log.before
    return "\n".join(line.strip()[:_MAX_LINE] for line in told[-_LAST_LINES:])


def _shown(raised: Raised) -> str:
    """An exception without a text (a bare assert) says nothing: the place where it was raised does."""
    if ":" in raised.line.rstrip(":"):
        return raised.line
    places = [line.strip() for line in raised.frames.splitlines() if line.lstrip().startswith("File ")]
    return f"{raised.line.rstrip(':')} at {places[-1]}" if places else raised.line


def _ended_by(case: _Case) -> str:
    status = case.exit_status
    if status is None:
        return ""
    if 0 <= status <= _SHELL_SIGNAL:
        return f"; exit status {status}"
    number = -status if status < 0 else status - _SHELL_SIGNAL
    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"; exit status {status}"
    own = number == signal.SIGKILL and any(_OWN_END.search(line) for line in case.log.lines)
    return f"; ended by {name}" + (", its own, after a process of it had failed" if own else "")
