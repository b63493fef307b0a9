"""The uncertainty of the mean of a series whose values hang together, without knowing for how long they do.

A node's speed wanders: clocks, power, memory traffic of others. Values a second apart resemble each other, and a mean
over a window of twenty seconds is then far less certain than its many values suggest. How long they hang together is
not known beforehand and shows badly in a short series. Batch means need batches much longer than that, and short
windows have none. So no one law is picked: the series is held against many, from white noise to noise that lasts
longer than the window, each counts by how likely it makes the series, and the interval is that of the mixture.

A law: a share q of the variance is exponentially correlated over a time tau, the rest is white. Given the law, the
likelihood with the mean and the scale integrated out is the restricted one (Harville 1974, doi:10.2307/2334370), and
the mean has a Student's t of n - 1 degrees of freedom. Before the series is seen, every tau up to USUAL_S is as likely
on a logarithmic scale, and a longer one less, as (USUAL_S / tau)^2: a node that wanders over seconds is taken for
granted, one that wanders over minutes must show it.

A part of the variance may be known to have other causes: white noise, and things that each last for a known time, and
so make a correlation that falls to zero over that time in a straight line. Every law then has these beside its own.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autotune.scoring.student import t_quantile

Floats = NDArray[np.float64]

USUAL_S = 10.0
LENGTHS = (24, 12, 6)
"""How many values a series may have, longest first."""

# In lengths of the series. The longest reach USUAL_S in a window of 2.5 s.
_TAUS = (0.016, 0.03, 0.06, 0.12, 0.25, 0.5, 1.0, 1.6, 2.5, 4.0)
_LONGEST_ALONE = 1.6
"""Where nothing is known of other causes. What the requests of one slot differ by looks like a wander of such a length,
and an interval that allowed for longer ones was wider than its figure on a server that is loud."""
_SHARES = (0.1, 0.3, 0.5, 0.7, 0.85, 1.0)
_MISSED = 0.05
_NO_WEIGHT = 1e-5
_HALVINGS = 24
_JITTER = 1e-7  # keeps the matrices of the longest correlations away from singular


@dataclass(frozen=True)
class Known:
    """Shares of the variance (0 to 1 together): `white`, and `lasting` from things that last `lasts_s` each."""

    white: float
    lasting: float
    lasts_s: float


def half_width(series: Floats, length_s: float, *, missed: float = _MISSED, known: Known | None = None) -> float:
    """Half of the interval that misses the true mean with probability `missed`. `length_s`: seconds that the series
    spans. Its length is one of LENGTHS."""
    errors, weights = _weighed(series, length_s, known)
    if not errors.any():
        return 0.0
    normal = math.sqrt(2.0) * t_quantile(len(series) - 1) / t_quantile(math.inf)  # the tails of t, near enough
    mixture = [(float(weight), normal * float(error)) for weight, error in zip(weights, errors, strict=True)]
    low, high = 0.0, 20.0 * float(errors.max())
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        outside = sum(weight * math.erfc(middle / scale) for weight, scale in mixture)
        low, high = (middle, high) if outside > missed else (low, middle)
    return high


@functools.cache
def _laws(count: int) -> tuple[Floats, Floats]:
    """The tau of each law (0 for white noise), and its correlation matrix (laws x count x count)."""
    places = np.arange(count)
    apart, white = np.abs(places[:, None] - places), np.eye(count)
    taus, matrices = [0.0], [white]
    for tau in _TAUS:
        correlated = np.exp(-apart / (tau * count))
        taus += [tau] * len(_SHARES)
        matrices += [(1.0 - share) * white + share * correlated for share in _SHARES]
    return np.asarray(taus), np.asarray(matrices) + _JITTER * white


def _weighed(series: Floats, length_s: float, known: Known | None) -> tuple[Floats, Floats]:
    """The standard error of the mean under each law, and the law's weight; laws without weight are left out."""
    count, spread = len(series), float(series.std())
    if not spread > 0:
        return np.zeros(1), np.ones(1)
    taus, matrices = _laws(count)
    if known is None:
        short = taus <= _LONGEST_ALONE
        taus, matrices = taus[short], matrices[short]
    else:
        places, white = np.arange(count), np.eye(count)
        apart_s = np.abs(places[:, None] - places) * (length_s / count)
        falling = np.maximum(0.0, 1.0 - apart_s / known.lasts_s) + _JITTER * white
        matrices = (1.0 - known.white - known.lasting) * matrices + known.white * white + known.lasting * falling
    sides = np.empty((len(matrices), count, 2))
    sides[:, :, 0], sides[:, :, 1] = 1.0, (series - series.mean()) / spread
    factors = np.linalg.cholesky(matrices)
    whitened = np.linalg.solve(factors, sides)
    ones, values = whitened[:, :, 0], whitened[:, :, 1]
    information = (ones**2).sum(axis=1)
    means = (ones * values).sum(axis=1) / information
    squares = ((values - means[:, None] * ones) ** 2).sum(axis=1)
    determinants = 2.0 * np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1) + np.log(information)
    doubt = 2.0 * np.log(np.minimum(1.0, USUAL_S / np.maximum(taus * length_s, USUAL_S)))
    likelihoods = doubt - determinants / 2 - (count - 1) / 2 * np.log(squares)
    errors = spread * np.sqrt(squares / (count - 1) * matrices.sum(axis=(1, 2))) / count
    weights = np.exp(likelihoods - likelihoods.max())
    heavy = weights > _NO_WEIGHT
    return errors[heavy], weights[heavy] / weights[heavy].sum()
