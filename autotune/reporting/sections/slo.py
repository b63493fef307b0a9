"""How trials stand to the study's SLO, as sentences and as tables."""

from __future__ import annotations

from typing import Any

from autotune.domain.level import as_data, named
from autotune.domain.measurement import Estimate
from autotune.domain.slo import FLOORS, SloCheck, requests_needed, short
from autotune.domain.study import StudyResult, StudySpec
from autotune.domain.trial import TrialResult
from autotune.reporting.figures import MISSING, ratio_of
from autotune.reporting.layout import Table

_SHOWN = 2


def breach(trial: TrialResult) -> str:
    """`breaks ttft_p95_ms at level 64: 812 > 500`, the worst first, and how many more; empty where none is broken."""
    worst = sorted(trial.broken, key=lambda check: -(1.0 if check.violation is None else check.violation))
    if not worst:
        return ""
    shown = "; ".join(str(check) for check in worst[:_SHOWN])
    more = len(worst) - _SHOWN
    return f"breaks {shown}" + (f"; and {more} more" if more > 0 else "")


def slo_verdict(result: StudyResult) -> str:
    """The verdict, where the SLO decides it: no trial keeps to it, or the baseline does not and another does. Else
    empty."""
    least, best, baseline = result.least_violating, result.best, result.baseline
    if least is not None:
        name = "the baseline" if least is baseline else f"trial {least.number}"
        return f"no trial keeps to the SLO; {name} comes closest: it {breach(least)}"
    if baseline is None or not baseline.broken or best is None or best.broken:
        return ""
    compared = _compared(result, best)
    value = compared.value if compared is not None else ratio_of(best, baseline)
    by = ""
    if value is not None:
        half = f" ± {compared.half_width * 100:.1f}" if compared is not None and compared.half_width is not None else ""
        by = f", {abs(value - 1) * 100:.1f} %{half} {'above' if value >= 1 else 'below'} the baseline"
    return f"trial {best.number} is the best that keeps to the SLO{by}; the baseline {breach(baseline)}"


def _compared(result: StudyResult, best: TrialResult) -> Estimate | None:
    """Best over baseline: of the confirmation, else of the search."""
    finalists = result.confirmation.finalists if result.confirmation is not None else ()
    confirmed = next((finalist.gain for finalist in finalists if finalist.trial == best.number), None)
    return confirmed or (result.comparison.ratio if result.comparison is not None else None)


def breach_when_confirmed(result: StudyResult) -> str:
    """`in 1 of 4 confirmation runs trial 7 breaks ...`: of many trials some keep to a bound by luck. Empty where it
    broke none, or was not confirmed."""
    best = result.best
    if best is None:
        return ""
    runs = [t for t in result.trials if t.replicate is not None and t.replicate.confirms == best.number and t.slo]
    broken = sorted((t for t in runs if t.broken), key=lambda t: -t.violation)
    if not broken:
        return ""
    return f"in {len(broken)} of {len(runs)} confirmation runs trial {best.number} {breach(broken[0])}"


def faster_but_breaking(result: StudyResult) -> str:
    """`trial 5 has a higher score, and breaks ...`: the highest score that the SLO rules out; empty where the best has
    the highest."""
    best = result.best
    above = [
        (trial.score.estimate.value, trial)
        for trial in result.complete
        if trial.broken and trial.score is not None and trial.configuration != result.spec.baseline
    ]
    if best is None or best.score is None or not above:
        return ""
    value, trial = max(above, key=lambda pair: pair[0])
    return f"trial {trial.number} has a higher score, and {breach(trial)}" if value > best.score.estimate.value else ""


def slo_lines(spec: StudySpec) -> list[str]:
    """The bounds, and at which levels too few requests are planned to say clearly that one is kept."""
    lines: list[str] = []
    few: list[str] = []
    for level in spec.plan().levels:
        bounds = spec.slo.at(level.level)
        shown = [f"{figure} {'≥' if figure in FLOORS else '≤'} {bound:g}" for figure, bound in bounds.items()]
        each = spec.slo.of_a_request(level.level)
        shown += [f"good: {', '.join(f'{name} ≤ {bound:g}' for name, bound in each.items())}"] if each else []
        lines += [f"  {named(level.level)}: {', '.join(shown)}"] if shown else []
        needed = max((requests_needed(figure) for figure in bounds), default=1)
        if level.requests < needed:
            name = level.level if few else named(level.level)
            few.append(f"{name} ({level.requests} requests, {needed} needed)")
    if few:
        lines.append(f"  too few requests to keep a percentile clearly, at {', '.join(few)}")
    return ["", "slo", *lines] if lines else []


def slo_rows(result: StudyResult) -> Table:
    """Every bound of baseline and best (the least violating trial, where none keeps to the SLO), and every bound that
    another trial breaks."""
    whole = [result.baseline, result.best or result.least_violating]
    rows = []
    for trial in result.trials:
        checks = trial.slo if any(trial is shown for shown in whole) else trial.broken
        name = f"{trial.number} (baseline)" if trial is result.baseline else str(trial.number)
        rows += [_row(name, check) for check in checks]
    header = ("trial", "level", "figure", "seen", "95 % interval", "bound", "requests", "")
    return Table(header, tuple(rows), frozenset({1, 3, 5, 6}))


def _row(name: str, check: SloCheck) -> tuple[str, ...]:
    seen = MISSING if check.observed is None else short(check.observed)
    judged = "breaks" if check.broken else "keeps"
    if not check.clear:
        judged += ", unclear"
    bound = f"{check.bound:g}"
    return (name, str(check.level), check.figure, seen, _interval(check), bound, str(check.requests), judged)


def _interval(check: SloCheck) -> str:
    if check.low is None and check.high is None:
        return MISSING
    low, high = ("?" if end is None else short(end) for end in (check.low, check.high))
    return f"{low} to {high}"


def slo_data(result: StudyResult) -> dict[str, Any] | None:
    """For `--json`: None without an SLO. `keeping`: how many trials keep to it."""
    if not result.spec.slo:
        return None
    least = result.least_violating
    return {
        "keeping": len(result.candidates),
        "breaking": {str(t.number): [_data(check) for check in t.broken] for t in result.complete if t.broken},
        "least_violating": None if least is None else least.number,
    }


def _data(check: SloCheck) -> dict[str, Any]:
    return {
        "figure": check.figure,
        **as_data(check.level),
        "observed": check.observed,
        "bound": check.bound,
        "violation": check.violation,
        "requests": check.requests,
        "clear": check.clear,
    }
