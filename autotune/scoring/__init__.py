"""Statistics: request records to measurements, measurements to scores and comparisons. See docs/measuring.md."""

from autotune.scoring.goodput import goodput, with_goodput
from autotune.scoring.guarding.guard_checks import Evidence, guarded
from autotune.scoring.level import measure
from autotune.scoring.objective import compare, score
from autotune.scoring.slo import judge
from autotune.scoring.trials.contexts import settings
from autotune.scoring.trials.effects import effects, evidence
from autotune.scoring.trials.interactions import interactions

__all__ = [
    "Evidence",
    "compare",
    "effects",
    "evidence",
    "goodput",
    "guarded",
    "interactions",
    "judge",
    "measure",
    "score",
    "settings",
    "with_goodput",
]
