"""What the search's model says of the factors, as text: beside what pairs of trials say, and marked as the model's."""

from __future__ import annotations

from autotune.domain.explanation import UNCLEAR, Effect, Explanation, Modelled
from autotune.domain.level import label
from autotune.domain.study import StudyResult
from autotune.reporting.figures import MISSING
from autotune.reporting.layout import Table, as_markdown, escape
from autotune.reporting.sections.effects import (
    LARGEST_SHOWN,
    clear_largest,
    effect_cells,
    effect_line,
    interaction_line,
    interaction_table,
    ratio_text,
    unclear_factors,
)


def modelled_rows(result: StudyResult) -> Table:
    """A row for each effect, a column for each closed level where there are several; the last but one is what pairs of
    trials say of the same change."""
    known = result.explanation or Explanation()
    found = known.modelled or Modelled()
    levels = result.spec.workload.closed if len(result.spec.workload.closed) > 1 else ()
    pairs = {_key(effect): effect for effect in known.effects}
    header = ("factor", "from", "to", "by the model", *(label(level) for level in levels), "out of pairs", "reading")
    rows = tuple(
        (
            *effect_cells(effect, levels),
            MISSING if (pair := pairs.get(_key(effect))) is None else ratio_text(pair.ratio),
            effect.verdict,
        )
        for effect in found.effects
    )
    return Table(header, rows, frozenset(range(3, 4 + len(levels) + 1)))


def modelled_section(result: StudyResult) -> str:
    """Markdown; the reason alone where the model is not to be believed; empty where nothing was measured."""
    found = None if result.explanation is None else result.explanation.modelled
    if found is None or not result.complete:
        return ""
    if found.withheld:
        return f"Not shown: {escape(found.withheld)}."
    parts = [_said(found), as_markdown(modelled_rows(result)), _listed(_readings(result, found))]
    return "\n\n".join([*parts, *_interactions(found)])


def _said(found: Modelled) -> str:
    around = "the best configuration" if found.trial is None else f"the best configuration (trial {found.trial})"
    return (
        f"Foretold, not measured: what one setting of {around} does, every other as it has them. From the baseline's "
        "value where that can stand there, else from the best one's own. The model is fitted to all "
        f"{found.fitted} trials at once; the 95 % interval is that of the difference."
    )


def _readings(result: StudyResult, found: Modelled) -> list[str]:
    lines = []
    if found.foretold is not None:
        lines.append(
            f"Of configurations that it was not shown, the model foretells {100 * found.foretold:.0f} % of the spread "
            "of the objective" + ("." if found.decomposed else ", without the knowledge of what throughput is made of.")
        )
    if found.widened > 1.0:
        lines.append(
            f"Intervals are stretched {found.widened:.2f} times: what it was not shown is that much further off than "
            "the model expects."
        )
    if unclear := unclear_factors(found.effects):
        lines.append(f"Unclear, which is not the same as none: {', '.join(unclear)}. Every interval holds 0 %.")
    asked = {effect.parameter for effect in found.effects}
    if silent := [p.name for p in result.spec.space.parameters if p.name not in asked]:
        lines.append(
            f"No row: {', '.join(silent)}. Not active in the best configuration, without a second value that served, "
            "or not to be changed alone there."
        )
    lines.append("A server may still die of a change: the model speaks of throughput, as if it served.")
    return lines


def _interactions(found: Modelled) -> list[str]:
    if not found.looked_at:
        return []
    if not found.interactions:
        return [
            f"Interactions by the model: none of {found.looked_at} pairs of factors does together what the two alone "
            "do not explain (p < 0.05 after Holm's correction)."
        ]
    said = (
        f"Interactions by the model: of {found.looked_at} pairs of factors, those that do together what the two alone "
        "do not explain (p < 0.05 after Holm's correction)."
    )
    return [said, interaction_table(found.interactions)]


def modelled_summary(result: StudyResult) -> str:
    """A few lines: the largest clear effects of factors that no pair of trials tells of, and interactions."""
    known = result.explanation
    found = None if known is None else known.modelled
    if known is None or found is None or found.withheld:
        return ""
    told = {effect.parameter for effect in known.effects if effect.verdict != UNCLEAR}
    alone = [effect for effect in clear_largest(found.effects) if effect.parameter not in told]
    return "\n".join([*map(effect_line, alone[:LARGEST_SHOWN]), *(interaction_line(one) for one in found.interactions)])


def _listed(lines: list[str]) -> str:
    return "\n".join(f"- {escape(line)}" for line in lines)


def _key(effect: Effect) -> tuple[object, ...]:
    return effect.parameter, effect.before, effect.after, effect.brought
