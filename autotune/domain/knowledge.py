"""What a study is told of earlier ones: where to look first, what not to launch again. Never a result of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from autotune.domain.configuration import Configuration
from autotune.domain.level import Level


@dataclass(frozen=True)
class KnownGood:
    """`configuration` is a point of the new space; `run` and `trial` say whose it was. speedup: there, against the
    baseline that it had there."""

    configuration: Configuration
    run: str
    trial: int
    speedup: float | None = None


@dataclass(frozen=True)
class KnownCrash:
    """`reason` is the word of a FailureReason."""

    configuration: Configuration
    run: str
    trial: int
    reason: str


@dataclass(frozen=True)
class Prior:
    """What a model may start from. ratios: throughput by level, against the new study's baseline as the earlier one
    measured it; no tokens per second are kept, so that an earlier day's node cannot be taken for today's."""

    configuration: Configuration
    run: str
    trial: int
    ratios: Mapping[Level, float]
    accept: Mapping[Level, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Knowledge:
    """`runs`: names of the run folders. order: factors that gained something there, the most first; idle: factors of
    which every effect was seen, and none was a gain. survivors: configurations that served where the crashes count."""

    runs: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()
    known_good: tuple[KnownGood, ...] = ()
    crashes: tuple[KnownCrash, ...] = ()
    survivors: tuple[Configuration, ...] = ()
    priors: tuple[Prior, ...] = ()
    notes: tuple[str, ...] = ()
