"""A grey-box model of a server's throughput: what it is made of is known, how it depends on the settings is learnt.

    tokens per second at a level = requests in flight x accept length / time of one cycle

The accept length follows from how drafts are made (parameters named `speculative_*`) and hardly from anything else;
the time of a cycle depends on the tokens verified together (in flight x draft tokens), on whether a graph was captured
for such a batch, and on every factor, nearly each by itself. Both logarithms are fitted as Gaussian processes whose
covariance is a sum over factors (a Bayesian linear regression on the factors, their products with the level and,
weaker, their pairs), so that one trial of one setting says something about every configuration that shares it. How
noisy the figures are is learnt. Pure: numbers in, numbers with uncertainty out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from autotune.domain.configuration import Configuration, Value
from autotune.domain.level import Level
from autotune.domain.space import SearchSpace
from autotune.study.model.accept_length import AcceptLength
from autotune.study.model.likeness import Codes, Floats, Likeness, main_and_pairs
from autotune.study.model.serving_law import DRAFTING, UNKNOWN, Batch, batch, in_flight, width

NOISIER = (0.25, 1.0, 4.0, 16.0, 64.0, 256.0)
STRONGER = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
"""How many times their prior variance the noise and the effects of factors may have: the likeliest is taken."""
_SEEN_IN = 30
"""Trials at most by which that is decided: the latest."""
_ASSUMED = 100.0
"""Variance of what stands in place of a level that was not measured: it says nothing."""
_AGAINST_NOISE, _AGAINST_STRENGTH = 1.0, 0.5
"""Log odds that each step of these has against it beforehand."""


@dataclass(frozen=True)
class Observation:
    """One complete trial. All by level; `accept` is empty where nothing is drafted. `deviation`: relative standard
    deviation of the throughput by the trial's own interval, where it has one. `assumed`: levels that a trial which was
    stopped did not run; their throughput is a stand-in, from which nothing is learnt."""

    configuration: Configuration
    throughput: Mapping[Level, float]
    accept: Mapping[Level, float] = field(default_factory=dict)
    deviation: Mapping[Level, float] = field(default_factory=dict)
    assumed: frozenset[Level] = frozenset()


@dataclass(frozen=True)
class Scales:
    """Prior variances of natural logarithms. `octaves`: levels so far apart (factor of 2) share exp(-1/2).
    `conditional`: share of `factor` for a parameter with a condition. `graph`: of running in a captured graph."""

    level: float = 1.0
    work: float = 0.5
    graph: float = 0.04
    factor: float = 0.02
    conditional: float = 0.35
    pair: float = 0.005
    single: float = 0.00005
    trial_noise: float = 0.00004
    noise: float = 0.0002
    octaves: float = 2.5
    accept_factor: float = 0.008
    accept_noise: float = 0.00002


@dataclass(frozen=True)
class Prediction:
    """Logarithms of tokens per second: `mean` [configurations, levels] and `covariance` [configurations, levels,
    levels]."""

    mean: Floats
    covariance: Floats


class GreyBox:
    """`decompose` False fits throughput as a whole: the same model without the knowledge of what it is made of.
    `learn_scales` False takes `scales` as they are."""

    def __init__(
        self,
        space: SearchSpace,
        levels: Sequence[int],
        *,
        decompose: bool = True,
        scales: Scales | None = None,
        learn_scales: bool = True,
    ) -> None:
        self._fixed = space.fixed
        self._levels = tuple(levels)
        self._decompose = decompose
        self._scales = scales or Scales()
        self._learn_scales = learn_scales
        self._all = Likeness(space)
        # A switch brings all that hangs on it along: each of these for itself is expected to matter less.
        self._importance = np.array([1.0 if p.when is None else self._scales.conditional for p in space.parameters])
        self._octaves = np.log2(np.array(self._levels, dtype=np.float64))
        apart = self._octaves[:, None] - self._octaves[None, :]
        self._near = np.exp(-0.5 * (apart / self._scales.octaves) ** 2)
        drafting = Likeness(space, [n for n in self._all.names if n.startswith(DRAFTING)] if decompose else ())
        self._accept = AcceptLength(drafting, space.fixed, self._scales.accept_factor, self._scales.accept_noise)
        self._known: dict[Configuration, tuple[tuple[float, ...], tuple[int, ...]]] = {}
        self._kinds: dict[tuple[float, Batch], int] = {}
        self._pairs: Floats = np.zeros((0, 0))
        self._observed: list[Configuration] = []
        self._seen: Floats = np.zeros((0, len(self._levels)))
        self._whole: Floats = np.zeros((0, 0))
        self._solution: tuple[Floats, Floats] | None = None
        self._targets: Floats = np.zeros(0)
        self._mean = 0.0
        self.noisier = self.stronger = 1.0
        self.launch_covariance: Floats = np.zeros((len(self._levels), len(self._levels)))

    def fit(self, observations: Sequence[Observation]) -> None:
        """Needs one observation at least, each with every level."""
        self._observed = [observation.configuration for observation in observations]
        self._seen = np.log(np.array([[o.throughput[level] for level in self._levels] for o in observations]))
        accept = [_mean_log(o.accept) if self._decompose else None for o in observations]
        self._accept.fit(self._observed, accept)
        accepted = np.array([[value or 0.0] for value in accept])
        cycle = self._flow(self._observed) + accepted - self._seen
        self._mean = float(cycle.mean())
        self._targets = targets = cycle.reshape(-1) - self._mean
        law, factors = self._parts(self._observed, self._observed)
        noise = self._noise(observations)
        assumed = np.array([level in o.assumed for o in observations for level in self._levels])
        seen = np.flatnonzero(~assumed)[-_SEEN_IN * len(self._levels) :]
        square = np.ix_(seen, seen)
        if self._learn_scales:
            self.noisier, self.stronger = _likeliest(law[square], factors[square], noise[square], targets[seen])
        self.launch_covariance = self.noisier * self._of_a_launch(noise)
        kernel = law + self.stronger * factors
        self._whole = kernel + self.noisier * noise + np.diag(_ASSUMED * assumed)
        self._solution = None

    def evidence(self) -> float:
        """Logarithm of the likelihood of the cycle times that were fitted, up to a constant: by it, fits of the same
        observations under other scales are compared."""
        factor = np.linalg.cholesky(self._whole)
        whitened = np.linalg.solve(factor, self._targets)
        return -0.5 * float(whitened @ whitened) - float(np.log(np.diag(factor)).sum())

    def predict_mean(self, configurations: Sequence[Configuration]) -> Floats:
        """[configurations, levels], log of tokens per second."""
        cycle = (self._kernel(configurations, self._observed) @ self._weights).reshape(len(configurations), -1)
        accepted, _variance = self._accept.predict(configurations)
        return np.asarray(self._flow(configurations) + accepted[:, None] - cycle - self._mean)

    def predict(self, configurations: Sequence[Configuration]) -> Prediction:
        count, levels = len(configurations), len(self._levels)
        cross = self._kernel(configurations, self._observed)
        cycle = (cross @ self._weights).reshape(count, levels) + self._mean
        accepted, accept_variance = self._accept.predict(configurations)
        rows = cross.reshape(count, levels, -1)
        explained = np.einsum("nir,njr->nij", rows @ self._inverse, rows)
        covariance = self._own(configurations) - explained + accept_variance[:, None, None]
        return Prediction(self._flow(configurations) + accepted[:, None] - cycle, covariance)

    def joint(self, configurations: Sequence[Configuration]) -> tuple[Floats, Floats]:
        """As `predict`, but the covariance is between the configurations too: mean [configurations, levels],
        covariance [configurations, levels, configurations, levels]. What two of them share leaves their difference."""
        count, levels = len(configurations), len(self._levels)
        cross = self._kernel(configurations, self._observed)
        cycle = (cross @ self._weights).reshape(count, levels) + self._mean
        covariance = self._kernel(configurations, configurations) - cross @ self._inverse @ cross.T
        accepted, accept_covariance = self._accept.joint(configurations)
        mean = np.asarray(self._flow(configurations) + accepted[:, None] - cycle)
        shape = count, levels, count, levels
        return mean, np.asarray(covariance.reshape(shape) + accept_covariance[:, None, :, None])

    def left_out(self) -> Floats:
        """[trials, levels], log of tokens per second as the other configurations foretell it: each trial is left out
        together with all others of its configuration, which would give it away."""
        count, levels = self._seen.shape
        groups = self._groups()
        errors = np.zeros((count, levels))
        for group in groups:
            rows = [index * levels + level for index in group for level in range(levels)]
            found = np.linalg.solve(self._inverse[np.ix_(rows, rows)], self._weights[rows])
            errors[group] = found.reshape(len(group), levels)
        accept = self._accept.left_out(groups, count)
        return np.asarray(self._seen + errors - accept[:, None])

    def left_out_covariance(self) -> Floats:
        """[trials, levels, levels]: of the errors of `left_out`, as the model has them; the trials' noise is in it."""
        count, levels = self._seen.shape
        found = np.zeros((count, levels, levels))
        for group in self._groups():
            rows = [index * levels + level for index in group for level in range(levels)]
            whole = np.linalg.inv(self._inverse[np.ix_(rows, rows)]).reshape(len(group), levels, len(group), levels)
            for place, index in enumerate(group):
                found[index] = whole[place, :, place, :]
        return np.asarray(found + self._accept.left_out_variance(self._groups(), count)[:, None, None])

    def _groups(self) -> list[list[int]]:
        """The trials of each configuration."""
        groups: dict[Configuration, list[int]] = {}
        for index, configuration in enumerate(self._observed):
            groups.setdefault(configuration, []).append(index)
        return list(groups.values())

    @property
    def _inverse(self) -> Floats:
        return self._solved()[0]

    @property
    def _weights(self) -> Floats:
        return self._solved()[1]

    def _solved(self) -> tuple[Floats, Floats]:
        """Once for each fit, when it is first asked for: of many fits that are compared, few are."""
        if self._solution is None:
            inverse = np.asarray(np.linalg.inv(self._whole), dtype=np.float64)
            self._solution = inverse, inverse @ self._targets
        return self._solution

    def _noise(self, observations: Sequence[Observation]) -> Floats:
        """Covariance of what two launches of one configuration would differ by; a trial's own interval counts."""
        count, levels = self._seen.shape
        least = self._scales.noise
        own = [[max(least, o.deviation.get(level, 0.0) ** 2) for level in self._levels] for o in observations]
        shared = np.kron(np.eye(count), np.ones((levels, levels))) * self._scales.trial_noise
        return np.asarray(shared + np.diag(np.array(own).reshape(-1)))

    def _of_a_launch(self, noise: Floats) -> Floats:
        """[levels, levels]: the median trial's."""
        count, levels = self._seen.shape
        own = np.diag(noise).reshape(count, levels) - self._scales.trial_noise
        return np.asarray(self._scales.trial_noise + np.diag(np.median(own, axis=0)))

    def _kernel(self, left: Sequence[Configuration], right: Sequence[Configuration]) -> Floats:
        """[left x levels, right x levels]."""
        law, factors = self._parts(left, right)
        return law + self.stronger * factors

    def _parts(self, left: Sequence[Configuration], right: Sequence[Configuration]) -> tuple[Floats, Floats]:
        """The kernel in two: what level and law give, and what the factors add."""
        scales, near = self._scales, self._near
        alike = self._all.alike(self._all.code(left), self._all.code(right))
        pairs, single = main_and_pairs(alike)
        main = np.tensordot(self._importance, alike, axes=1) * scales.factor
        local = 0.6 * main + scales.pair * pairs * len(alike) / 2 + scales.single * single
        factors = 0.4 * main[:, None, :, None] + local[:, None, :, None] * near[None, :, None, :]
        law = scales.level * near[None, :, None, :] + self._by_law(left, right)
        shape = len(left) * len(near), len(right) * len(near)
        return np.asarray(law.reshape(shape)), np.asarray(factors.reshape(shape))

    def _own(self, configurations: Sequence[Configuration]) -> Floats:
        """Prior covariance of the levels of each configuration."""
        scales, near = self._scales, self._near
        count = len(self._all.names)
        main = float(self._importance.sum()) * scales.factor
        factors = 0.4 * main + (0.6 * main + scales.pair * count / 2 + scales.single) * near
        kinds, table = self._laws(configurations)[1], self._table()
        law = table[kinds[:, :, None], kinds[:, None, :]] + scales.level * near
        return np.asarray(law + self.stronger * factors)

    def _by_law(self, left: Sequence[Configuration], right: Sequence[Configuration]) -> Floats:
        first, second = self._laws(left)[1], self._laws(right)[1]
        return np.asarray(self._table()[first[:, :, None, None], second[None, None, :, :]])

    def _table(self) -> Floats:
        """Prior covariance of any two kinds of batch: by tokens verified together, on the scale of octaves, and by
        running in a captured graph. There are few kinds: each pair of them is computed once."""
        if len(self._pairs) != len(self._kinds):
            work = np.array([kind[0] for kind in self._kinds])
            batches = np.array([kind[1] for kind in self._kinds])
            close = np.exp(-0.5 * ((work[:, None] - work[None, :]) / self._scales.octaves) ** 2)
            same = batches[:, None] == batches[None, :]
            self._pairs = self._scales.work * close + self._scales.graph * same * (0.5 + 0.5 * close)
        return self._pairs

    def _flow(self, configurations: Sequence[Configuration]) -> Floats:
        """[configurations, levels], log of the requests in flight."""
        return self._laws(configurations)[0]

    def _laws(self, configurations: Sequence[Configuration]) -> tuple[Floats, Codes]:
        """[configurations, levels]: log of the requests in flight, and the number of the kind of batch."""
        for configuration in configurations:
            if configuration not in self._known:
                self._known[configuration] = self._law(configuration)
        found = [self._known[configuration] for configuration in configurations]
        shape = (len(found), len(self._levels))
        flows = np.array([flow for flow, _kinds in found], dtype=np.float64).reshape(shape)
        return flows, np.array([kinds for _flow, kinds in found], dtype=np.int64).reshape(shape)

    def _law(self, configuration: Configuration) -> tuple[tuple[float, ...], tuple[int, ...]]:
        if self._decompose:
            values: dict[str, Value] = {**self._fixed, **configuration}
            flows = [in_flight(values, level) for level in self._levels]
            batches = [batch(values, level) for level in self._levels]
            wide = width(values)
        else:
            flows, batches, wide = [float(level) for level in self._levels], [UNKNOWN] * len(self._levels), 1.0
        kinds = [(math.log2(flow * wide), kind) for flow, kind in zip(flows, batches, strict=True)]
        numbers = tuple(self._kinds.setdefault(kind, len(self._kinds)) for kind in kinds)
        return tuple(math.log(flow) for flow in flows), numbers


def _likeliest(law: Floats, factors: Floats, noise: Floats, targets: Floats) -> tuple[float, float]:
    """The multiples of noise and factors that make the data most likely, one after the other."""

    def likelihood(noisier: float, stronger: float) -> float:
        factor = np.linalg.cholesky(law + stronger * factors + noisier * noise)
        whitened = np.linalg.solve(factor, targets)
        steps = _AGAINST_NOISE * abs(math.log(noisier, 4)) + _AGAINST_STRENGTH * math.log2(stronger) ** 2
        return -0.5 * float(whitened @ whitened) - float(np.log(np.diag(factor)).sum()) - steps

    noisier = max(NOISIER, key=lambda times: likelihood(times, 1.0))
    stronger = max(STRONGER, key=lambda times: likelihood(noisier, times))
    return max(NOISIER, key=lambda times: likelihood(times, stronger)), stronger


def _mean_log(accept: Mapping[Level, float]) -> float | None:
    """None where nothing is drafted: every cycle then gives one token."""
    return float(np.mean(np.log(list(accept.values())))) if accept else None
