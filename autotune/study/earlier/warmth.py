"""How the search follows what a warm start took from earlier studies. Pure functions of what is recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from autotune.domain.configuration import Configuration
from autotune.domain.knowledge import KnownGood
from autotune.domain.study import StudySpec
from autotune.study.ledger import Ledger
from autotune.study.model.prior import deaths

HOPELESS = 0.03
"""Below this chance to start, by the crashes and survivors of earlier studies alone, the factor pass leaves a value
out: two crashes of a value that never lived."""


def warm_candidates(spec: StudySpec, ledger: Ledger, note: Callable[[str], None]) -> tuple[KnownGood, ...]:
    """Those that may still be launched: versions may have changed since they were taken."""
    found = []
    for one in spec.earlier.known_good:
        if faults := ledger.faults(one.configuration):
            note(f"{one.run}, trial {one.trial}: left out ({one.configuration}): {'; '.join(faults)}")
        else:
            found.append(one)
    return tuple(found)


def next_warm(ledger: Ledger, candidates: Sequence[KnownGood]) -> Configuration | None:
    """The first that is open."""
    return next((one.configuration for one in candidates if ledger.is_open(one.configuration)), None)


def hopeless(spec: StudySpec) -> Callable[[Configuration], bool]:
    """Whether the crashes that carry over speak against a configuration."""
    if not spec.earlier.crashes:
        return lambda _configuration: False
    from autotune.study.model.feasibility import Feasibility  # here, so that a cold start does not wait for numpy

    model = Feasibility(spec.space)
    model.learn(spec.earlier.survivors, deaths(spec))
    known: dict[Configuration, bool] = {}

    def asked(configuration: Configuration) -> bool:
        if configuration not in known:
            known[configuration] = bool(model.chances([configuration])[0] < HOPELESS)
        return known[configuration]

    return asked
