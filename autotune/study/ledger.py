"""What a study has tried, and what it may try: pure bookkeeping over the recorded results."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from autotune.domain.configuration import Configuration
from autotune.domain.space import SearchSpace
from autotune.domain.trial import TrialResult, TrialState

Rank = tuple[float, float]
"""(violation of the SLO, negated; score), compared in that order: what keeps to the SLO is above all that breaks it,
and of what breaks it the least violating is above. Without an SLO the first is 0 everywhere."""

MAX_FAILURES = 2
"""A configuration that failed by circumstance is tried once more, then let be."""


@dataclass(frozen=True)
class Validity:
    """The engine's rules. `problems`: why a configuration cannot be launched, empty if nothing is known against it.
    `canonical`: the same configuration for all spellings of one server."""

    problems: Callable[[Configuration], tuple[str, ...]]
    canonical: Callable[[Configuration], Configuration]


class Ledger:
    """Results by identity: the canonical form of a configuration after `point` has completed it."""

    def __init__(self, space: SearchSpace, validity: Validity, results: Iterable[TrialResult] = ()) -> None:
        self.space = space
        self._validity = validity
        self._results: list[TrialResult] = []
        self._ranks: dict[Configuration, Rank] = {}
        self._settled: set[Configuration] = set()
        self._failures: dict[Configuration, int] = {}
        self._legal: dict[Configuration, bool] = {}
        self._identities: dict[Configuration, Configuration] = {}
        self._best: TrialResult | None = None
        for result in results:
            self.add(result)

    @property
    def results(self) -> tuple[TrialResult, ...]:
        return tuple(self._results)

    @property
    def best(self) -> TrialResult | None:
        """Highest rank; of equals the earlier."""
        return self._best

    def add(self, result: TrialResult) -> None:
        self._results.append(result)
        identity = self.identity(result.configuration)
        if result.state is TrialState.FAILED:
            self._failures[identity] = self._failures.get(identity, 0) + 1
        elif result.state is not TrialState.INTERRUPTED:
            self._settled.add(identity)
        rank = rank_of(result)
        if rank is None:
            return
        # The first measurement of a configuration stands: the greedy pass is replayed on resume, and a replicate
        # that changed a score would send the replay down another path.
        self._ranks.setdefault(identity, rank)
        best = None if self._best is None else rank_of(self._best)
        if best is None or rank > best:
            self._best = result

    def close(self, configurations: Iterable[Configuration]) -> None:
        """These are not to be evaluated, though nothing is recorded of them here."""
        self._settled.update(self.identity(configuration) for configuration in configurations)

    def revise(self, results: Iterable[TrialResult]) -> None:
        """The same results with figures known better. What `score` and `rank` say stays as it was told first."""
        self._results = list(results)
        ranked = [(rank, -place, r) for place, r in enumerate(self._results) if (rank := rank_of(r)) is not None]
        self._best = max(ranked, key=lambda item: item[:2])[2] if ranked else None

    def point(self, configuration: Configuration) -> Configuration:
        """The configuration as a point of the space: what is inactive dropped, and what is active but not named set
        to `unset` where that is one of its values (and no fixed argument would step in)."""
        values = dict(self.space.normalise(configuration))
        for parameter in self.space.parameters:
            name = parameter.name
            unnamed = name not in values and name not in self.space.fixed
            if unnamed and None in parameter.domain and self.space.is_active(parameter, values):
                values[name] = None
        return Configuration(values)

    def identity(self, configuration: Configuration) -> Configuration:
        if configuration not in self._identities:
            self._identities[configuration] = self._validity.canonical(self.point(configuration))
        return self._identities[configuration]

    def score(self, configuration: Configuration) -> float | None:
        """Of its first complete trial; None if it has none."""
        rank = self.rank(configuration)
        return None if rank is None else rank[1]

    def rank(self, configuration: Configuration) -> Rank | None:
        """Of its first complete trial; None if it has none."""
        return self._ranks.get(self.identity(configuration))

    def is_open(self, configuration: Configuration) -> bool:
        """It may still be evaluated: never seen, interrupted, or failed by circumstance once."""
        identity = self.identity(configuration)
        return identity not in self._settled and self._failures.get(identity, 0) < MAX_FAILURES

    def is_legal(self, configuration: Configuration) -> bool:
        if configuration not in self._legal:
            self._legal[configuration] = not self.faults(configuration)
        return self._legal[configuration]

    def faults(self, configuration: Configuration) -> tuple[str, ...]:
        """Why it must not be launched: the constraints that it breaks, else the engine's problems with it."""
        broken = self.space.broken(configuration)
        if broken:
            return tuple(f"breaks the constraint `{constraint}`" for constraint in broken)
        return self._validity.problems(configuration)


def score_of(result: TrialResult) -> float | None:
    """None unless the trial is complete and has a score."""
    if result.state is not TrialState.COMPLETE or result.score is None:
        return None
    return result.score.estimate.value


def rank_of(result: TrialResult) -> Rank | None:
    """None unless the trial is complete and has a score."""
    value = score_of(result)
    return None if value is None else (-result.violation, value)
