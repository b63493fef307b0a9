"""What every artefact says of a study whose figures are not those of a real node, or of a real draft model."""

from __future__ import annotations

from autotune.domain.study import StudyResult


def stamp(result: StudyResult) -> str:
    """Empty for a real node. The clock rate is part of the node's description."""
    if not result.simulated:
        return ""
    rates = sorted({t.provenance.clock_rate for t in result.trials if t.provenance and t.provenance.simulated})
    shown = " and ".join(f"{rate:g}" for rate in rates)
    return f"no figure here was measured on a real node (clock rate {shown}: node seconds per second of the wall clock)"


def acceptance_stamp(result: StudyResult) -> str:
    """Empty where every server accepted draft tokens by itself."""
    pretending = [trial for trial in result.trials if trial.pretences]
    if not pretending:
        return ""
    what = ", ".join(sorted({pretence for trial in pretending for pretence in trial.pretences}))
    where = ", ".join(str(trial.number) for trial in pretending)
    return f"draft tokens were accepted by decree ({what}), not by the model, in trials {where}"
