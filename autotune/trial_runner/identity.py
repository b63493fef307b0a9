"""Whether a server turned out to be one that the study has measured already."""

from __future__ import annotations

from collections.abc import Iterable

from autotune.domain.level import Level
from autotune.domain.trial import Origin, TrialRequest, TrialResult, TrialState
from autotune.domain.workload import MeasurementPlan


class KnownServers:
    """The complete trials of a study by what their servers ran with."""

    def __init__(self, history: Iterable[TrialResult] = ()) -> None:
        self._measured: dict[str, list[TrialResult]] = {}
        for result in history:
            self.add(result)

    def add(self, result: TrialResult) -> None:
        """Only what the search measured itself is kept: not a duplicate, not what failed or has no score, and not a
        confirmation's run, whose prompts are others."""
        measured = result.state is TrialState.COMPLETE and result.score is not None and result.duplicate_of is None
        if measured and result.origin is not Origin.CONFIRMATION and result.resolved_identity is not None:
            self._measured.setdefault(result.resolved_identity, []).append(result)

    def original(
        self, request: TrialRequest, identity: str | None, plan: MeasurementPlan, *, simulated: bool
    ) -> TrialResult | None:
        """The earliest trial whose figures hold for this server too; None where it is to be measured.

        The baseline, a finalist, and a configuration that ran before, are measured again on purpose. A trial of another
        plan's levels, or of a simulated node beside a real one, lends nothing.
        """
        if identity is None or request.origin in (Origin.BASELINE, Origin.CONFIRMATION):
            return None
        earlier = self._measured.get(identity, [])
        if any(result.configuration == request.configuration for result in earlier):
            return None
        levels = {level.level for level in plan.levels}
        return next((result for result in earlier if _lends(result, levels, simulated=simulated)), None)


def duplicate_remark(original: TrialResult) -> str:
    return f"its server runs with the same as that of trial {original.number}, whose figures these are: not measured"


def _lends(result: TrialResult, levels: set[Level], *, simulated: bool) -> bool:
    same_node = result.provenance is not None and result.provenance.simulated == simulated
    return same_node and {measurement.level for measurement in result.measurements} == levels
