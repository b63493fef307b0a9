"""The tables of a report. Each exists as data, which text and Markdown lay out in their own ways."""

from __future__ import annotations

from autotune.domain.level import Rate, named_all
from autotune.domain.secrets import is_secret
from autotune.domain.study import StudyResult
from autotune.domain.trial import Origin, TrialResult, TrialState
from autotune.reporting.changes import Change, changes, differences_from_baseline, single_change
from autotune.reporting.figures import (
    MISSING,
    change_percent,
    change_text,
    duration,
    level_figure,
    number,
    one_line,
    ratio_of,
    score_text,
)
from autotune.reporting.layout import Table, as_text
from autotune.reporting.sections.pruned import change_at_most, score_or_bound
from autotune.reporting.sections.servers import state_word
from autotune.reporting.sections.warm_start import origin_word


def throughput_table(result: StudyResult, limit: int = 8) -> str:
    """Output throughput, tok/s: a row for each level, a column for the baseline and for the best trials, at most
    `limit` columns. Empty if no trial completed."""
    return as_text(throughput_rows(result, limit))


def factor_table(result: StudyResult) -> str:
    """What each greedy trial changed, and the effect of that. Empty if nothing can be derived."""
    return as_text(factor_rows(result))


def failures_table(result: StudyResult) -> str:
    """Every trial without figures, with its reason and the evidence. Empty if there is none."""
    return as_text(failure_rows(result, evidence=100))


def throughput_rows(result: StudyResult, limit: int = 8) -> Table:
    shown = _best_first(result)[:limit]
    baseline = result.baseline
    weights = result.spec.workload.weights
    header = ["level" if result.spec.workload.rates else "concurrency", "weight"]
    header += ["baseline" if baseline and t.number == baseline.number else f"trial {t.number}" for t in shown]
    rows = []
    for level in result.spec.workload.levels:
        cells = [level_figure(t.at(level)) for t in shown]
        rows.append((str(level), f"{weights[level]:g}", *cells))
    rows.append(("score", "", *(score_text(t.score).removesuffix(" tok/s") for t in shown)))
    rows.append(("change", "", *(MISSING if t is baseline else change_text(t, baseline) for t in shown)))
    return Table(tuple(header), tuple(rows) if shown else (), frozenset(range(len(header))))


def throughput_title(result: StudyResult) -> str:
    """Of the table of levels."""
    closed, rates = result.spec.workload.closed, result.spec.workload.rates
    parts = ["output throughput, tok/s"] if closed else []
    parts += ["goodput at rates, good requests/s"] if rates else []
    return f"{'; '.join(parts)} (95 % intervals)"


def _best_first(result: StudyResult) -> list[TrialResult]:
    """The baseline, then the others by score, what keeps to the SLO first; each server once."""
    baseline = result.baseline
    measured = [trial for trial in result.complete if trial.duplicate_of is None]
    others = [(-t.violation, t.score.estimate.value, -t.number, t) for t in measured if t is not baseline and t.score]
    ranked = [t for *_ranks, t in sorted(others, key=lambda item: item[:3], reverse=True)]
    return ([baseline] if baseline else []) + ranked


def trial_rows(result: StudyResult) -> Table:
    """Every trial in the order in which they ran."""
    base = result.spec.baseline
    rows = tuple(
        (
            str(t.number),
            origin_word(t, result),
            state_word(t),
            score_or_bound(t),
            MISSING if t is result.baseline else change_text(t, result.baseline),
            duration(t.node_seconds),
            differences_from_baseline(t.configuration, base),
        )
        for t in result.trials
    )
    header = ("trial", "origin", "state", "score", "change", "node time", "configuration (against the baseline)")
    return Table(header, rows, frozenset({0, 3, 4, 5}))


def factor_rows(result: StudyResult) -> Table:
    """Only trials of the greedy pass that differ in one parameter from one that ran before: from the best until
    then if possible, else from the best of those. Parameters that come and go with it do not count."""
    rows = []
    complete: list[TrialResult] = []
    for trial in result.trials:
        if trial.origin is Origin.GREEDY and trial.state is not TrialState.INTERRUPTED:
            found = _reference(trial, complete)
            if found is not None:
                rows.append(_factor_row(trial, *found))
        if trial.state is TrialState.COMPLETE and trial.score is not None:
            complete.append(trial)
    return Table(("parameter", "from", "to", "effect", "trial", "against"), tuple(rows), frozenset({3, 4, 5}))


def _reference(trial: TrialResult, earlier: list[TrialResult]) -> tuple[TrialResult, Change] | None:
    by_score = sorted((t for t in earlier if t.score), key=lambda t: -t.score.estimate.value if t.score else 0.0)
    for other in by_score:
        change = single_change(changes(trial.configuration, other.configuration))
        if change is not None:
            return other, change
    return None


def _factor_row(trial: TrialResult, reference: TrialResult, change: Change) -> tuple[str, ...]:
    if trial.failure is not None:
        effect = trial.failure.reason.word
    elif trial.duplicate_of is not None and trial.duplicate_of == reference.number:
        effect = "the same server"
    elif trial.bound is not None:
        effect = change_at_most(trial, reference) or MISSING
    else:
        ratio = ratio_of(trial, reference)
        half = None if ratio is None else _relative_half_width(trial, reference)
        effect = MISSING if ratio is None else change_percent(ratio)
        effect += "" if ratio is None or half is None else f" ± {number(half * ratio * 100)}"
    before, after = change.before or MISSING, change.after or MISSING
    return change.name, before, after, effect, str(trial.number), str(reference.number)


def _relative_half_width(*trials: TrialResult) -> float | None:
    """Of a ratio of two scores, to first order."""
    total = 0.0
    for trial in trials:
        if trial.score is None or trial.score.estimate.half_width is None:
            return None
        total += (trial.score.estimate.half_width / trial.score.estimate.value) ** 2
    return float(total**0.5)


def failure_rows(result: StudyResult, evidence: int = 300) -> Table:
    """`evidence`: how many characters of it are shown. What was stopped on purpose stands elsewhere (pruned.py)."""
    rows = []
    for trial in result.trials:
        if trial.bound is not None or (trial.state is TrialState.COMPLETE and trial.score is not None):
            continue
        failure = trial.failure
        reason = failure.reason.word if failure else trial.state.value
        shown = one_line(failure.evidence or failure.message, evidence) if failure else _no_score(trial)
        changed = differences_from_baseline(trial.configuration, result.spec.baseline)
        rows.append((str(trial.number), reason, str(trial.attempts), changed, shown))
    return Table(("trial", "reason", "attempts", "configuration", "evidence"), tuple(rows), frozenset({0, 2}))


def _no_score(trial: TrialResult) -> str:
    if trial.state is not TrialState.COMPLETE:
        return MISSING
    lacking = [m.level for m in trial.measurements if m.main_figure is None]
    if not lacking:
        return "a level was not measured"
    what = "goodput" if any(isinstance(level, Rate) for level in lacking) else "throughput"
    return f"no {what} at {named_all(lacking)}"


def difference_rows(trial: TrialResult | None) -> Table:
    """Asked for, and what the server runs with."""
    rows = tuple(
        (d.argument, *(("(hidden)", "(hidden)") if is_secret(d.argument, d.asked) else (d.asked, d.resolved)))
        for d in (trial.differences if trial else ())
    )
    return Table(("argument", "asked for", "the server runs with"), rows)
