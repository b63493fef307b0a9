"""In which order the levels of a trial run, and how one ends: the rule that is asked, and the prompts that it may take
beyond its floor."""

from __future__ import annotations

from dataclasses import replace

from autotune.domain.pruning import LevelScreen
from autotune.domain.workload import LevelPlan, MeasurementPlan, PromptSource
from autotune.scoring.intervals.stopping import WarmAndPrecise


def ordered(plan: MeasurementPlan, screen: LevelScreen | None) -> MeasurementPlan:
    """The plan's levels as the screen wants them; those that it does not name come last."""
    if screen is None:
        return plan
    places = {level: place for place, level in enumerate(screen.order)}
    return replace(plan, levels=tuple(sorted(plan.levels, key=lambda one: places.get(one.concurrency, len(places)))))


def with_rule(
    plan: MeasurementPlan, level: LevelPlan, prompts: PromptSource, *, precision: float | None, promised: int
) -> LevelPlan:
    """`level` is one of `plan`. Fresh prompts are finite: what the rest of the plan and later trials (`promised`) need
    is not spent on making this level more precise, or on waiting for it to be warm."""
    rest = sum(later.prompts for later in plan.levels[plan.levels.index(level) + 1 :])
    spare = max(0, prompts.capacity - prompts.position - rest - promised - level.prompts)
    most = level.requests + spare
    return replace(
        level,
        rule=WarmAndPrecise(precision),
        most_requests=most if level.most_requests is None else min(level.most_requests, most),
    )
