"""The objective as the models see it: a smooth function of the logarithms of the levels' throughput."""

from __future__ import annotations

import numpy as np

from autotune.domain.measurement import Objective
from autotune.domain.workload import Workload
from autotune.study.model.likeness import Floats


class Goal:
    def __init__(self, workload: Workload, objective: Objective) -> None:
        weights = np.array([workload.concurrency[level] for level in workload.closed], dtype=np.float64)
        self._weights = weights / weights.sum()
        self._geometric = objective.metric == Objective.METRICS[1]

    def value(self, log_throughput: Floats) -> Floats:
        """[...] from [..., levels]: the logarithm of the objective, up to a constant."""
        if self._geometric:
            return np.asarray(log_throughput @ self._weights)
        return np.asarray(np.log(np.exp(log_throughput) @ self._weights))

    def shares(self, log_throughput: Floats) -> Floats:
        """[..., levels]: the derivative of the objective's logarithm by that of each level."""
        if self._geometric:
            return np.broadcast_to(self._weights, log_throughput.shape)
        parts = np.exp(log_throughput) * self._weights
        return np.asarray(parts / parts.sum(axis=-1, keepdims=True))
