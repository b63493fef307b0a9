"""What the model of the search says of the factors: effects and interactions around the best configuration.

The model (study/model/greybox.py) is fitted to all trials, so that a factor has an effect although no two trials differ
in it alone. An effect is the difference of two predictions, whose errors largely are the same; its interval is that of
the difference. See docs/explanation.md for how often these intervals hold the truth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from autotune.domain.configuration import Configuration
from autotune.domain.explanation import Effect, Modelled
from autotune.domain.study import StudySpec
from autotune.domain.trial import Origin, TrialResult, TrialState
from autotune.study.explaining.answers import Answers
from autotune.study.explaining.surroundings import Step, Surroundings
from autotune.study.ledger import Ledger, Validity, score_of
from autotune.study.model.goal import Goal
from autotune.study.model.greybox import GreyBox, Observation
from autotune.study.model.improvement import PLAINER_BY, TRUSTED_ABOVE, TRUSTED_FROM
from autotune.study.model.observations import observed
from autotune.study.model.trust import trust

FITTED_ROWS = 320
"""Trials x levels that are fitted at most; beyond, the best and the latest stand for the rest."""


@dataclass(frozen=True)
class Belief:
    """`foretold`: share of the spread of the objective of configurations that were left out; None where too few differ
    to say."""

    decompose: bool
    foretold: float | None

    @property
    def why_not(self) -> str:
        """Empty where the model is to be believed."""
        if self.foretold is None:
            return "too few configurations differ to tell whether the model foretells anything"
        if self.foretold >= TRUSTED_ABOVE:
            return ""
        share = f"{100 * max(0.0, self.foretold):.0f} % of the spread of the objective"
        return (
            f"of configurations that it was not shown, the model foretells {share}, and "
            f"{100 * TRUSTED_ABOVE:.0f} % are needed"
        )


def modelled(spec: StudySpec, trials: Sequence[TrialResult], best: Configuration | None = None) -> Modelled:
    """Out of the search's own trials. `best`: the configuration whose surroundings are asked about; None: that of the
    highest score. Where the model is not to be believed nothing is said, but why."""
    if not spec.ranks_by_throughput:
        return Modelled(withheld="the model foretells the throughput of closed loops, and the objective is another")
    known = Known(spec, trials)
    fitted = len(known.observations)
    if fitted < TRUSTED_FROM:
        return Modelled(
            fitted=fitted,
            withheld=f"{fitted} complete trials that have every level, and {TRUSTED_FROM} are needed",
        )
    belief = believed(spec, known.observations)
    found = Modelled(fitted=fitted, foretold=belief.foretold, decomposed=belief.decompose)
    if belief.why_not:
        return replace(found, withheld=belief.why_not)
    around = known.surroundings(best)
    found = replace(found, trial=known.trial_of(around.best))
    steps = around.steps(known.point(spec.baseline))
    if not steps:
        return replace(found, withheld="no factor of the best configuration served with two values")
    answers = Answers(spec, known.observations, decompose=belief.decompose)
    effects = answers.effects(steps)
    interactions, looked_at = answers.interactions(around, one_each(steps, effects, around.best))
    return replace(found, effects=effects, interactions=interactions, looked_at=looked_at, widened=answers.widened)


class Known:
    """The search's trials as the model takes them: `observations`, which are what it is fitted to. A confirmation's
    runs have other prompts, and a warm start's figures are not this study's."""

    def __init__(self, spec: StudySpec, trials: Sequence[TrialResult]) -> None:
        self._spec, levels = spec, spec.workload.closed
        ledger = Ledger(spec.space, Validity(lambda _configuration: (), lambda configuration: configuration))
        self.point = ledger.point
        self._trials = [t for t in trials if t.origin is not Origin.CONFIRMATION and t.duplicate_of is None]
        self._seen: list[tuple[float, Observation]] = []
        for trial in self._trials:
            value = score_of(trial) if trial.bound is None else trial.bound.score
            made = observed(trial, ledger.point(trial.configuration), levels)
            if made is not None and value is not None:
                self._seen.append((value, made))
        self.observations = _representative(self._seen, FITTED_ROWS // max(1, len(levels)))

    def surroundings(self, best: Configuration | None = None) -> Surroundings:
        """Of `best`; None: of the highest score. Needs one observation at least."""
        order = sorted(self._seen, key=lambda pair: -pair[0])
        served = list(dict.fromkeys(made.configuration for _value, made in order))
        died = [self.point(t.configuration) for t in self._trials if t.state is TrialState.INFEASIBLE]
        return Surroundings(self._spec.space, served[0] if best is None else self.point(best), served, died)

    def trial_of(self, point: Configuration) -> int | None:
        return next((t.number for t in self._trials if self.point(t.configuration) == point), None)


def _representative(seen: list[tuple[float, Observation]], most: int) -> list[Observation]:
    most = max(TRUSTED_FROM, most)
    if len(seen) <= most:
        return [made for _value, made in seen]
    latest = seen[-most // 2 :]
    best = sorted(seen[: -most // 2], key=lambda pair: -pair[0])
    return [made for _value, made in (*best[: most - len(latest)], *latest)]


def believed(spec: StudySpec, observations: Sequence[Observation]) -> Belief:
    """The search's own test, and its choice between knowing what throughput is made of and not."""
    goal, levels = Goal(spec.workload, spec.objective), spec.workload.closed
    whole = [place for place, one in enumerate(observations) if not one.assumed]
    seen = np.log(np.array([[observations[place].throughput[level] for level in levels] for place in whole]))
    alike = [observations[place].configuration for place in whole]
    best = Belief(True, None)
    for decompose in (True, False):
        model = GreyBox(spec.space, levels, decompose=decompose)
        model.fit(observations)
        share = trust(goal.value(seen), goal.value(model.left_out()[whole]), alike) if whole else None
        if share is not None and (best.foretold is None or share > best.foretold + PLAINER_BY):
            best = Belief(decompose, share)
    return best


def one_each(steps: Sequence[Step], effects: Sequence[Effect], best: Configuration) -> list[Step]:
    """Of each factor the change to the best one's value; where that is the reference, the change that does most."""
    found: dict[str, tuple[float, Step]] = {}
    for step, effect in zip(steps, effects, strict=True):
        size = math.inf if step.high == best else abs(math.log(effect.ratio.value))
        if step.parameter not in found or size > found[step.parameter][0]:
            found[step.parameter] = size, step
    return [step for _size, step in found.values()]
