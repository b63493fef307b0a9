"""Numbers as text. What is missing is shown as `-`, never as a zero."""

from __future__ import annotations

from autotune.domain.measurement import Estimate, Measurement, Score
from autotune.domain.trial import TrialResult

MISSING = "-"


def number(value: float | None, digits: int = 1) -> str:
    return MISSING if value is None else f"{value:.{digits}f}"


def with_interval(estimate: Estimate | None, digits: int = 1) -> str:
    """`453.2 ± 1.2`, or `453.2` without an interval."""
    if estimate is None:
        return MISSING
    shown = number(estimate.value, digits)
    return shown if estimate.half_width is None else f"{shown} ± {number(estimate.half_width, digits)}"


def level_figure(seen: Measurement | None) -> str:
    """What a level is about, without its unit: throughput, or at a rate goodput and whether it is sustained."""
    if seen is None:
        return MISSING
    shown = with_interval(seen.main_figure, 1 if seen.rate is None else 2)
    return shown + ("" if seen.sustained else ", not sustained")


def score_text(score: Score | None) -> str:
    """With its unit: tok/s, `x` for a speed-up, good requests a second for goodput."""
    if score is None:
        return MISSING
    if score.metric == "weighted_speedup":
        return f"{with_interval(score.estimate, 3)} x"
    if score.metric == "weighted_goodput":
        return f"{with_interval(score.estimate, 3)} req/s"
    return f"{with_interval(score.estimate)} tok/s"


def change_percent(ratio: float) -> str:
    """`+7.1 %` of a ratio of 1.071."""
    return f"{(ratio - 1) * 100:+.1f} %"


VAGUE = 4.0
"""Times its low end, from which on the high end of a ratio's interval says that its value is next to nothing known."""


def by_percent(ratio: Estimate) -> str:
    """`7.1 % ± 1.3`, from or below 1; `at least 380 %` of a gain that is large and vague, as over a baseline that had
    no good request."""
    if ratio.low is not None and ratio.high is not None and ratio.low > 1 and ratio.high > VAGUE * ratio.low:
        return f"at least {(ratio.low - 1) * 100:.0f} %"
    half = ratio.half_width
    shown = f"{abs(ratio.value - 1) * 100:.1f} %"
    return shown if half is None else f"{shown} ± {half * 100:.1f}"


def ratio_of(trial: TrialResult, reference: TrialResult | None) -> float | None:
    """Score over score; None if either has none."""
    if trial.score is None or reference is None or reference.score is None:
        return None
    below = reference.score.estimate.value
    return trial.score.estimate.value / below if below > 0 else None


def change_text(trial: TrialResult, reference: TrialResult | None) -> str:
    ratio = ratio_of(trial, reference)
    return MISSING if ratio is None else change_percent(ratio)


def duration(seconds: float | None) -> str:
    """`45 s`, `5.0 min`, `2.5 h`."""
    if seconds is None:
        return MISSING
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def one_line(text: str, limit: int = 160) -> str:
    """White space folded, cut at `limit` characters."""
    folded = " ".join(text.split())
    return folded if len(folded) <= limit else folded[: limit - 1] + "…"
