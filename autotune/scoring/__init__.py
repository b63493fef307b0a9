"""Statistics: request records to measurements, measurements to scores and comparisons. See docs/measuring.md."""

from autotune.scoring.acceptance import acceptance_alarms
from autotune.scoring.goodput import goodput
from autotune.scoring.level import measure
from autotune.scoring.objective import compare, score

__all__ = ["acceptance_alarms", "compare", "goodput", "measure", "score"]
