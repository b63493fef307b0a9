"""What one value of a factor does against another, out of all trials that differ in that factor alone.

In each context (contexts.py) the logarithm of a figure is the context's own level plus the effect of the treatment
plus an error: that of the trial's window, and that from launch to launch. The treatments' effects are the weighted
least-squares solution over all contexts at once, so that a trial which stands in several pairs is not counted as
several, and b against c in one context helps a against b in another.

Errors are propagated from the windows, not taken from the residuals, which are few. Where the contexts disagree by
more than the errors explain (chi square over its degrees of freedom above 1), the variance is multiplied by that: the
effect is then a mean over the contexts that the study happened to visit. Degrees of freedom by Welch and Satterthwaite.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.domain.explanation import Effect
from autotune.domain.level import Level
from autotune.domain.measurement import Estimate, Objective
from autotune.domain.space import SearchSpace
from autotune.domain.trial import Origin, TrialResult, TrialState
from autotune.scoring.student import t_quantile
from autotune.scoring.trials.contexts import Placed, Settings, Treatment, place, settings
from autotune.scoring.trials.readings import Reading, Spread, launch_spread, level_reading, score_reading

Floats = npt.NDArray[np.float64]

SHOWN_OF_A_SWITCH = 2
"""Of what a switch brought along: the first that was measured, and the best of the others."""


@dataclass(frozen=True)
class Evidence:
    """The comparable trials of a study: their settings, their readings of the objective and, by level, of throughput.

    `numbers` are the trials'. A confirmation's runs have other prompts and are compared with nothing here, but show
    how one configuration varies: they follow the others in `launches`, `score` and `levels`, and stand nowhere else.
    """

    space: SearchSpace
    numbers: tuple[int, ...]
    held: tuple[Settings, ...]
    launches: tuple[Settings, ...]
    score: tuple[Reading | None, ...]
    levels: Mapping[Level, tuple[Reading | None, ...]]
    baseline: Settings

    @property
    def spread(self) -> Spread:
        return launch_spread(self.launches, self.score)


def evidence(
    space: SearchSpace,
    trials: Sequence[TrialResult],
    baseline: Settings,
    objective: Objective,
    weights: Mapping[Level, float],
) -> Evidence:
    """Complete trials only; one whose figures are another's (one server under two names) is no evidence of its own."""
    complete = [t for t in trials if t.state is TrialState.COMPLETE and t.score is not None and t.duplicate_of is None]
    kept = [trial for trial in complete if trial.origin is not Origin.CONFIRMATION]
    again = [trial for trial in complete if trial.origin is Origin.CONFIRMATION]
    held = tuple(settings(space, trial.configuration) for trial in kept)
    apart = tuple({**settings(space, t.configuration), "": Origin.CONFIRMATION.value} for t in again)
    return Evidence(
        space=space,
        numbers=tuple(trial.number for trial in kept),
        held=held,
        launches=(*held, *apart),
        score=tuple(score_reading(trial, objective, weights) for trial in (*kept, *again)),
        levels={level: tuple(level_reading(t, level) for t in (*kept, *again)) for level in sorted(weights)},
        baseline=baseline,
    )


def effects(known: Evidence) -> tuple[Effect, ...]:
    """Every value of every factor that can be compared, against the baseline's value where it was among them. Factors
    in the order of the space; a factor without a comparison has none."""
    return tuple(effect for parameter in known.space.parameters for effect in _of_factor(known, parameter.name))


@dataclass(frozen=True)
class Contrast:
    """Of logarithms. `error` None: a trial behind it has no interval."""

    value: float
    error: float | None
    freedom: float

    def ratio(self) -> Estimate:
        if self.error is None:
            return Estimate(math.exp(self.value))
        # Three digits are plenty, and make the quantile one that was computed before.
        half = t_quantile(float(f"{self.freedom:.3g}")) * self.error
        return Estimate(math.exp(self.value), math.exp(self.value - half), math.exp(self.value + half))


def _of_factor(known: Evidence, name: str) -> list[Effect]:
    placed = place(known.space, name, known.held)
    solved = _Solved(placed, known.score, known.spread)
    by_level = {
        level: _Solved(placed, readings, launch_spread(known.launches, readings))
        for level, readings in known.levels.items()
    }
    found = []
    for reference, others in solved.components(known.baseline.get(name, "")):
        for treatment in _shown(solved, reference, others):
            ratios = {}
            for level, at_level in by_level.items():
                contrast = at_level.contrast(reference, treatment)
                if contrast is not None:
                    ratios[level] = contrast.ratio()
            contrast = solved.contrast(reference, treatment)
            if contrast is not None:
                found.append(_effect(known, name, solved, (reference, treatment), contrast, ratios))
    return found


def _effect(
    known: Evidence,
    name: str,
    solved: _Solved,
    pair: tuple[Treatment, Treatment],
    contrast: Contrast,
    ratios: Mapping[Level, Estimate],
) -> Effect:
    (before, _dropped), (after, brought) = pair
    mine = [placed for placed in solved.placed if placed.treatment == pair[1]]
    together = {p.context for p in solved.placed if p.treatment == pair[0]} & {p.context for p in mine}
    return Effect(
        parameter=name,
        before=before,
        after=after,
        ratio=contrast.ratio(),
        per_level=ratios,
        contexts=len(together) or len({placed.context for placed in mine}),
        brought=tuple(f"{other}={value}" for other, value in brought),
        trials=tuple(known.numbers[placed.index] for placed in mine),
    )


def _shown(solved: _Solved, reference: Treatment, others: Sequence[Treatment]) -> list[Treatment]:
    """All others of a plain factor. Of a switch, for each of its values, the first that was measured and the best: it
    has a treatment for each combination of what hangs on it. Within the reference's own value the difference is that
    of what hangs on it, which is shown there."""
    by_value: dict[str, list[Treatment]] = {}
    for treatment in others:
        if treatment[0] != reference[0]:
            by_value.setdefault(treatment[0], []).append(treatment)
    shown = []
    for treatments in by_value.values():
        best = max(treatments[1:], key=lambda t: _value(solved, reference, t), default=None)
        shown += [treatments[0]] if best is None else [treatments[0], best]
    return shown


def _value(solved: _Solved, reference: Treatment, treatment: Treatment) -> float:
    contrast = solved.contrast(reference, treatment)
    return -math.inf if contrast is None else contrast.value


class _Solved:
    """The least-squares solution of one factor for one figure. The contexts' own levels are eliminated, which leaves
    one unknown a treatment: a graph's Laplacian, solved by its pseudo-inverse."""

    def __init__(self, placed: Sequence[Placed], readings: Sequence[Reading | None], spread: Spread) -> None:
        self.placed = [p for p in placed if readings[p.index] is not None]
        self.treatments = list(dict.fromkeys(p.treatment for p in self.placed))
        self._spread = spread
        self._readings = [reading for p in self.placed if (reading := readings[p.index]) is not None]
        self._values = np.array([reading.value for reading in self._readings])
        self._known = all(reading.variance is not None for reading in self._readings)
        windows = np.array([reading.variance if reading.variance is not None else 1.0 for reading in self._readings])
        self._windows: Floats = windows
        self._gain: Floats = np.zeros((0, 0))
        self._component: list[int] = []
        self._scale = 1.0
        if self.placed:
            self._solve()

    def components(self, preferred: str) -> list[tuple[Treatment, list[Treatment]]]:
        """Treatments that can be compared with each other: the reference, which has the value `preferred` where one
        has, and the others in the order in which they were measured."""
        groups: dict[int, list[Treatment]] = {}
        for treatment, component in zip(self.treatments, self._component, strict=True):
            groups.setdefault(component, []).append(treatment)
        found = []
        for group in groups.values():
            reference = next((treatment for treatment in group if treatment[0] == preferred), group[0])
            found.append((reference, [treatment for treatment in group if treatment != reference]))
        return found

    def contrast(self, before: Treatment, after: Treatment) -> Contrast | None:
        """None where no chain of contexts leads from one to the other."""
        if before not in self.treatments or after not in self.treatments:
            return None
        low, high = self.treatments.index(before), self.treatments.index(after)
        if self._component[low] != self._component[high]:
            return None
        share = self._gain[high] - self._gain[low]
        value = float(share @ self._values)
        if not self._known:
            return Contrast(value, None, math.inf)
        windows, launches = share**2 * self._windows, float((share**2).sum()) * self._spread.variance
        variance = float(windows.sum()) + launches
        loss = sum(float(part) ** 2 / reading.freedom for part, reading in zip(windows, self._readings, strict=True))
        loss += launches**2 / self._spread.freedom if launches else 0.0
        return Contrast(value, math.sqrt(variance * self._scale), variance**2 / loss if loss > 0 else math.inf)

    def _solve(self) -> None:
        count = len(self.treatments)
        column = {treatment: number for number, treatment in enumerate(self.treatments)}
        contexts: dict[object, list[int]] = {}
        for row, placed in enumerate(self.placed):
            contexts.setdefault(placed.context, []).append(row)
        weights = 1.0 / (self._windows + self._spread.variance) if self._known else np.ones(len(self.placed))
        design = np.zeros((len(self.placed), count))
        design[np.arange(len(self.placed)), [column[placed.treatment] for placed in self.placed]] = 1.0
        weighted = np.zeros((count, len(self.placed)))
        for rows in contexts.values():
            mine, here = weights[rows], design[rows]
            weighted[:, rows] = here.T * mine - np.outer(here.T @ mine, mine) / mine.sum()
        laplacian = weighted @ design
        self._gain = np.asarray(np.linalg.pinv(laplacian, hermitian=True) @ weighted)
        self._component = _components(np.abs(laplacian) > 0)
        freedom = len(self.placed) - len(contexts) - (count - len(set(self._component)))
        if freedom > 0 and self._known:
            residuals = self._values - design @ (self._gain @ self._values)
            for rows in contexts.values():
                residuals[rows] -= float(weights[rows] @ residuals[rows]) / float(weights[rows].sum())
            self._scale = max(1.0, float(weights @ residuals**2) / freedom)


def _components(linked: npt.NDArray[np.bool_]) -> list[int]:
    """For each node the smallest node that it is linked to, over however many steps."""
    component = list(range(len(linked)))
    for node in range(len(linked)):
        reached, waiting = {node}, [node]
        while waiting:
            for other in np.flatnonzero(linked[waiting.pop()]).tolist():
                if other not in reached:
                    reached.add(other)
                    waiting.append(other)
        component[node] = min(reached)
    return component
