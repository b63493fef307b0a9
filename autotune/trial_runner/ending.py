"""In which order the levels of a trial run, and how one ends: the rule that is asked, the prompts that it may take
beyond its floor, and what ends it before it is precise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from autotune.domain.measurement import Estimate, Measurement
from autotune.domain.pruning import Bound, LevelScreen
from autotune.domain.workload import LevelPlan, MeasurementPlan, PromptSource
from autotune.scoring.intervals.stopping import WarmAndPrecise, WhyHopeless


def ordered(plan: MeasurementPlan, screen: LevelScreen | None) -> MeasurementPlan:
    """The plan's levels as the screen wants them; those that it does not name come last."""
    if screen is None:
        return plan
    places = {level: place for place, level in enumerate(screen.order)}
    return replace(plan, levels=tuple(sorted(plan.levels, key=lambda one: places.get(one.level, len(places)))))


def with_rule(
    plan: MeasurementPlan,
    level: LevelPlan,
    prompts: PromptSource,
    *,
    precision: float | None,
    promised: int,
    hopeless: WhyHopeless | None = None,
) -> LevelPlan:
    """`level` is one of `plan`. Fresh prompts are finite: what the rest of the plan and later trials (`promised`) need
    is not spent on making this level more precise, or on waiting for it to be warm: it takes no more than its
    `most_prompts`, which are its `prompts` and what can be spared."""
    rest = sum(later.prompts for later in plan.levels[plan.levels.index(level) + 1 :])
    spare = max(0, prompts.capacity - prompts.position - rest - promised - level.prompts)
    most = level.requests + (spare if level.rate is None else spare // 3)  # its warm-up and its end may last as long
    return replace(
        level,
        rule=WarmAndPrecise(precision, hopeless),
        most_requests=most if level.most_requests is None else min(level.most_requests, most),
    )


@dataclass(frozen=True)
class Hopeless:
    """Says of a figure of the level that is running whether the screen will give the trial up for it. `before`: the
    levels that were measured already."""

    screen: LevelScreen
    before: tuple[Measurement, ...]
    level: int

    def __call__(self, figure: Estimate) -> str:
        """See scoring.intervals.stopping.WhyHopeless."""
        running = Measurement(self.level, requests_total=0, requests_ok=0, output_throughput=figure)
        bound = _at_either_end(self.screen, [*self.before, running])
        if bound is None or figure.low is None or figure.high is None:
            return ""
        return (
            f"ended before the asked precision: anywhere from {figure.low:.4g} to {figure.high:.4g} tok/s here, "
            f"the trial comes to at most {bound.at_most}, {bound.the_best}"
        )


def hopeless_at(
    level: LevelPlan, screen: LevelScreen | None, measurements: Sequence[Measurement]
) -> WhyHopeless | None:
    """None without a screen. `measurements`: those of the trial so far; an earlier passage of this level counts not."""
    if screen is None:
        return None
    before = tuple(seen for seen in measurements if seen.level != level.level)
    return Hopeless(screen, before, level.concurrency)


def bound_after(
    screen: LevelScreen | None, measurements: Sequence[Measurement], *, precision: float | None
) -> Bound | None:
    """Why the trial ends after the last of `measurements`; None: it goes on.

    With a precision that level may have ended early, and is then as uncertain as it was at that look: it is judged as
    it was there, so that the bound on record holds all over its interval.
    """
    if screen is None:
        return None
    return screen.bound(measurements) if precision is None else _at_either_end(screen, measurements)


def _at_either_end(screen: LevelScreen, measurements: Sequence[Measurement]) -> Bound | None:
    """The higher of the bounds with the last level's figure at the one and at the other end of its interval. A bound is
    convex in a level's logarithm (a line by regression, then maxima, then a mean), so no figure between has a higher
    one."""
    *before, last = measurements
    figure = last.output_throughput
    if figure is None or figure.low is None or figure.high is None:
        return screen.bound(measurements)
    ends = [
        screen.bound([*before, replace(last, output_throughput=replace(figure, value=end))])
        for end in (figure.low, figure.high)
    ]
    bounds = [bound for bound in ends if bound is not None]
    return max(bounds, key=lambda bound: bound.score) if len(bounds) == len(ends) else None
