"""Quantiles of Student's t, for any positive number of degrees of freedom (Welch's are not whole)."""

from __future__ import annotations

import functools
import math
from statistics import NormalDist

import numpy as np

_LEVEL = 0.95
_NEARLY_NORMAL = 300.0  # from here on the expansion below is exact to six digits
_POINTS = 513  # of the quadrature; odd, as Simpson's rule wants it


@functools.lru_cache(maxsize=1024)
def t_quantile(freedom: float, level: float = _LEVEL) -> float:
    """The t that a variable exceeds in magnitude with probability 1 - `level`. `math.inf` gives the normal 1.96.

    Raises ValueError unless `freedom` is positive.
    """
    if not freedom > 0:
        raise ValueError(f"degrees of freedom must be positive, but got {freedom}")
    if freedom > _NEARLY_NORMAL:
        z = NormalDist().inv_cdf(0.5 + level / 2)
        return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        if _central_probability(middle, freedom) < level:
            low = middle
        else:
            high = middle
    return math.sqrt(freedom) * math.tan((low + high) / 2)


def exceedance(t: float, freedom: float) -> float:
    """Probability that a variable of Student's t exceeds `t` in magnitude: the two-sided p-value."""
    if freedom > _NEARLY_NORMAL:
        return math.erfc(abs(t) / math.sqrt(2.0))
    return max(0.0, 1.0 - _central_probability(math.atan(abs(t) / math.sqrt(freedom)), freedom))


def _central_probability(angle: float, freedom: float) -> float:
    """P(|T| <= sqrt(freedom) tan(angle)).

    With t = sqrt(freedom) tan(theta) the density of t becomes cos(theta) ** (freedom - 1) up to a constant: smooth
    and bounded for freedom >= 1, so that Simpson's rule on a fixed grid is enough.
    """
    theta = np.linspace(0.0, angle, _POINTS)
    weights = np.full(_POINTS, 2.0)
    weights[1::2] = 4.0
    weights[0] = weights[-1] = 1.0
    area = float(weights @ np.cos(theta) ** (freedom - 1)) * angle / (3 * (_POINTS - 1))
    constant = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(math.pi)
    return 2 * constant * area
