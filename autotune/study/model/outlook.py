"""What a model expects of going on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autotune.study.model.likeness import Floats

HOUR = 3600.0
SURE_FROM = 0.5
"""Share of the spread that a model must foretell to be believed when it says that nothing is left."""


@dataclass(frozen=True)
class Outlook:
    """Relative: 0.01 is 1 %. gain: expected of another node hour, at most. noise: standard deviation between two trials
    of one configuration. trust: share of the spread between configurations that the model foretells, each left out."""

    gain: float
    noise: float
    trust: float

    @property
    def settled(self) -> bool:
        return self.trust >= SURE_FROM and self.gain < self.noise


def hour_of(gains: Floats, seconds: Floats) -> float:
    """Of gains that take so many seconds each, those of one hour: the most for its time first, the last one in part.
    All of them if there are fewer."""
    order = np.argsort(-gains / seconds, kind="stable")
    left, found = HOUR, 0.0
    for index in order.tolist():
        part = min(1.0, left / float(seconds[index]))
        found += part * float(gains[index])
        left -= part * float(seconds[index])
        if left <= 0.0:
            break
    return found
