"""The order of proposals: baseline, known-good, greedy pass, sampler, and what is left when the sampler has no more."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from autotune.domain.configuration import Configuration
from autotune.domain.study import StudySpec
from autotune.domain.trial import Origin, TrialResult, TrialState
from autotune.errors import StudyStopped
from autotune.study.comparing.baseline_schedule import is_due
from autotune.study.comparing.corrections import Corrections
from autotune.study.earlier.warmth import hopeless, next_warm, warm_candidates
from autotune.study.greedy import next_greedy
from autotune.study.ledger import Ledger, score_of
from autotune.study.moves import Rules, every_configuration, neighbours, random_configuration
from autotune.study.proposer import Proposer
from autotune.study.strategies import GREEDY_FIRST

RANDOM_DRAWS = 300
ENUMERATED = 50_000
"""Assignments looked through before a space counts as too large to say that all of it was measured."""


@dataclass(frozen=True)
class Proposal:
    configuration: Configuration
    origin: Origin


@dataclass(frozen=True)
class Exhausted:
    """Nothing is left to propose; `reason` is a sentence for the operator."""

    reason: str


class Search:
    """What to evaluate next, given the results that the ledger holds."""

    def __init__(
        self, spec: StudySpec, ledger: Ledger, note: Callable[[str], None], corrections: Corrections | None = None
    ) -> None:
        """`note` is called once for each known-good configuration that must be left out. `corrections` know what the
        baseline's repeats say; without them it is measured once."""
        self._spec = spec
        self._corrections = corrections
        self._ledger = ledger
        self._rng = random.Random(spec.seed + len(ledger.results))
        self._known_good: list[Configuration] = []
        for configuration in spec.known_good:
            if faults := ledger.faults(configuration):
                note(f"known-good configuration left out ({configuration}): {'; '.join(faults)}")
            else:
                self._known_good.append(configuration)
        self._warm = warm_candidates(spec, ledger, note)
        self._hopeless = hopeless(spec)

    def next(self, sampler: Proposer) -> Proposal | Exhausted:
        """Raises StudyStopped where the baseline failed: every result is a ratio to it."""
        spec, ledger = self._spec, self._ledger
        if ledger.score(spec.baseline) is None:
            self._require_launchable_baseline()
            return Proposal(spec.baseline, Origin.BASELINE)
        if self._baseline_is_due():
            return Proposal(spec.baseline, Origin.BASELINE)
        for configuration in self._known_good:
            if ledger.is_open(configuration):
                return Proposal(configuration, Origin.KNOWN_GOOD)
        warm = next_warm(ledger, self._warm)
        if warm is not None:
            return Proposal(warm, Origin.KNOWN_GOOD)
        if not spec.space.parameters:
            return Exhausted("the space has no parameters: nothing to measure but what the file names")
        if spec.strategy in GREEDY_FIRST:
            starts = (*self._known_good, *(one.configuration for one in self._warm))
            greedy = next_greedy(ledger, spec.baseline, starts, spec.earlier, self._hopeless)
            if greedy is not None:
                return Proposal(greedy, Origin.GREEDY)
        sampled = sampler.propose()
        if sampled is not None:
            return Proposal(sampled, Origin.SAMPLER)
        return self._remaining()

    def baseline_failed(self, result: TrialResult) -> StudyStopped:
        """What to raise when the baseline's trial came to nothing."""
        failure = result.failure
        if failure is None:
            message, evidence, hint = f"its trial ended {result.state.value} and without a score", "", ""
        else:
            message, evidence, hint = f"{failure.reason.word}: {failure.message}", failure.evidence, failure.hint
        said = f"\n    log: {evidence}" if evidence and evidence not in message else ""
        return StudyStopped(
            f"the baseline (trial {result.number}) cannot be measured, and every result is a ratio to it: "
            f"{message}{said}",
            hint=hint or "correct `baseline:` or `engine:` in the space file and start a new study",
        )

    def _baseline_is_due(self) -> bool:
        known = self._corrections
        return known is not None and is_due(self._spec.budget, known.raw, known.standing)

    def _require_launchable_baseline(self) -> None:
        baseline = self._spec.baseline
        faults = self._ledger.faults(baseline)
        if faults:
            raise StudyStopped(
                f"the baseline must be legal to launch ({baseline}), but it is not: {'; '.join(faults)}",
                hint="correct `baseline:` or the constraints in the space file",
            )
        identity = self._ledger.identity(baseline)
        for result in self._ledger.results:
            unscored = result.state in (TrialState.INFEASIBLE, TrialState.COMPLETE) and score_of(result) is None
            if unscored and self._ledger.identity(result.configuration) == identity:
                raise self.baseline_failed(result)

    def _remaining(self) -> Proposal | Exhausted:
        """Neighbours of the best, then anything: TPE has settled on configurations that were measured."""
        best = self._ledger.best
        if best is not None:
            base = self._ledger.point(best.configuration)
            beside = [*neighbours(Rules(self._spec.space, self._may_be_tried), base)]
            if beside:
                return Proposal(self._rng.choice(beside), Origin.SAMPLER)
        drawn = (random_configuration(self._spec.space, self._rng) for _ in range(RANDOM_DRAWS))
        found = next(self._allowed(drawn), None)
        if found is not None:
            return Proposal(found, Origin.SAMPLER)
        return self._last_of_all()

    def _last_of_all(self) -> Proposal | Exhausted:
        every = every_configuration(self._spec.space)
        if every is None:
            return Exhausted(f"no further valid configuration was found in {RANDOM_DRAWS} random draws")
        found = next(self._allowed(itertools.islice(every, ENUMERATED)), None)
        if found is not None:
            return Proposal(found, Origin.SAMPLER)
        if next(every, None) is not None:
            return Exhausted(f"no further valid configuration was found among the first {ENUMERATED:,} of the space")
        return Exhausted("every valid configuration was measured")

    def _allowed(self, configurations: Iterable[Configuration]) -> Iterator[Configuration]:
        return filter(self._may_be_tried, configurations)

    def _may_be_tried(self, configuration: Configuration) -> bool:
        return self._ledger.is_open(configuration) and self._ledger.is_legal(configuration)
