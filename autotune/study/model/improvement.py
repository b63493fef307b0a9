"""Proposals by expected improvement per node second, out of the grey-box model."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import numpy as np

from autotune.domain.configuration import Configuration
from autotune.domain.study import StudySpec
from autotune.domain.trial import FailureReason, TrialResult, TrialState
from autotune.study.ledger import Ledger, score_of
from autotune.study.model.candidates import Candidates
from autotune.study.model.feasibility import Death, Feasibility
from autotune.study.model.goal import Goal
from autotune.study.model.greybox import GreyBox, Observation, Prediction
from autotune.study.model.likeness import Floats, Likeness
from autotune.study.model.node_time import NodeTime
from autotune.study.model.observations import observed
from autotune.study.model.outlook import Outlook, hour_of
from autotune.study.model.prior import PriorResults, deaths
from autotune.study.model.slo_chance import SloChance
from autotune.study.model.trust import foretellable, trust
from autotune.study.proposer import Proposer

SHORT_LIST = 100
"""How many candidates the costly part of the model looks at."""
HOPELESS = 0.03
"""Below this chance to live nothing is tried while anything else is left: two crashes of a value that never lived."""
DOUBTED = 0.1
"""When it is asked whether anything is left, nothing counts as more certain to die than that: crashes condemn wrongly,
and a study that ended does not find out."""
FITTED_ROWS = 200
"""Trials x levels that the model is fitted to at most; beyond, the best and the latest stand for the rest."""
TRUSTED_FROM, TRUSTED_ABOVE = 8, 0.2
"""From so many complete trials on, a model must foretell this share of the spread of the objective."""
PLAINER_BY = 0.1
"""The plainer model is taken where it foretells so much more."""
COMPARED_EACH_UP_TO, COMPARED_EVERY = 40, 5
"""The two are compared after each trial up to so many, and from then on after every fifth."""
JUDGED_BY = 4
"""So many configurations at least that can be foretold. Of one setting changed at a time it takes long to have them."""
MEMORY = frozenset(
    {
        FailureReason.OUT_OF_MEMORY,
        FailureReason.OUT_OF_MEMORY_LOADING,
        FailureReason.OUT_OF_MEMORY_POOL,
        FailureReason.OUT_OF_MEMORY_CAPTURE,
        FailureReason.OUT_OF_MEMORY_SERVING,
    }
)
Observed = list[tuple[Observation, float]]


class GreyBoxProposer:
    """Proposes by expected improvement per node second; `otherwise` where no model can be trusted."""

    def __init__(self, spec: StudySpec, ledger: Ledger, otherwise: Proposer, *, decompose: bool = True) -> None:
        self._ledger = ledger
        self._earlier, self._deaths, self._prior = spec.earlier, deaths(spec), PriorResults(spec, ledger)
        self._otherwise = otherwise
        self._levels = spec.workload.closed
        self._goal = Goal(spec.workload, spec.objective)
        self._rng = random.Random(spec.seed + len(ledger.results))
        self._candidates = Candidates(ledger, self._rng)
        self._likeness = Likeness(spec.space)
        self._points: dict[Configuration, Configuration] = {}
        self._read: dict[int, tuple[TrialResult, Observation | None]] = {}
        plan = spec.plan()
        work = [(p.requests + p.concurrency) * plan.max_tokens for p in plan.levels if p.rate is None]
        self._work = np.array(work, dtype=float)
        self._feasibility = Feasibility(spec.space)
        self._keeping = SloChance(spec.space)
        self._node_time = NodeTime(spec.space)
        # The plainer one last: it is what remains where throughput is not made as the grey box has it.
        self._models = [
            GreyBox(spec.space, self._levels, decompose=known) for known in ((True, False) if decompose else (False,))
        ]
        self._taken = self._models[0]
        self.outlook: Outlook | None = None
        """Of the latest proposal; None where no model stands behind it."""
        self._believed = 0.0

    def propose(self) -> Configuration | None:
        self.outlook = None
        found = self._observed()
        if not found:
            return self._otherwise.propose()
        fitted = [observation for observation, _score in self._representative(found)]
        model = self._trusted(fitted)
        if model is None:
            return self._otherwise.propose()
        self._learn()

        def worth(configurations: Sequence[Configuration]) -> Floats:
            chances = self._feasibility.chances(configurations) * self._keeping.chances(configurations)
            return np.asarray(self._goal.value(model.predict_mean(configurations)) + 0.3 * np.log(chances))

        measured = [observation.configuration for observation, _score in found if not observation.assumed]
        candidates, rough = self._candidates.find(measured, worth)
        if not candidates:
            return self._otherwise.propose()
        whole = [observation.configuration for observation in fitted if not observation.assumed]
        return self._best_of(model, self._short_list(candidates, rough), whole)

    def _short_list(self, candidates: list[Configuration], rough: Floats) -> list[Configuration]:
        """The best by a first look, and as many at random: the first look knows no uncertainty."""
        order = np.argsort(-rough, kind="stable").tolist()
        half = SHORT_LIST // 2
        rest = order[half:]
        return [candidates[index] for index in (*order[:half], *self._rng.sample(rest, min(half, len(rest))))]

    def _trusted(self, fitted: Sequence[Observation]) -> GreyBox | None:
        """The model to believe, fitted; None where none foretells anything."""
        self._believed = 0.0
        judges = self._judges(fitted)
        if len(fitted) < TRUSTED_FROM or len({fitted[place].configuration for place in judges}) < JUDGED_BY:
            self._models[0].fit(fitted)
            return self._models[0]
        if len(fitted) < COMPARED_EACH_UP_TO or len(self._ledger.results) % COMPARED_EVERY == 0:
            asked = self._models
        else:
            asked = [self._taken]
        best, found = asked[0], -math.inf
        for model in asked:
            model.fit(fitted)
            believed = self._trust(model, fitted, judges)
            if believed > found + PLAINER_BY:
                best, found = model, believed
        self._believed, self._taken = found, best
        return best if found >= TRUSTED_ABOVE else None

    def _judges(self, fitted: Sequence[Observation]) -> list[int]:
        """Places of the trials that a model can be judged by."""
        can_be = foretellable(self._likeness, [observation.configuration for observation in fitted])
        return [place for place in can_be if not fitted[place].assumed]

    def _trust(self, model: GreyBox, fitted: Sequence[Observation], judges: list[int]) -> float:
        seen = np.log(np.array([[fitted[place].throughput[level] for level in self._levels] for place in judges]))
        foretold = model.left_out()[judges]
        alike = [fitted[place].configuration for place in judges]
        found = trust(self._goal.value(seen), self._goal.value(foretold), alike)
        return 1.0 if found is None else found

    def _best_of(self, model: GreyBox, short: list[Configuration], measured: list[Configuration]) -> Configuration:
        chances = self._feasibility.chances(short)
        prediction = model.predict(short)
        gain = self._gain_within_slo(model, prediction, measured) * self._keeping.chances(short)
        measuring = (self._work[None, :] / np.exp(prediction.mean)).sum(axis=1)
        seconds = self._node_time.trial(short, measuring, chances)
        self.outlook = self._look(model, measured, gain * np.maximum(chances, DOUBTED), seconds)
        worth = gain * chances / seconds
        kept = [index for index, chance in enumerate(chances) if chance >= HOPELESS] or list(range(len(short)))
        return short[max(kept, key=lambda index: float(worth[index]))]

    def _look(self, model: GreyBox, measured: Sequence[Configuration], gains: Floats, seconds: Floats) -> Outlook:
        means = model.predict_mean(measured)
        shares = self._goal.shares(means[int(np.argmax(self._goal.value(means)))])
        # What the model takes for noise may be its own misfit: that is no reason to end.
        variance = float(shares @ model.launch_covariance @ shares) / max(1.0, model.noisier)
        between = math.sqrt(2.0 * variance)
        return Outlook(hour_of(gains, seconds), between, self._believed)

    def _gain_within_slo(self, model: GreyBox, prediction: Prediction, measured: Sequence[Configuration]) -> Floats:
        """Over the best that keeps to the SLO; while none does, whatever does is as good as any other."""
        within = [c for c in measured if (rank := self._ledger.rank(c)) is None or rank[0] >= 0]
        if not within:
            return np.ones(len(prediction.mean))
        return self._expected_gain(prediction, float(self._goal.value(model.predict_mean(within)).max()))

    def _expected_gain(self, prediction: Prediction, incumbent: float) -> Floats:
        """Of the logarithm of the objective."""
        mean = self._goal.value(prediction.mean)
        shares = self._goal.shares(prediction.mean)
        variance = np.einsum("ni,nij,nj->n", shares, prediction.covariance, shares)
        deviation = np.sqrt(np.maximum(variance, 1e-8))
        z = (mean - incumbent) / deviation
        density = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
        below = np.array([0.5 * math.erfc(-value / math.sqrt(2)) for value in z])
        return np.asarray(deviation * (density + z * below))

    def _learn(self) -> None:
        """What lives, and what it costs."""
        alive, dead, expected = [*self._earlier.survivors], [*self._deaths], []
        for result in self._ledger.results:
            expected.append(self._measuring(result))
            if result.state is TrialState.INFEASIBLE:
                memory = result.failure is not None and result.failure.reason in MEMORY
                dead.append(Death(self._point(result.configuration), memory))
            elif score_of(result) is not None or result.bound is not None:
                alive.append(self._point(result.configuration))
        self._feasibility.learn(alive, dead)
        self._keeping.learn([(self._point(r.configuration), r.slo) for r in self._ledger.results if r.slo])
        self._node_time.learn(self._ledger.results, expected)

    def _measuring(self, result: TrialResult) -> float | None:
        seen = self._observation(result)
        if seen is None:
            return None
        return float(sum(work / seen.throughput[level] for work, level in zip(self._work, self._levels, strict=True)))

    def _observed(self) -> Observed:
        """Complete trials that have every level, with their scores, and pruned ones with their bounds; a warm start's
        before them."""
        found = []
        for result in (*self._prior(), *self._ledger.results):
            observation = self._observation(result)
            value = score_of(result) if result.bound is None else result.bound.score
            if observation is not None and value is not None:
                found.append((observation, value))
        return found

    def _point(self, configuration: Configuration) -> Configuration:
        if configuration not in self._points:
            self._points[configuration] = self._ledger.point(configuration)
        return self._points[configuration]

    def _observation(self, result: TrialResult) -> Observation | None:
        """Read once for each result; one that was corrected since is another."""
        known = self._read.get(result.number)
        if known is None or known[0] is not result:
            found = observed(result, self._point(result.configuration), self._levels)
            known = self._read[result.number] = result, found
        return known[1]

    def _representative(self, observed: Observed) -> Observed:
        most = max(4, FITTED_ROWS // max(1, len(self._levels)))
        if len(observed) <= most:
            return observed
        latest = observed[-most // 2 :]
        best = sorted(observed[: -most // 2], key=lambda pair: -pair[1])
        return [*best[: most - len(latest)], *latest]
