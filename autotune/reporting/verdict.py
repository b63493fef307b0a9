"""The verdict of a study, in one sentence that claims no more than the figures do."""

from __future__ import annotations

from autotune.domain.measurement import Comparison
from autotune.domain.study import StudyResult
from autotune.domain.trial import Origin, TrialResult, TrialState
from autotune.reporting.figures import by_percent, ratio_of, score_text
from autotune.reporting.sections.confirmation import confirmed_verdict, drift_sentence
from autotune.reporting.sections.slo import breach_when_confirmed, faster_but_breaking, slo_verdict


def verdict(result: StudyResult) -> str:
    """`trial 7 beats the baseline by 7.1 % ± 1.3`, or what else there is to say; `[simulated]` in front where it
    is so."""
    pretended = "[acceptance simulated] " if any(trial.pretences for trial in result.trials) else ""
    return ("[simulated] " if result.simulated else "") + pretended + _said(result)


def _said(result: StudyResult) -> str:
    """Where the SLO decides, it is what the verdict is about."""
    ruled_out = faster_but_breaking(result)
    drifted = drift_sentence(result.drift) if result.drift is not None and result.drift.seen else ""
    said = slo_verdict(result) or _sentence(result)
    return "; ".join(part for part in (said, breach_when_confirmed(result), ruled_out, drifted) if part)


def caution(result: StudyResult) -> str:
    """Why the winner's figure is to be taken with care."""
    count = len(result.complete)
    return f"from the screening runs: the largest of {count} noisy figures overstates itself"


def _sentence(result: StudyResult) -> str:
    best, baseline = result.best, result.baseline
    if baseline is None:
        return _without_baseline(result, best)
    if result.confirmation is not None and (confirmed := confirmed_verdict(result.confirmation)):
        return confirmed
    if best is None or best.configuration == baseline.configuration:
        if result.confirmation is not None and result.confirmation.outcome == "undecided":
            rounds = f"{result.confirmation.rounds} of {result.confirmation.planned} rounds"
            undecided = f"no clear winner: the confirmation is not decided ({rounds})"
            return f"{undecided}; the search found nothing above the baseline"
        others = sum(trial.configuration != baseline.configuration for trial in result.complete)
        return "nothing beats the baseline" + ("" if others else ": no other trial completed")
    name = f"trial {best.number}"
    comparison = result.comparison
    if comparison is None:
        ratio = ratio_of(best, baseline)
        by = (
            "" if ratio is None else f": {name} is {abs(ratio - 1) * 100:.1f} % above the baseline, without an interval"
        )
        return f"no clear winner{by} ({caution(result)})"
    if comparison.verdict == "better":
        return f"{name} beats the baseline by {_by(comparison)} ({caution(result)})"
    side = "above" if comparison.ratio.value >= 1 else "below"
    if comparison.verdict == "worse":
        return f"nothing beats the baseline: {name}, the highest score, is {_by(comparison)} {side} it"
    return f"no clear winner: {name} is {_by(comparison)} {side} the baseline ({caution(result)})"


def _by(comparison: Comparison) -> str:
    shown = by_percent(comparison.ratio)
    return f"{shown}, without an interval," if comparison.ratio.half_width is None else shown


def _without_baseline(result: StudyResult, best: TrialResult | None) -> str:
    tried = [t for t in result.trials if t.origin is Origin.BASELINE or t.configuration == result.spec.baseline]
    if not tried and best is None:
        return "no trial completed"
    if not tried:
        why = "the baseline was not measured"
    elif tried[-1].failure is not None:
        why = f"the baseline failed ({tried[-1].failure.reason.word})"
    elif tried[-1].state is TrialState.INTERRUPTED:
        why = "the baseline was interrupted"
    else:
        why = "the baseline has no score (a level lacked its throughput)"
    if best is None:
        return f"no verdict: {why}"
    return f"no verdict: {why}; the fastest of the others is trial {best.number} with {score_text(best.score)}"
