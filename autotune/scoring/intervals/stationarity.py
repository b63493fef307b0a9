"""When warm-up is over: where the series of a level's throughput stops being different from what comes later.

Two steps, since either alone does badly. MSER (White 1997, doi:10.1177/003754979706900601; found best of 44 methods by
Hoad, Robinson and Davies 2010, doi:10.1057/jos.2009.14) finds where to cut: where the standard error of what remains
is smallest. But it cuts something off nearly every series, and a cut that chance placed makes the interval of the rest
too narrow. So the part before it must also differ from the later half of the window by more than the noise of that
half explains (the comparison of Geweke 1992, with the noise's correlation treated as in correlation.py): one steady
level in a hundred is cut for nothing.

A cut at the half says that the series was changing all along: then the level is not steady yet.
"""

from __future__ import annotations

import numpy as np

from autotune.scoring.intervals.correlation import LENGTHS, half_width
from autotune.scoring.window import Floats

FALSE_ALARMS = 0.01
LEAST_PARTS = 12
"""A shorter series has no halves that say anything."""


def warm_up_parts(rates: Floats, length_s: float) -> int:
    """How many parts at the beginning of the series are warm-up: 0 for a steady one, half of them at most."""
    count = len(rates)
    if count < LEAST_PARTS:
        return 0
    cut = _mser(rates)
    if cut == 0:
        return 0
    late = rates[count // 2 :]
    if len(late) not in LENGTHS:
        return 0
    apart = abs(float(rates[:cut].mean() - late.mean()))
    noise = half_width(late, length_s / 2, missed=FALSE_ALARMS)
    return cut if apart > noise * np.sqrt(1.0 + len(late) / cut) else 0


def _mser(rates: Floats) -> int:
    """The cut after which the squared standard error of the mean of the rest is smallest."""
    count = len(rates)
    rests = [rates[cut:] for cut in range(count // 2 + 1)]
    return int(np.argmin([float(((rest - rest.mean()) ** 2).sum()) / len(rest) ** 2 for rest in rests]))
