"""The accept length by the settings that make drafts: a chain's law, and what the records say beyond it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from autotune.domain.configuration import Configuration, Value
from autotune.study.model.likeness import Codes, Floats, Likeness, main_and_pairs
from autotune.study.model.serving_law import ACCEPTED_DEVIATION, ALGORITHM, chain_length, depth


class AcceptLength:
    """A Gaussian process of the logarithm. Its prior is the geometric law of a chain with an unknown chance to accept
    one draft, half of that chance being shared by all algorithms; what departs from the law is learnt factor by
    factor. Drafting that gave no drafts in a trial has 1, for certain.

    `factor`: prior variance of a factor's departure from the law; `noise`: of one trial's accept length.
    """

    def __init__(self, likeness: Likeness, fixed: Mapping[str, Value], factor: float, noise: float) -> None:
        self._likeness = likeness
        self._fixed = fixed
        self._factor, self._noise = factor, noise
        self._plain: set[tuple[int, ...]] = set()
        self._rows: list[int] = []
        self._codes: Codes = likeness.code([])
        self._slopes: Floats = np.zeros(0)
        self._known: dict[Configuration, tuple[float, float, int]] = {}
        self._numbers: dict[Value, int] = {}
        self._algorithms = np.zeros(0)
        self._weights: Floats = np.zeros(0)
        self._inverse: Floats = np.zeros((0, 0))

    def fit(self, configurations: Sequence[Configuration], accept: Sequence[float | None]) -> None:
        """`accept`: the logarithm for each trial, None where nothing was drafted."""
        codes = self._likeness.code(configurations)
        self._rows = [index for index, value in enumerate(accept) if value is not None]
        drafted = {tuple(codes[index].tolist()) for index in self._rows}
        self._plain = {tuple(row) for row, value in zip(codes.tolist(), accept, strict=True) if value is None} - drafted
        chosen = [configurations[index] for index in self._rows]
        self._codes = codes[self._rows]
        law, self._slopes, self._algorithms = self._law(chosen)
        seen = np.array([value for value in accept if value is not None], dtype=np.float64)
        kernel = self._kernel(self._codes, self._slopes, self._algorithms)
        self._inverse = np.asarray(np.linalg.inv(kernel + self._noise * np.eye(len(seen))), dtype=np.float64)
        self._weights = self._inverse @ (seen - law)

    def predict(self, configurations: Sequence[Configuration]) -> tuple[Floats, Floats]:
        """Mean and variance of the logarithm."""
        codes = self._likeness.code(configurations)
        mean, slopes, algorithms = self._law(configurations)
        factors = len(self._likeness.names)
        variance = self._factor * (1 + 1.5 * factors) + (ACCEPTED_DEVIATION * slopes) ** 2
        if self._rows:
            cross = self._kernel(codes, slopes, algorithms)
            mean = mean + cross @ self._weights
            variance = np.maximum(variance - np.einsum("nr,nr->n", cross @ self._inverse, cross), 1e-9)
        if self._plain:
            plain = np.array([tuple(row) in self._plain for row in codes.tolist()])
            mean, variance = np.where(plain, 0.0, mean), np.where(plain, 0.0, variance)
        return np.maximum(mean, 0.0), variance

    def joint(self, configurations: Sequence[Configuration]) -> tuple[Floats, Floats]:
        """Mean and covariance [configurations, configurations] of the logarithm."""
        codes = self._likeness.code(configurations)
        mean, slopes, algorithms = self._law(configurations)
        covariance = self._between((codes, slopes, algorithms), (codes, slopes, algorithms))
        if self._rows:
            cross = self._kernel(codes, slopes, algorithms)
            mean = mean + cross @ self._weights
            covariance = covariance - cross @ self._inverse @ cross.T
        plain = np.array([tuple(row) in self._plain for row in codes.tolist()], dtype=bool)
        covariance[plain, :] = 0.0
        covariance[:, plain] = 0.0
        return np.maximum(np.where(plain, 0.0, mean), 0.0), covariance

    def left_out(self, groups: Sequence[Sequence[int]], count: int) -> Floats:
        """Error (seen less foretold) of each of `count` trials, its group left out. 0 where nothing was drafted."""
        errors = np.zeros(count)
        for rows in self._drafting(groups):
            found = np.linalg.solve(self._inverse[np.ix_(rows, rows)], self._weights[rows])
            errors[[self._rows[row] for row in rows]] = found
        return errors

    def left_out_variance(self, groups: Sequence[Sequence[int]], count: int) -> Floats:
        """Of the errors of `left_out`."""
        variances = np.zeros(count)
        for rows in self._drafting(groups):
            found = np.diag(np.linalg.inv(self._inverse[np.ix_(rows, rows)]))
            variances[[self._rows[row] for row in rows]] = found
        return variances

    def _drafting(self, groups: Sequence[Sequence[int]]) -> list[list[int]]:
        """Of each group the rows of the fit, those without any left out."""
        place = {row: index for index, row in enumerate(self._rows)}
        found = [[place[row] for row in group if row in place] for group in groups]
        return [rows for rows in found if rows]

    def _law(self, configurations: Sequence[Configuration]) -> tuple[Floats, Floats, Floats]:
        """The law's logarithm, its slope by the chance of one draft, and a number for the algorithm."""
        for configuration in configurations:
            if configuration not in self._known:
                values = {**self._fixed, **configuration}
                number = self._numbers.setdefault(values.get(ALGORITHM), len(self._numbers))
                self._known[configuration] = (*chain_length(depth(values)), number)
        found = np.array([self._known[configuration] for configuration in configurations], dtype=np.float64)
        found = found.reshape(len(configurations), 3)
        return found[:, 0], found[:, 1], found[:, 2]

    def _kernel(self, left: Codes, slopes: Floats, algorithms: Floats) -> Floats:
        """[left, trials with drafts]."""
        return self._between((left, slopes, algorithms), (self._codes, self._slopes, self._algorithms))

    def _between(self, left: tuple[Codes, Floats, Floats], right: tuple[Codes, Floats, Floats]) -> Floats:
        """Prior covariance. Of each side: codes, slopes of the law, numbers of the algorithms."""
        alike = self._likeness.alike(left[0], right[0])
        pairs, _single = main_and_pairs(alike)
        departure = self._factor * (1 + alike.sum(axis=0) + pairs * len(alike) / 2)
        chance = 0.5 + 0.5 * (left[2][:, None] == right[2][None, :])
        return np.asarray(departure + ACCEPTED_DEVIATION**2 * chance * np.outer(left[1], right[1]))
