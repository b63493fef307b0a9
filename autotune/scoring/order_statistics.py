"""The interval of a percentile, from the order of the samples alone.

The number of n independent samples below the true q-quantile is binomial (n, q), whatever the distribution is. So the
l-th smallest sample lies above that quantile with probability P(Bin < l), the u-th below it with P(Bin >= u), and the
ranks at which each is at most 2.5 % hold it 95 times in 100. Where n is small there is no such rank: of fewer than 72
samples even the largest may lie below the 95th percentile, and of fewer than 368 below the 99th.
"""

from __future__ import annotations

import functools
import math

from autotune.domain.measurement import Interval
from autotune.scoring.window import Floats

_TAIL = 0.025
_NEARLY_NORMAL = 20_000
_Z = 1.959964  # 97.5 % of the normal distribution


def percentile_interval(ordered: Floats, quantile: float, independent: int) -> Interval:
    """`ordered`: samples from the smallest to the largest; `quantile`: 0 to 1, both excluded.

    `independent`: how many samples count, at most their number. Samples of one request resemble each other (all its
    ITLs do), so that requests are what is counted; the ranks are then shares of the whole.
    """
    count = min(independent, len(ordered))
    if count < 1:
        return None, None
    low, high = ranks(count, quantile)
    each = len(ordered) / count
    return (
        None if low is None else float(ordered[max(0, math.floor(low * each) - 1)]),
        None if high is None else float(ordered[min(len(ordered), math.ceil(high * each)) - 1]),
    )


@functools.lru_cache(maxsize=4096)
def ranks(count: int, quantile: float) -> tuple[int | None, int | None]:
    """The largest rank l with P(Bin < l) <= 2.5 %, and the smallest u with P(Bin >= u) <= 2.5 %; from 1 to `count`."""
    if count > _NEARLY_NORMAL:
        half = _Z * math.sqrt(count * quantile * (1 - quantile))
        return math.floor(count * quantile - half), math.ceil(count * quantile + half) + 1
    below, low, high = 0.0, None, None
    odds = math.log(quantile) - math.log1p(-quantile)
    log_mass = count * math.log1p(-quantile)
    for successes in range(count):
        below += math.exp(log_mass)  # P(Bin <= successes)
        rank = successes + 1
        if below <= _TAIL:
            low = rank
        if 1.0 - below <= _TAIL:
            high = rank
            break
        log_mass += odds + math.log((count - successes) / rank)
    return low, high
