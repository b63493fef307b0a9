"""Statistics: request records to measurements, measurements to scores and comparisons. See docs/measuring.md."""

from autotune.scoring.level import measure
from autotune.scoring.objective import compare, score

__all__ = ["compare", "measure", "score"]
