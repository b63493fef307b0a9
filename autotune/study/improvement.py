"""Proposals by expected improvement per node second, out of the grey-box model."""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autotune.domain.configuration import Configuration
from autotune.domain.measurement import Objective
from autotune.domain.study import StudySpec
from autotune.domain.trial import TrialResult, TrialState
from autotune.study.feasibility import Feasibility
from autotune.study.greybox import GreyBox, Observation, Prediction
from autotune.study.ledger import Ledger, score_of
from autotune.study.likeness import Floats
from autotune.study.moves import Rules, neighbours, random_configuration
from autotune.study.proposer import Proposer

POOL, FRESH, LEADERS, SHORT_LIST = 400, 20, 3, 100
"""Random valid configurations kept as candidates, and drawn anew each time; the best whose neighbours are candidates;
and how many candidates the costly part of the model looks at."""
SECOND_STEPS = 4
HOPELESS = 0.03
"""Below this chance to live nothing is tried while anything else is left: two crashes of a value that never lived."""
DRAWS_FOR_ONE = 30
FITTED_ROWS = 400
"""Trials x levels that the model is fitted to at most; beyond, the best and the latest stand for the rest."""
TRUSTED_FROM, TRUSTED_ABOVE = 8, 0.2
"""From so many complete trials on, the model must foretell this share of the variance, or TPE takes over."""


@dataclass(frozen=True)
class _Costs:
    """Seconds: of a start, of a failure."""

    start: float
    failure: float


class GreyBoxProposer:
    """Proposes by expected improvement per node second; `otherwise` where the model cannot be trusted."""

    def __init__(self, spec: StudySpec, ledger: Ledger, otherwise: Proposer, *, decompose: bool = True) -> None:
        self._spec = spec
        self._ledger = ledger
        self._otherwise = otherwise
        self._decompose = decompose
        self._levels = spec.workload.levels
        self._rng = random.Random(spec.seed + len(ledger.results))
        self._pool: dict[Configuration, None] | None = None
        self._beside: dict[Configuration, tuple[Configuration, ...]] = {}
        self._points: dict[Configuration, Configuration] = {}
        self._plan = spec.plan()
        self._feasibility = Feasibility(spec.space)
        self._model = GreyBox(spec.space, self._levels, decompose=decompose)

    def propose(self) -> Configuration | None:
        observed = self._observed()
        if not observed:
            return self._otherwise.propose()
        fitted = self._representative(observed)
        self._model.fit([observation for observation, _score in fitted])
        if len(observed) >= TRUSTED_FROM and self._model.trust() < TRUSTED_ABOVE:
            return self._otherwise.propose()
        candidates = self._candidates([observation.configuration for observation, _score in observed])
        if not candidates:
            return self._otherwise.propose()
        return self._best_of(candidates, [observation.configuration for observation, _score in fitted])

    def _best_of(self, candidates: list[Configuration], measured: list[Configuration]) -> Configuration:
        chances = self._chances(candidates)
        kept = [index for index, chance in enumerate(chances) if chance >= HOPELESS] or range(len(candidates))
        candidates, alive = [candidates[index] for index in kept], chances[list(kept)]
        rough = self._objective(self._model.predict_mean(candidates))
        order = np.argsort(-(rough + 0.3 * np.log(alive)), kind="stable")
        half = SHORT_LIST // 2
        rest = order[half:].tolist()
        chosen = [*order[:half].tolist(), *self._rng.sample(rest, min(half, len(rest)))]
        short: list[Configuration] = [candidates[index] for index in chosen]
        incumbent = float(self._objective(self._model.predict_mean(measured)).max())
        prediction = self._model.predict(short)
        gain = self._expected_gain(prediction, incumbent)
        worth = gain * alive[chosen] / self._seconds(prediction, alive[chosen])
        return short[int(np.argmax(worth))]

    def _expected_gain(self, prediction: Prediction, incumbent: float) -> Floats:
        """Of the logarithm of the objective."""
        mean = self._objective(prediction.mean)
        shares = self._shares(prediction.mean)
        variance = np.einsum("ni,nij,nj->n", shares, prediction.covariance, shares)
        deviation = np.sqrt(np.maximum(variance, 1e-8))
        z = (mean - incumbent) / deviation
        density = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
        below = np.array([0.5 * math.erfc(-value / math.sqrt(2)) for value in z])
        return np.asarray(deviation * (density + z * below))

    def _objective(self, log_throughput: Floats) -> Floats:
        """Its logarithm, up to a constant."""
        weights = np.array([self._spec.workload.concurrency[level] for level in self._levels])
        weights = weights / weights.sum()
        if self._spec.objective.metric == Objective.METRICS[1]:
            return np.asarray(log_throughput @ weights)
        return np.asarray(np.log(np.exp(log_throughput) @ weights))

    def _shares(self, log_throughput: Floats) -> Floats:
        """Derivative of the objective's logarithm by each level's."""
        weights = np.array([self._spec.workload.concurrency[level] for level in self._levels])
        if self._spec.objective.metric == Objective.METRICS[1]:
            return np.broadcast_to(weights / weights.sum(), log_throughput.shape)
        parts = np.exp(log_throughput) * weights
        return np.asarray(parts / parts.sum(axis=1, keepdims=True))

    def _seconds(self, prediction: Prediction, alive: Floats) -> Floats:
        """Expected node time of a trial: its start and its levels if it lives, a failure if it does not."""
        costs = self._costs()
        rates = np.exp(prediction.mean)
        work = np.array([(p.requests + p.concurrency) * self._plan.max_tokens for p in self._plan.levels], dtype=float)
        measuring = (work[None, :] / rates).sum(axis=1)
        return np.asarray(alive * (costs.start + measuring) + (1 - alive) * costs.failure)

    def _costs(self) -> _Costs:
        starts = [r.startup_seconds for r in self._ledger.results if r.startup_seconds is not None]
        failures = [r.node_seconds for r in self._ledger.results if r.state is TrialState.INFEASIBLE]
        start = statistics.median(starts) if starts else 60.0
        return _Costs(start, statistics.median(failures) if failures else start)

    def _chances(self, candidates: Sequence[Configuration]) -> Floats:
        alive, dead = [], []
        for result in self._ledger.results:
            if result.state is TrialState.INFEASIBLE:
                dead.append(self._point(result.configuration))
            elif score_of(result) is not None:
                alive.append(self._point(result.configuration))
        self._feasibility.learn(alive, dead)
        return self._feasibility.chances(candidates)

    def _observed(self) -> list[tuple[Observation, float]]:
        """Complete trials that have every level, with their scores."""
        found = []
        for result in self._ledger.results:
            observation, value = self._observation(result), score_of(result)
            if observation is not None and value is not None:
                found.append((observation, value))
        return found

    def _point(self, configuration: Configuration) -> Configuration:
        if configuration not in self._points:
            self._points[configuration] = self._ledger.point(configuration)
        return self._points[configuration]

    def _observation(self, result: TrialResult) -> Observation | None:
        throughput, accept = {}, {}
        for measurement in result.measurements:
            if measurement.output_throughput is not None and measurement.output_throughput.value > 0:
                throughput[measurement.concurrency] = measurement.output_throughput.value
            if measurement.accept_length is not None and measurement.accept_length > 0:
                accept[measurement.concurrency] = measurement.accept_length
        if not set(self._levels) <= throughput.keys():
            return None
        return Observation(self._point(result.configuration), throughput, accept)

    def _representative(self, observed: list[tuple[Observation, float]]) -> list[tuple[Observation, float]]:
        most = max(4, FITTED_ROWS // max(1, len(self._levels)))
        if len(observed) <= most:
            return observed
        latest = observed[-most // 2 :]
        best = sorted(observed[: -most // 2], key=lambda pair: -pair[1])
        return [*best[: most - len(latest)], *latest]

    def _candidates(self, measured: Sequence[Configuration]) -> list[Configuration]:
        """Valid ones that have not been settled: a kept random pool, some new draws, neighbours of the best."""
        ledger = self._ledger
        pool = self._pool if self._pool is not None else {}
        self._draw(pool, POOL if self._pool is None else FRESH)
        self._pool = pool
        found = dict(pool)
        scored = sorted(measured, key=lambda configuration: -(ledger.score(configuration) or 0.0))
        rules = Rules(ledger.space, ledger.is_legal)
        for leader in itertools.islice(dict.fromkeys(scored), LEADERS):
            found.update(dict.fromkeys(self._neighbours(rules, leader)))
        # Two changes away: what pays only together (a larger graph and more running requests) is never a neighbour.
        beside = self._neighbours(rules, scored[0])
        for near in self._rng.sample(beside, min(SECOND_STEPS, len(beside))):
            found.update(dict.fromkeys(self._neighbours(rules, near)))
        return [configuration for configuration in found if ledger.is_open(configuration)]

    def _neighbours(self, rules: Rules, base: Configuration) -> tuple[Configuration, ...]:
        if base not in self._beside:
            self._beside[base] = tuple(neighbours(rules, base))
        return self._beside[base]

    def _draw(self, pool: dict[Configuration, None], count: int) -> None:
        """The pool is kept to its size: the oldest leave."""
        wanted = len(pool) + count
        for _ in range(DRAWS_FOR_ONE * count):
            if len(pool) >= wanted:
                break
            drawn = random_configuration(self._spec.space, self._rng)
            if drawn not in pool and self._ledger.is_legal(drawn):
                pool[drawn] = None
        for old in list(itertools.islice(pool, max(0, len(pool) - POOL))):
            del pool[old]
