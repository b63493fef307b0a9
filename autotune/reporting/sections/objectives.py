"""The report's sections on several objectives: the SLO, the best of each level, the front."""

from __future__ import annotations

from autotune.domain.study import StudyResult
from autotune.reporting.layout import as_markdown, code_block
from autotune.reporting.sections.front_views import best_rate_rows, best_rows, front_plot, front_rows
from autotune.reporting.sections.fronts import front, left_out, points
from autotune.reporting.sections.slo import slo_rows


def slo_section(result: StudyResult) -> str:
    """Empty without an SLO."""
    table = as_markdown(slo_rows(result)) if result.spec.slo else ""
    said = (
        "A bound is judged by the figure itself. It is unclear where the figure's own 95 % interval (`?`: so few "
        "requests set no end to it) holds the bound: then another measurement may say otherwise. Baseline, best, and "
        "whatever else breaks a bound; what breaks one is measured and ranked, and cannot be the best."
    )
    none_breaks = "Every complete trial keeps to it." if not any(trial.broken for trial in result.complete) else ""
    return "\n\n".join(part for part in (said, none_breaks, table) if part) if table else ""


def best_section(result: StudyResult) -> str:
    """Empty where there is nothing to compare."""
    if len(result.complete) < 2:
        return ""
    table, at_rates = as_markdown(best_rows(result)), as_markdown(best_rate_rows(result))
    said = (
        "The highest throughput of each level by itself, of the trials that keep to its bounds. It is clear where the "
        "95 % interval of its difference to every other excludes 0; the highest of many noisy figures overstates "
        "itself. `autotune export --level N` gives the command."
    )
    of_rates = (
        "The highest goodput at each rate by itself, of the trials that sustain it and keep to its bounds; read as the "
        "levels are. `autotune export --rate R` gives the command."
    )
    parts = [f"{said}\n\n{table}" if table else "", f"{of_rates}\n\n{at_rates}" if at_rates else ""]
    return "\n\n".join(filter(None, parts))


def front_section(result: StudyResult) -> str:
    kept = front(points(result))
    if len(kept) < 2:
        return ""
    table = front_rows(result)
    said = (
        "What one user sees against what the node gives: each trial at each level is a point, and those stand here "
        "that no other is clearly above on both (95 % interval of the difference)."
    )
    ruled_out = left_out(result)
    if ruled_out:
        said += f" Left out, since they break a bound at their level: {ruled_out}."
    more = len(kept) - len(table.rows)
    parts = [said, as_markdown(table), *([f"And {more} more."] if more > 0 else [])]
    if plot := front_plot(result):
        parts.append(code_block(plot))
    return "\n\n".join(parts)
