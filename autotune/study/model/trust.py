"""Whether a model foretells what its proposals are about: the objective of configurations that it has not seen."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from autotune.domain.configuration import Configuration
from autotune.study.model.likeness import Floats, Likeness

FEWEST = 3
"""Different configurations below which nothing can be said."""


def trust(seen: Floats, foretold: Floats, configurations: Sequence[Hashable]) -> float | None:
    """Share of the spread of `seen` that `foretold` explains: 1 is all of it, 0 or less is no better than a guess.

    All are one number or name a trial; what is foretold of a trial must not know it, nor any other trial of its
    configuration. The guess is the mean over the other configurations, which has the same right to know. None for
    fewer than three configurations, or where nothing differs.
    """
    groups: dict[Hashable, list[int]] = {}
    for index, configuration in enumerate(configurations):
        groups.setdefault(configuration, []).append(index)
    if len(groups) < FEWEST:
        return None
    means = np.array([seen[rows].mean() for rows in groups.values()])
    foretold_means = np.array([foretold[rows].mean() for rows in groups.values()])
    others = (means.sum() - means) / (len(means) - 1)
    spread = float(((means - others) ** 2).sum())
    return 1.0 - float(((means - foretold_means) ** 2).sum()) / spread if spread > 0 else None


def foretellable(likeness: Likeness, configurations: Sequence[Configuration]) -> list[int]:
    """Places of those of which every value is like one of another configuration. Of a word that only one of them has
    no model can know anything once that one is left out; to be wrong there is no fault."""
    different = list(dict.fromkeys(configurations))
    codes = likeness.code(different)
    alike = likeness.alike(codes, codes) > 0
    alike[:, range(len(different)), range(len(different))] = False
    known = dict(zip(different, np.asarray(alike.any(axis=2).all(axis=0)), strict=True))
    return [place for place, one in enumerate(configurations) if known[one]]
