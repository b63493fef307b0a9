"""The loop of a study: propose, evaluate, tell, until the budget ends; then confirm what was found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.domain.study import StudySpec
from autotune.domain.trial import Origin, TrialRequest, TrialResult, TrialState
from autotune.errors import Interrupted, StudyStopped
from autotune.study.budget import spent
from autotune.study.comparing.confirmation import Confirming, search_budget
from autotune.study.comparing.corrections import Corrections
from autotune.study.events import StudyEvent
from autotune.study.ledger import Ledger, Validity
from autotune.study.model.prior import PriorResults
from autotune.study.model.settling import Settling
from autotune.study.proposer import Proposer
from autotune.study.search import Exhausted, Proposal, Search

if TYPE_CHECKING:
    from autotune.study.early_stopping.screening import Screening
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
    """Runs the study to its end, the confirmation included, and says why it ended.

    `evaluate` records each result before it returns it. `history` holds the results recorded so far, and `storage` is
    the path of Optuna's journal file, which mirrors them. What `evaluate` raises goes through, after Optuna has been
    told. Raises StudyStopped if the baseline cannot be measured or the node fails trial after trial, Interrupted if
    `evaluate` returns an interrupted trial, RunFolderError if another process runs this study.
    """
    # Here, so that whoever imports this room does not wait for Optuna.
    from autotune.study.early_stopping.screening import Screening
    from autotune.study.journal import open_journal
    from autotune.study.sampler import Sampler, quiet
    from autotune.study.strategies import proposer

    def tell(event: StudyEvent) -> None:
        if on_event is not None:
            on_event(event)

    def note(text: str) -> None:
        tell(StudyEvent("note", text=text))

    quiet()
    searched = [result for result in history if result.origin is not Origin.CONFIRMATION]
    corrections, ledger, prior = _begun(spec, validity, searched)
    with open_journal(storage, spec.name, Ledger(spec.space, validity, searched), note) as journal:
        search = Search(spec, ledger, note, corrections)
        # A resumed study must not draw again what it drew at its start.
        sampler = Sampler(ledger, seed=spec.seed + len(searched), prior=prior)
        chosen = proposer(spec, ledger, sampler, spec.strategy)
        settling, screening = Settling(spec, ledger, chosen), Screening(spec, ledger, corrections)
        recorded, failures = list(history), 0
        while (stopped := spent(search_budget(spec.budget), corrections.raw)) is None:
            proposal = _next(search, settling, chosen)
            if isinstance(proposal, str):
                stopped = proposal
                break
            request = _request(recorded, proposal, screening)
            tell(StudyEvent("asked", request))
            result = _evaluated(request, evaluate, journal)
            recorded.append(result)
            if _learn(result, corrections, ledger) or prior.come_in():
                sampler.learn_anew()
            else:
                sampler.add(ledger.results[-1])
            tell(StudyEvent("told", request, result))
            if proposal.origin is Origin.BASELINE and ledger.score(spec.baseline) is None:
                raise search.baseline_failed(result)
            failures = failures + 1 if result.state is TrialState.FAILED else 0
            if failures == FAILURES_IN_A_ROW:
                raise _node_failed(result)
        return "; ".join((stopped, *_confirm(spec, recorded, evaluate, tell)))


def _begun(
    spec: StudySpec, validity: Validity, searched: Sequence[TrialResult]
) -> tuple[Corrections, Ledger, PriorResults]:
    """What the recorded trials have taught, and what a warm start brought."""
    corrections, ledger = Corrections(spec), Ledger(spec.space, validity)
    ledger.close(crash.configuration for crash in spec.earlier.crashes)
    for result in searched:
        _learn(result, corrections, ledger)
    return corrections, ledger, PriorResults(spec, ledger)


def _next(search: Search, settling: Settling, chosen: Proposer) -> Proposal | str:
    """What to evaluate next, or why the search is over."""
    proposal = search.next(chosen)
    if isinstance(proposal, Exhausted):
        return proposal.reason
    settled = settling.reason() if proposal.origin is Origin.SAMPLER else None
    return proposal if settled is None else settled


def _learn(result: TrialResult, corrections: Corrections, ledger: Ledger) -> bool:
    """Enters the result as strategies are to see it. True where it tells of the node's drift: the ledger then has all
    results anew."""
    corrected, all_changed = corrections.add(result)
    ledger.add(corrected)
    if all_changed:
        ledger.revise(corrections.all())
    return all_changed


def _confirm(
    spec: StudySpec,
    recorded: Sequence[TrialResult],
    evaluate: Callable[[TrialRequest], TrialResult],
    tell: Callable[[StudyEvent], None],
) -> tuple[str, ...]:
    """Runs the confirmation to its end, and says why it ended; nothing where none is asked for. Optuna hears nothing of
    it: it has nothing left to propose."""
    if spec.budget.confirm is None:
        return ()

    def evaluated(request: TrialRequest) -> TrialResult:
        tell(StudyEvent("asked", request))
        result = evaluate(request)
        if result.state is TrialState.INTERRUPTED:
            raise _interrupted(request)
        tell(StudyEvent("told", request, result))
        return result

    return (Confirming(spec, recorded).run(evaluated),)


def _interrupted(request: TrialRequest) -> Interrupted:
    return Interrupted(f"trial {request.number} was interrupted", hint="`--resume` goes on with the study")


def _evaluated(request: TrialRequest, evaluate: Callable[[TrialRequest], TrialResult], journal: Journal) -> TrialResult:
    journal.ask(request)
    try:
        result = evaluate(request)
        if result.state is TrialState.INTERRUPTED:
            raise _interrupted(request)
    except BaseException:
        journal.abandon()
        raise
    journal.tell(result)
    return result


def _request(recorded: Sequence[TrialResult], proposal: Proposal, screening: Screening) -> TrialRequest:
    number = max((result.number for result in recorded), default=-1) + 1
    screen = screening.screen(proposal.configuration, proposal.origin)
    return TrialRequest(number, proposal.configuration, proposal.origin, screen=screen)


def _node_failed(result: TrialResult) -> StudyStopped:
    failure = result.failure
    said = f"{failure.reason.word}: {failure.message}" if failure is not None else "no reason is recorded"
    return StudyStopped(
        f"{FAILURES_IN_A_ROW} trials in a row failed by circumstance, the last ({result.number}) by {said}",
        hint=(failure.hint if failure is not None else "") or "mend the node, then go on with `--resume`",
    )
