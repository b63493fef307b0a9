"""What a warm start hands to the models: results that this study did not measure, marked, and kept out of its ledger.

The figures are ratios to the new study's baseline as the earlier study measured it. They become tokens per second only
when this study has measured that baseline itself, so that neither an earlier day's figure of the baseline nor its
drift enters.
"""

from __future__ import annotations

from dataclasses import replace

from autotune.domain.knowledge import Prior
from autotune.domain.level import Rate
from autotune.domain.measurement import Estimate, Measurement
from autotune.domain.study import StudySpec
from autotune.domain.trial import Failure, FailureReason, Origin, TrialResult, TrialState
from autotune.scoring import score
from autotune.study.ledger import Ledger, score_of
from autotune.study.model.feasibility import Death

_MEMORY = "out_of_memory"


class PriorResults:
    """Empty until the baseline has a score. Numbers are negative: no trial of this study has such a one."""

    def __init__(self, spec: StudySpec, ledger: Ledger) -> None:
        self._spec, self._ledger = spec, ledger
        self._made: tuple[TrialResult, ...] = ()
        self._basis: TrialResult | None = None
        self._told = False

    def __call__(self) -> tuple[TrialResult, ...]:
        earlier = self._spec.earlier
        if not earlier.priors and not earlier.crashes:
            return ()
        basis = self._baseline()
        if basis is not self._basis:
            self._basis = basis
            self._made = () if basis is None else self._results(basis)
        return self._made

    def come_in(self) -> bool:
        """True once: when there is something to learn from for the first time."""
        found = not self._told and bool(self())
        self._told = self._told or found
        return found

    def _baseline(self) -> TrialResult | None:
        identity = self._ledger.identity(self._spec.baseline)
        return next(
            (
                result
                for result in self._ledger.results
                if score_of(result) is not None and self._ledger.identity(result.configuration) == identity
            ),
            None,
        )

    def _results(self, basis: TrialResult) -> tuple[TrialResult, ...]:
        found: list[TrialResult] = []
        for crash in self._spec.earlier.crashes:
            why = Failure(FailureReason.from_word(crash.reason), f"in the earlier study {crash.run}")
            made = TrialResult(
                -1 - len(found), crash.configuration, Origin.SAMPLER, TrialState.INFEASIBLE, "", 0.0, failure=why
            )
            found.append(replace(made, remarks=(_mark(crash.run, crash.trial),)))
        for prior in self._spec.earlier.priors:
            result = self._measured(prior, basis, -1 - len(found))
            if result is not None:
                found.append(result)
        return tuple(found)

    def _measured(self, prior: Prior, basis: TrialResult, number: int) -> TrialResult | None:
        """None where this study's baseline lacks a level."""
        measurements = []
        for level, ratio in prior.ratios.items():
            measured = basis.at(level)
            if measured is None or measured.output_throughput is None or isinstance(level, Rate):
                return None
            rate = Estimate(measured.output_throughput.value * ratio)
            accept = prior.accept.get(level)
            measurements.append(Measurement(level, 0, 0, output_throughput=rate, accept_length=accept))
        spec = self._spec
        made = score(measurements, spec.objective, spec.workload.weights, basis.measurements)
        if made is None:
            return None
        return TrialResult(
            number,
            prior.configuration,
            Origin.SAMPLER,
            TrialState.COMPLETE,
            "",
            0.0,
            measurements=tuple(measurements),
            score=made,
            remarks=(_mark(prior.run, prior.trial),),
        )


def deaths(spec: StudySpec) -> list[Death]:
    """For the model of feasibility."""
    return [Death(crash.configuration, crash.reason.startswith(_MEMORY)) for crash in spec.earlier.crashes]


def is_prior(result: TrialResult) -> bool:
    return result.number < 0


def _mark(run: str, trial: int) -> str:
    return f"prior: trial {trial} of the earlier study {run}, not measured here"
