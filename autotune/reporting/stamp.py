"""What every artefact of a study on a simulated node says of itself."""

from __future__ import annotations

from autotune.domain.study import StudyResult


def stamp(result: StudyResult) -> str:
    """Empty for a real node. The clock rate is part of the node's description."""
    if not result.simulated:
        return ""
    rates = sorted({t.provenance.clock_rate for t in result.trials if t.provenance and t.provenance.simulated})
    shown = " and ".join(f"{rate:g}" for rate in rates)
    return f"no figure here was measured on a real node (clock rate {shown}: node seconds per second of the wall clock)"
