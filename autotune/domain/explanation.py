"""What a study says of its factors: how much each matters, which depend on each other, and what was never tried."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from autotune.domain.level import Level
from autotune.domain.measurement import Estimate

FASTER, SLOWER, UNCLEAR = "faster", "slower", "unclear"


def verdict_of(ratio: Estimate) -> str:
    """Clear only where the 95 % interval excludes 1; without an interval never."""
    if ratio.low is None or ratio.high is None:
        return UNCLEAR
    return FASTER if ratio.low > 1 else SLOWER if ratio.high < 1 else UNCLEAR


@dataclass(frozen=True)
class Effect:
    """One value of a factor against another, all else being equal. Values as a space file writes them.

    ratio: of the objective, after / before, an Estimate (1.0 is no effect). per_level: of the output throughput, by
    concurrency. contexts: in how many surroundings the two were compared. brought: what the value switched on, as
    `name=value` words; it is part of the effect. trials: those that ran with `after`.
    """

    parameter: str
    before: str
    after: str
    ratio: Estimate
    per_level: Mapping[Level, Estimate] = field(default_factory=dict)
    contexts: int = 1
    brought: tuple[str, ...] = ()
    trials: tuple[int, ...] = ()

    @property
    def verdict(self) -> str:
        return verdict_of(self.ratio)


@dataclass(frozen=True)
class Interaction:
    """The effect of one factor is not the same under two values of another.

    others: usually one name; several where they changed together, so that the trials cannot tell them apart.
    under: the two settings of `others`; ratios: the effect under each. p_value: of no interaction, corrected for all
    that were looked at (Holm).
    """

    parameter: str
    before: str
    after: str
    others: tuple[str, ...]
    under: tuple[str, str]
    ratios: tuple[Estimate, Estimate]
    p_value: float


@dataclass(frozen=True)
class Modelled:
    """What the search's model, fitted to all of the study's trials, says of the factors around one configuration.

    trial: the configuration is that trial's. effects: `contexts` is 0 and `trials` empty, being foretold rather than
    compared. looked_at: pairs of factors. fitted: trials behind it. foretold: the share of the spread of the objective
    that it foretells of configurations that it was not shown; None where that was not asked. widened: by how much the
    intervals were stretched since it errs by more than it says. withheld: why nothing is shown, or empty.
    """

    trial: int | None = None
    effects: tuple[Effect, ...] = ()
    interactions: tuple[Interaction, ...] = ()
    looked_at: int = 0
    fitted: int = 0
    foretold: float | None = None
    decomposed: bool = True
    widened: float = 1.0
    withheld: str = ""


@dataclass(frozen=True)
class Untried:
    """Values of a parameter that no complete trial had; `unfinished` are those that were launched all the same."""

    parameter: str
    values: tuple[str, ...]
    unfinished: tuple[str, ...] = ()


@dataclass(frozen=True)
class Explanation:
    """launch_spread: relative standard deviation from launch to launch of one configuration, out of `replicates`
    further measurements; None where nothing was measured twice, and the intervals then do not hold it. looked_at: how
    many interactions were tested. untried_pairs: of values of two switches, legal as far as is known, that no
    complete trial had together. importances: PED-ANOVA's, which sum to 1; empty where it cannot be computed. modelled:
    None only where nobody asked the model."""

    effects: tuple[Effect, ...] = ()
    interactions: tuple[Interaction, ...] = ()
    looked_at: int = 0
    untried: tuple[Untried, ...] = ()
    untried_pairs: tuple[str, ...] = ()
    importances: Mapping[str, float] = field(default_factory=dict)
    importance_note: str = ""
    launch_spread: float | None = None
    replicates: int = 0
    modelled: Modelled | None = None
