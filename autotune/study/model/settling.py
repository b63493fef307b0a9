"""When a study has found what it can: the expected gain of another node hour is lost in the noise of the comparison.

The grey-box model says what each configuration that was not tried may gain, and what it costs. Those with the most gain
for their time are added up until an hour is full: an upper bound, since one gain excludes part of the next. Against it
stands by how much two trials of one configuration differ. A strategy without a model has one fitted for this alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from autotune.domain.configuration import Configuration
from autotune.domain.study import StudySpec
from autotune.study.ledger import Ledger
from autotune.study.model.outlook import Outlook
from autotune.study.proposer import Proposer

if TYPE_CHECKING:
    from autotune.study.model.improvement import GreyBoxProposer

IN_A_ROW = 7
"""So many looks in a row must agree: each trial may teach the model better."""


class Settling:
    """Asked once before each trial; `reason` is a sentence once the study may end, else None."""

    def __init__(self, spec: StudySpec, ledger: Ledger, chosen: Proposer) -> None:
        self._wanted = spec.budget.stop_when_settled
        self._watcher = self._watching(spec, ledger, chosen) if self._wanted else None
        self._asks_itself = self._watcher is not chosen
        self._in_a_row = 0

    def reason(self) -> str | None:
        """To be asked when `chosen` has made its proposal, and not while a factor pass is under way."""
        if self._watcher is None:
            return None
        if self._asks_itself:
            self._watcher.propose()
        outlook = self._watcher.outlook
        self._in_a_row = self._in_a_row + 1 if outlook is not None and outlook.settled else 0
        return _sentence(outlook) if outlook is not None and self._in_a_row >= IN_A_ROW else None

    def _watching(self, spec: StudySpec, ledger: Ledger, chosen: Proposer) -> GreyBoxProposer | None:
        if not spec.ranks_by_throughput:  # the model foretells throughput
            return None
        from autotune.study.model.improvement import GreyBoxProposer  # here, so that no other study waits for numpy

        return chosen if isinstance(chosen, GreyBoxProposer) else GreyBoxProposer(spec, ledger, _Nobody())


class _Nobody:
    def propose(self) -> Configuration | None:
        return None


def _sentence(outlook: Outlook) -> str:
    return (
        f"nothing is left to find that could be told from noise: another node hour is expected to gain at most "
        f"{100 * outlook.gain:.2g} %, and two trials of one configuration differ by {100 * outlook.noise:.2g} % "
        f"(the model foretells {100 * outlook.trust:.0f} % of the spread between configurations)"
    )
