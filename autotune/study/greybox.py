"""A grey-box model of a server's throughput: what it is made of is known, how it depends on the settings is learnt.

    tokens per second at a level = requests in flight x accept length / time of one cycle

The accept length follows from how drafts are made (parameters named `speculative_*`) and hardly from anything else;
the time of a cycle depends on the tokens verified together (in flight x draft tokens) and on every factor, nearly
each by itself. Both logarithms are fitted as Gaussian processes whose covariance is a sum over factors (a Bayesian
linear regression on the factors, their products with the level and, weaker, their pairs), so that one trial of one
setting says something about every configuration that shares it. Pure: numbers in, numbers with uncertainty out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from autotune.domain.configuration import Configuration
from autotune.domain.space import SearchSpace
from autotune.study.likeness import Codes, Floats, Likeness, main_and_pairs

DRAFTING = "speculative_"
"""Parameters by which drafts are made begin so. Whether drafting overlaps with verifying (spec_v2) is none of them."""

_STEPS, _DRAFT_TOKENS = "speculative_num_steps", "speculative_num_draft_tokens"


@dataclass(frozen=True)
class Observation:
    """One complete trial. Both by level; `accept` is empty where nothing is drafted."""

    configuration: Configuration
    throughput: Mapping[int, float]
    accept: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Scales:
    """Prior variances of natural logarithms. `octaves`: levels so far apart (factor of 2) share exp(-1/2).
    `conditional`: share of `factor` for a parameter with a condition."""

    level: float = 1.0
    work: float = 0.5
    factor: float = 0.04
    conditional: float = 0.35
    pair: float = 0.01
    single: float = 0.0001
    trial_noise: float = 0.00004
    noise: float = 0.0002
    octaves: float = 2.5
    accept_factor: float = 0.015
    accept_noise: float = 0.00002


@dataclass(frozen=True)
class Prediction:
    """Logarithms of tokens per second: `mean` [configurations, levels] and `covariance` [configurations, levels,
    levels]."""

    mean: Floats
    covariance: Floats


class GreyBox:
    """`decompose` False fits throughput as a whole: the same model without the knowledge of what it is made of."""

    def __init__(
        self,
        space: SearchSpace,
        levels: Sequence[int],
        *,
        decompose: bool = True,
        scales: Scales | None = None,
    ) -> None:
        self._space = space
        self._levels = tuple(levels)
        self._decompose = decompose
        self._scales = scales or Scales()
        self._all = Likeness(space)
        drafting = [name for name in self._all.names if name.startswith(DRAFTING)]
        self._drafting = Likeness(space, drafting if decompose else ())
        # A switch brings all that hangs on it along: each of these for itself is expected to matter less.
        self._importance = np.array([1.0 if p.when is None else self._scales.conditional for p in space.parameters])
        self._log_levels = np.log2(np.array(self._levels, dtype=np.float64))
        apart = self._log_levels[:, None] - self._log_levels[None, :]
        self._near = np.exp(-0.5 * (apart / self._scales.octaves) ** 2)
        self._observed: list[Configuration] = []
        self._inverse: Floats = np.zeros((0, 0))
        self._weights: Floats = np.zeros(0)
        self._mean = 0.0
        self._blocks: Floats = np.zeros((0, 0))
        self._accept = _AcceptLength(self._drafting, self._scales)

    def fit(self, observations: Sequence[Observation]) -> None:
        """Needs one observation at least, each with every level."""
        self._observed = [observation.configuration for observation in observations]
        throughput = np.array([[o.throughput[level] for level in self._levels] for o in observations])
        drafts = [o if self._decompose else Observation(o.configuration, o.throughput) for o in observations]
        self._accept.fit(drafts)
        accepted = np.array([[_mean_log(o.accept)] for o in drafts])
        cycle = np.log(np.array(self._levels, dtype=np.float64))[None, :] + accepted - np.log(throughput)
        count, levels = cycle.shape
        self._mean = float(cycle.mean())
        kernel = self._kernel(self._observed, self._observed)
        same_trial = np.kron(np.eye(count), np.ones((levels, levels))) * self._scales.trial_noise
        kernel += same_trial + np.eye(count * levels) * self._scales.noise
        self._inverse = np.asarray(np.linalg.inv(kernel), dtype=np.float64)
        self._targets = cycle.reshape(-1) - self._mean
        self._weights = self._inverse @ self._targets

    def predict_mean(self, configurations: Sequence[Configuration]) -> Floats:
        """[configurations, levels], log of tokens per second."""
        cross = self._kernel(configurations, self._observed)
        cycle = (cross @ self._weights).reshape(len(configurations), -1) + self._mean
        accepted, _variance = self._accept.predict(configurations)
        return np.asarray(np.log(np.array(self._levels, dtype=np.float64))[None, :] + accepted[:, None] - cycle)

    def predict(self, configurations: Sequence[Configuration]) -> Prediction:
        count, levels = len(configurations), len(self._levels)
        cross = self._kernel(configurations, self._observed)
        cycle = (cross @ self._weights).reshape(count, levels) + self._mean
        accepted, accept_variance = self._accept.predict(configurations)
        rows = cross.reshape(count, levels, -1)
        explained = np.einsum("nir,njr->nij", rows @ self._inverse, rows)
        covariance = self._own(configurations) - explained + accept_variance[:, None, None]
        mean = np.log(np.array(self._levels, dtype=np.float64))[None, :] + accepted[:, None] - cycle
        return Prediction(mean, covariance)

    def trust(self) -> float:
        """Share of the variance between trials that the model foretells when each is left out: 1 is all, 0 or less
        means that it foretells no better than the mean, and its proposals are not worth more than a guess."""
        levels = len(self._levels)
        count = len(self._observed)
        if count < 3:
            return 1.0
        errors = np.zeros((count, levels))
        for index in range(count):
            block = slice(index * levels, (index + 1) * levels)
            errors[index] = np.linalg.solve(self._inverse[block, block], self._weights[block])
        targets = self._targets.reshape(count, levels)
        spread = ((targets - targets.mean(axis=0)) ** 2).sum()
        return float(1.0 - (errors**2).sum() / spread) if spread > 0 else 1.0

    def _kernel(self, left: Sequence[Configuration], right: Sequence[Configuration]) -> Floats:
        """[left x levels, right x levels]."""
        scales, near = self._scales, self._near
        alike = self._all.alike(self._all.code(left), self._all.code(right))
        pairs, single = main_and_pairs(alike)
        main = np.tensordot(self._importance, alike, axes=1) * scales.factor
        kept = 0.4 * main
        local = 0.6 * main + scales.pair * pairs * len(alike) / 2 + scales.single * single
        whole = kept[:, None, :, None] + local[:, None, :, None] * near[None, :, None, :]
        whole = whole + scales.level * near[None, :, None, :] + scales.work * self._work(left, right)
        return np.asarray(whole.reshape(len(left) * len(near), len(right) * len(near)))

    def _own(self, configurations: Sequence[Configuration]) -> Floats:
        """Prior covariance of the levels of each configuration: the same for all, since each is wholly like itself."""
        scales, near = self._scales, self._near
        factors = len(self._all.names)
        main = float(self._importance.sum()) * scales.factor
        own = 0.4 * main + (0.6 * main + scales.pair * factors / 2 + scales.single + scales.level + scales.work) * near
        return np.broadcast_to(own, (len(configurations), *own.shape))

    def _work(self, left: Sequence[Configuration], right: Sequence[Configuration]) -> Floats:
        """Likeness by tokens verified together, on the scale of octaves."""
        first, second = self._log_work(left), self._log_work(right)
        values, where = np.unique(np.concatenate([first.ravel(), second.ravel()]), return_inverse=True)
        table = np.exp(-0.5 * ((values[:, None] - values[None, :]) / self._scales.octaves) ** 2)
        a = where[: first.size].reshape(first.shape)
        b = where[first.size :].reshape(second.shape)
        return np.asarray(table[a[:, :, None, None], b[None, None, :, :]])

    def _log_work(self, configurations: Sequence[Configuration]) -> Floats:
        widths = np.array([self._width(configuration) for configuration in configurations], dtype=np.float64)
        return np.asarray(np.log2(widths)[:, None] + self._log_levels[None, :])

    def _width(self, configuration: Configuration) -> float:
        """Tokens that one request has verified at once."""
        if not self._decompose:
            return 1.0
        for name, more in ((_DRAFT_TOKENS, 0), (_STEPS, 1)):
            value = configuration.get(name)
            if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
                return float(value) + more
        return 1.0


class _AcceptLength:
    """Log of the accept length by the drafting parameters alone. Drafting that gave none in a trial has 1."""

    def __init__(self, likeness: Likeness, scales: Scales) -> None:
        self._likeness = likeness
        self._scales = scales
        self._plain: set[tuple[int, ...]] = set()
        self._codes = np.zeros((0, 0), dtype=np.int64)
        self._weights: Floats = np.zeros(0)
        self._inverse: Floats = np.zeros((0, 0))
        self._mean = 0.5

    def fit(self, observations: Sequence[Observation]) -> None:
        codes = self._likeness.code([observation.configuration for observation in observations])
        found: dict[tuple[int, ...], list[float]] = {}
        self._plain = set()
        for row, observation in zip(codes.tolist(), observations, strict=True):
            if observation.accept:
                found.setdefault(tuple(row), []).append(_mean_log(observation.accept))
            else:
                self._plain.add(tuple(row))
        self._plain -= found.keys()
        self._codes = np.array(list(found), dtype=np.int64).reshape(len(found), len(self._likeness.names))
        if not found:
            return
        means = np.array([sum(values) / len(values) for values in found.values()])
        noise = np.array([self._scales.accept_noise / len(values) for values in found.values()])
        self._mean = float(means.mean())
        self._inverse = np.asarray(np.linalg.inv(self._kernel(self._codes) + np.diag(noise)), dtype=np.float64)
        self._weights = self._inverse @ (means - self._mean)

    def predict(self, configurations: Sequence[Configuration]) -> tuple[Floats, Floats]:
        """Mean and variance of the logarithm."""
        codes = self._likeness.code(configurations)
        factors = len(self._likeness.names)
        prior = self._scales.accept_factor * (1 + 1.5 * factors)
        if len(self._codes):
            cross = self._kernel(codes, self._codes)
            mean = cross @ self._weights + self._mean
            variance = np.maximum(prior - np.einsum("nr,nr->n", cross @ self._inverse, cross), 1e-9)
        else:
            mean, variance = np.full(len(codes), self._mean), np.full(len(codes), prior)
        for index, row in enumerate(codes.tolist()):
            if tuple(row) in self._plain:
                mean[index], variance[index] = 0.0, 0.0
        return mean, variance

    def _kernel(self, left: Codes, right: Codes | None = None) -> Floats:
        alike = self._likeness.alike(left, left if right is None else right)
        pairs, _single = main_and_pairs(alike)
        return np.asarray(self._scales.accept_factor * (1 + alike.sum(axis=0) + pairs * len(alike) / 2))


def _mean_log(accept: Mapping[int, float]) -> float:
    """0 where there is none: every cycle then gives one token."""
    return float(np.mean(np.log(list(accept.values())))) if accept else 0.0
