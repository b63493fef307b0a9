"""What the factors do, as text: effects with intervals, interactions, what was never tried, importances."""

from __future__ import annotations

import math
from collections.abc import Sequence

from autotune.domain.explanation import UNCLEAR, Effect, Explanation, Interaction
from autotune.domain.level import Level, label
from autotune.domain.measurement import Estimate
from autotune.domain.study import StudyResult
from autotune.reporting.figures import MISSING, change_percent, number
from autotune.reporting.layout import Table, as_markdown, escape

PAIRS_SHOWN = 20
LARGEST_SHOWN = 5
MISLEADS = (
    "PED-ANOVA tells which parameters mark off the best tenth of the trials, not what a value gains: it leaves out "
    "parameters with conditions, and a search that settles a factor early makes it look unimportant. The effects above "
    "are what was measured."
)


def ratio_text(ratio: Estimate) -> str:
    """`+7.1 % (+5.8 to +8.4)`; without an interval the figure alone."""
    shown = change_percent(ratio.value)
    if ratio.low is None or ratio.high is None:
        return shown
    return f"{shown} ({(ratio.low - 1) * 100:+.1f} to {(ratio.high - 1) * 100:+.1f})"


def effect_rows(result: StudyResult) -> Table:
    """A row for each effect, a column for each level; with one level, which is the objective, none."""
    known = result.explanation or Explanation()
    levels = result.spec.workload.levels if len(result.spec.workload.levels) > 1 else ()
    header = ("factor", "from", "to", "effect", *(label(level) for level in levels), "contexts", "reading")
    rows = tuple((*effect_cells(effect, levels), str(effect.contexts), effect.verdict) for effect in known.effects)
    return Table(header, rows, frozenset(range(3, 4 + len(levels) + 1)))


def effect_cells(effect: Effect, levels: Sequence[Level]) -> tuple[str, ...]:
    """Factor, from, to, and what it does: to the objective and at each of `levels`."""
    seen = (effect.per_level.get(level) for level in levels)
    what = effect.parameter, effect.before, with_brought(effect), ratio_text(effect.ratio)
    return (*what, *(MISSING if ratio is None else ratio_text(ratio) for ratio in seen))


def with_brought(effect: Effect) -> str:
    return " ".join([effect.after, *([f"with {', '.join(effect.brought)}"] if effect.brought else [])])


def effects_section(result: StudyResult) -> str:
    """Markdown; empty where no two trials differ in one factor alone."""
    known = result.explanation
    if known is None or not known.effects:
        return ""
    said = (
        "Each value against the baseline's (or, where that was not among them, the one measured first): the change of "
        "the objective with its 95 % interval, out of all trials that differ in that factor alone and in what it "
        "switches on. Per level: the change of the output throughput, at a rate of goodput."
    )
    lines = [said, as_markdown(effect_rows(result)), *(f"- {escape(line)}" for line in _readings(result, known))]
    return "\n\n".join(lines[:2]) + "\n\n" + "\n".join(lines[2:])


def _readings(result: StudyResult, known: Explanation) -> list[str]:
    lines = [spread_line(known)]
    if unclear := unclear_factors(known.effects):
        lines.append(f"Unclear, which is not the same as none: {', '.join(unclear)}. Every interval holds 0 %.")
    compared = {effect.parameter for effect in known.effects}
    if alone := [p.name for p in result.spec.space.parameters if p.name not in compared]:
        lines.append(f"No pair tells of {', '.join(alone)}: no two trials differ in one of them alone.")
    lines.append(
        f"{len(known.effects)} effects were looked at: about one interval in twenty leaves out the truth, and more do "
        "where the effect depends on other factors (below)."
    )
    return lines


def spread_line(known: Explanation) -> str:
    if known.launch_spread is None:
        return (
            "No configuration was launched twice, so that the intervals hold what varies within a window and not what "
            "varies from launch to launch: they are too narrow by that. `baseline_every` in the space file mends it."
        )
    again = "1 repeat" if known.replicates == 1 else f"{known.replicates} repeats"
    if not known.launch_spread:
        return f"Out of {again}, one configuration varies from launch to launch by no more than its windows explain."
    return (
        f"From launch to launch one configuration varies by {number(known.launch_spread * 100)} % (standard deviation "
        f"beyond that of the windows, out of {again}); the intervals hold it."
    )


def unclear_factors(effects: Sequence[Effect]) -> list[str]:
    names = list(dict.fromkeys(effect.parameter for effect in effects))
    return [n for n in names if all(e.verdict == UNCLEAR for e in effects if e.parameter == n)]


def interactions_section(result: StudyResult) -> str:
    known = result.explanation
    if known is None or not known.effects:
        return ""
    if not known.looked_at:
        return "None could be looked at: no effect was seen under two settings of another factor."
    if not known.interactions:
        said = "The one that could be looked at is not" if known.looked_at == 1 else f"None of {known.looked_at} is"
        return f"{said} significant (p < 0.05 after Holm's correction)."
    said = (
        f"Of {known.looked_at} looked at, those with p < 0.05 after Holm's correction. Several names in one row "
        "changed together, and the trials cannot tell them apart."
    )
    return f"{said}\n\n{interaction_table(known.interactions)}"


def interaction_table(found: Sequence[Interaction]) -> str:
    rows = tuple(
        (
            f"{one.parameter}: {one.before} to {one.after}",
            " and ".join(one.others),
            *(f"{under}: {ratio_text(ratio)}" for under, ratio in zip(one.under, one.ratios, strict=True)),
            f"{one.p_value:.2g}",
        )
        for one in found
    )
    return as_markdown(Table(("effect of", "depends on", "under", "under", "p"), rows, frozenset({4})))


def untried_section(result: StudyResult) -> str:
    known = result.explanation
    if known is None or not result.complete:
        return ""
    rows = tuple(
        (one.parameter, ", ".join(one.values) or MISSING, ", ".join(one.unfinished) or MISSING) for one in known.untried
    )
    header = ("parameter", "never launched", "launched, never measured whole")
    parts = [as_markdown(Table(header, rows))] if rows else []
    if pairs := known.untried_pairs:
        shown = "\n".join(f"- {escape(pair)}" for pair in pairs[:PAIRS_SHOWN])
        more = f"\n- and {len(pairs) - PAIRS_SHOWN} more" if len(pairs) > PAIRS_SHOWN else ""
        parts.append(f"Values of two switches that served, but never together:\n\n{shown}{more}")
    return "\n\n".join(parts)


def importance_section(result: StudyResult) -> str:
    known = result.explanation
    if known is None or not known.importances:
        return ""
    rows = tuple((name, f"{share:.2f}", _largest(known, name)) for name, share in known.importances.items())
    table = as_markdown(Table(("parameter", "PED-ANOVA", "largest clear effect"), rows, frozenset({1, 2})))
    return f"{MISLEADS}\n\n{table}\n\n{escape(known.importance_note[:1].upper() + known.importance_note[1:])}."


def _largest(known: Explanation, name: str) -> str:
    mine = [effect for effect in known.effects if effect.parameter == name]
    clear = [effect for effect in mine if effect.verdict != UNCLEAR]
    if clear:
        return ratio_text(max(clear, key=_size).ratio)
    return UNCLEAR if mine else "not compared"


def _size(effect: Effect) -> float:
    return abs(math.log(effect.ratio.value))


def effects_summary(result: StudyResult) -> str:
    """A few lines: the largest clear effects, what is unclear, what interacts, how much was never tried."""
    known = result.explanation
    if known is None or not known.effects:
        return ""
    lines = [effect_line(effect) for effect in clear_largest(known.effects)[:LARGEST_SHOWN]]
    if unclear := unclear_factors(known.effects):
        lines.append(f"unclear (not the same as none): {', '.join(unclear)}")
    lines += [interaction_line(one) for one in known.interactions]
    if known.launch_spread is None:
        lines.append("no configuration was launched twice: the intervals do not hold what varies between launches")
    untried = sum(len(one.values) for one in known.untried)
    if untried or known.untried_pairs:
        lines.append(
            f"never tried: {untried} {'value' if untried == 1 else 'values'}, {len(known.untried_pairs)} pairs of "
            "switches (in report.md)"
        )
    return "\n".join(lines)


def effect_line(effect: Effect) -> str:
    brought = f" (with {', '.join(effect.brought)})" if effect.brought else ""
    return f"{effect.parameter}: {effect.before} to {effect.after}{brought}: {ratio_text(effect.ratio)}"


def interaction_line(one: Interaction) -> str:
    both = " against ".join(ratio_text(ratio) for ratio in one.ratios)
    return (
        f"{one.parameter}={one.after} depends on {' and '.join(one.others)} ({one.under[0]} or {one.under[1]}): {both}"
    )


def clear_largest(effects: Sequence[Effect]) -> list[Effect]:
    return sorted((effect for effect in effects if effect.verdict != UNCLEAR), key=lambda effect: -_size(effect))
