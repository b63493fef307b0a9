"""The loop of a study: propose, evaluate, tell, until the budget ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.domain.study import StudySpec
from autotune.domain.trial import Origin, TrialRequest, TrialResult, TrialState
from autotune.errors import Interrupted, StudyStopped
from autotune.study.budget import spent
from autotune.study.events import StudyEvent
from autotune.study.ledger import Ledger, Validity
from autotune.study.search import Exhausted, Proposal, Search

if TYPE_CHECKING:
    from autotune.study.journal import Journal

FAILURES_IN_A_ROW = 5
"""So many trials that fail by circumstance, one after the other, are the node's fault: going on would use up the
budget on it. (Each of them was tried twice by the trial runner.)"""


def run_study(
    spec: StudySpec,
    *,
    evaluate: Callable[[TrialRequest], TrialResult],
    validity: Validity,
    history: Sequence[TrialResult],
    storage: Path,
    on_event: Callable[[StudyEvent], None] | None = None,
) -> str:
    """Runs the study to its end and says why it ended.

    `evaluate` records each result before it returns it. `history` holds the results recorded so far, and `storage` is
    the path of Optuna's journal file, which mirrors them. What `evaluate` raises goes through, after Optuna has been
    told. Raises StudyStopped if the baseline cannot be measured or the node fails trial after trial, Interrupted if
    `evaluate` returns an interrupted trial, RunFolderError if another process runs this study.
    """
    # Here, so that whoever imports this room does not wait for Optuna.
    from autotune.study.journal import open_journal
    from autotune.study.sampler import Sampler, quiet
    from autotune.study.strategies import proposer

    def tell(event: StudyEvent) -> None:
        if on_event is not None:
            on_event(event)

    def note(text: str) -> None:
        tell(StudyEvent("note", text=text))

    quiet()
    ledger = Ledger(spec.space, validity, history)
    with open_journal(storage, spec.name, ledger, note) as journal:
        search = Search(spec, ledger, note)
        # A resumed study must not draw again what it drew at its start.
        sampler = Sampler(ledger, seed=spec.seed + len(history))
        chosen = proposer(spec, ledger, sampler, spec.strategy)
        failures = 0
        while True:
            ended = spent(spec.budget, ledger.results)
            if ended is not None:
                return ended
            proposal = search.next(chosen)
            if isinstance(proposal, Exhausted):
                return proposal.reason
            request = _request(ledger, proposal)
            tell(StudyEvent("asked", request))
            result = _evaluated(request, evaluate, journal)
            ledger.add(result)
            sampler.add(result)
            tell(StudyEvent("told", request, result))
            if proposal.origin is Origin.BASELINE and ledger.score(spec.baseline) is None:
                raise search.baseline_failed(result)
            failures = failures + 1 if result.state is TrialState.FAILED else 0
            if failures == FAILURES_IN_A_ROW:
                raise _node_failed(result)


def _evaluated(request: TrialRequest, evaluate: Callable[[TrialRequest], TrialResult], journal: Journal) -> TrialResult:
    journal.ask(request)
    try:
        result = evaluate(request)
        if result.state is TrialState.INTERRUPTED:
            raise Interrupted(f"trial {request.number} was interrupted", hint="`--resume` goes on with the study")
    except BaseException:
        journal.abandon()
        raise
    journal.tell(result)
    return result


def _request(ledger: Ledger, proposal: Proposal) -> TrialRequest:
    number = max((result.number for result in ledger.results), default=-1) + 1
    return TrialRequest(number, proposal.configuration, proposal.origin)


def _node_failed(result: TrialResult) -> StudyStopped:
    failure = result.failure
    said = f"{failure.reason.word}: {failure.message}" if failure is not None else "no reason is recorded"
    return StudyStopped(
        f"{FAILURES_IN_A_ROW} trials in a row failed by circumstance, the last ({result.number}) by {said}",
        hint=(failure.hint if failure is not None else "") or "mend the node, then go on with `--resume`",
    )
