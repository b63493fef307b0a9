"""What a trial costs in node seconds: its start by what it changes, its measuring, or its death. Learnt. Pure.

A start is a linear function of what is known to cost: being the first of the study (nothing is in any cache), each
captured batch size, a draft model, and each first start with a value whose kernels are compiled or fetched then. Its
coefficients begin at plausible values and follow the recorded start-up times (a Bayesian linear regression).
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

import numpy as np

from autotune.domain.configuration import Configuration, Value
from autotune.domain.space import SearchSpace
from autotune.domain.study import ENGINE_PYTHON
from autotune.domain.trial import TrialResult, TrialState
from autotune.study.model.likeness import Floats
from autotune.study.model.serving_law import ALGORITHM, graphs

COMPILED: Mapping[str, float] = {
    ENGINE_PYTHON: 90.0,
    "backend": 45.0,
    "quantization": 45.0,
    "compile": 45.0,
    "dtype": 10.0,
}
"""Words in the name of a parameter whose values bring kernels of their own; what a first start with one is expected to
cost, seconds."""
_COLD, _GRAPH, _DRAFT = 20.0, 0.8, 10.0
_START = 60.0
_WARM_AGAIN = 1.0
"""Prior standard deviation of a coefficient, as a multiple of itself."""
_SPREAD = 0.05
"""Starts of one kind differ by so much of their length."""
_DIES_AFTER = 0.6
"""Share of a start that a death costs, as long as none was seen."""


class NodeTime:
    def __init__(self, space: SearchSpace) -> None:
        self._fixed = space.fixed
        self._compiling = [(p.name, cost) for p in space.parameters if (cost := _first_use(p.name)) is not None]
        self._started: set[tuple[str, Value]] = set()
        self._any = False
        self._coefficients = self._prior(_START)
        self._failure: float | None = None
        self._stretch = 1.0

    def learn(self, results: Sequence[TrialResult], expected: Sequence[float | None]) -> None:
        """`results` in the order in which they ran; `expected`: seconds that the plan's requests would take at the
        measured rates, None for a trial without all of its levels."""
        self._started, self._any = set(), False
        rows, seconds, stretches = [], [], []
        for result, measuring in zip(results, expected, strict=True):
            start = result.startup_seconds
            if start is None:
                continue
            rows.append(self._features(result.configuration))
            seconds.append(start)
            self._any = True
            self._started.update(self._values(result.configuration))
            if measuring and result.state is TrialState.COMPLETE and result.node_seconds > start:
                stretches.append((result.node_seconds - start) / measuring)
        self._stretch = statistics.median(stretches) if stretches else 1.0
        self._coefficients = self._fitted(np.array(rows), np.array(seconds)) if rows else self._prior(_START)
        failures = [result.node_seconds for result in results if result.state is TrialState.INFEASIBLE]
        self._failure = statistics.median(failures) if failures else None

    def start(self, configurations: Sequence[Configuration]) -> Floats:
        """Seconds until each would serve, if it were the next."""
        rows = np.array([self._features(configuration) for configuration in configurations])
        least = 0.2 * float(self._coefficients[0])
        return np.maximum(rows.reshape(len(configurations), -1) @ self._coefficients, least)

    def trial(self, configurations: Sequence[Configuration], measuring: Floats, alive: Floats) -> Floats:
        """Expected seconds of each: `measuring` as the plan has it, `alive` the chance that it serves."""
        start = self.start(configurations)
        dying = _DIES_AFTER * start if self._failure is None else self._failure
        return np.asarray(alive * (start + self._stretch * measuring) + (1.0 - alive) * dying)

    def _values(self, configuration: Configuration) -> list[tuple[str, Value]]:
        return [(name, configuration.get(name)) for name, _cost in self._compiling]

    def _features(self, configuration: Configuration) -> list[float]:
        values = {**self._fixed, **configuration}
        new = [float(self._any and value not in self._started) for value in self._values(configuration)]
        return [1.0, float(not self._any), graphs(values), float(values.get(ALGORITHM) is not None), *new]

    def _prior(self, start: float) -> Floats:
        return np.array([start, _COLD, _GRAPH, _DRAFT, *(cost for _name, cost in self._compiling)])

    def _fitted(self, rows: Floats, seconds: Floats) -> Floats:
        """The length of a plain start is unknown by far; the rest is expected to be about as it is assumed."""
        prior = self._prior(float(np.median(seconds)))
        deviations = _WARM_AGAIN * prior
        precision = np.diag(deviations**-2.0)
        spread = max(1.0, _SPREAD * float(np.median(seconds)))
        whole = precision + rows.T @ rows / spread**2
        return np.asarray(prior + np.linalg.solve(whole, rows.T @ (seconds - rows @ prior)) / spread**2)


def _first_use(name: str) -> float | None:
    return next((cost for word, cost in COMPILED.items() if word in name), None)
