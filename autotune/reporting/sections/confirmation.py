"""The confirmation and the drift of a study, as sentences and as tables."""

from __future__ import annotations

from typing import Any

from autotune.domain.confirmation import Confirmation, Drift, Finalist
from autotune.domain.level import label
from autotune.domain.measurement import Estimate
from autotune.domain.study import StudyResult
from autotune.reporting.figures import MISSING, by_percent, change_percent, duration
from autotune.reporting.layout import Table


def confirmed_verdict(found: Confirmation) -> str:
    """`trial 7 beats the baseline by 7.1 % ± 1.3 (confirmed on 4 fresh servers each, held-out prompts)`, or what else
    the confirmation says; empty where it had nothing to look at yet."""
    leader = found.finalists[0] if found.finalists else None
    if leader is None or leader.gain is None:
        return ""
    where = f"{_servers(found, leader)}, held-out prompts"
    name = f"trial {leader.trial}"
    if found.outcome == "winner":
        also = _listed([f.trial for f in (leader, *found.near)])
        near = f"; no clear winner among trials {also}" if found.near else ""
        return f"{name} beats the baseline by {by_percent(leader.gain)} (confirmed on {where}){near}"
    if found.outcome == "none":
        best = name if len(found.finalists) == 1 else f"{name}, the best of {len(found.finalists)} finalists,"
        return f"nothing beats the baseline by more than the noise: {best} is {_signed(leader.gain)} ({where})"
    among = f" among trials {_listed([f.trial for f in found.finalists])}" if len(found.finalists) > 1 else ""
    rounds = f"{found.rounds} of {found.planned} rounds"
    undecided = f"no clear winner{among}: the confirmation is not decided ({rounds})"
    return f"{undecided}; {name} is {_signed(leader.gain)} ({where})"


def drift_sentence(drift: Drift) -> str:
    """`the node drifted by -4.1 % ± 0.8 over 3.0 h (baseline measured 5 times); scores are corrected for it`."""
    over = f"over {drift.hours:.1f} h (baseline measured {drift.repeats} times)"
    if drift.seen:
        return f"the node drifted by {_signed(drift.change)} {over}; scores are corrected for it"
    corrected = f"scores are corrected by {drift.largest * 100:.1f} % at most"
    if not drift.told:
        wide = f"a measurement of the baseline is uncertain by ± {drift.window * 100:.1f} % itself"
        return f"whether the node drifted cannot be told {over}: {wide}; {corrected}"
    return f"no drift seen: {_signed(drift.change)} {over}; {corrected}"


def confirmation_rows(result: StudyResult) -> Table:
    """A row for each finalist. Empty without a confirmation."""
    found = result.confirmation
    levels = result.spec.workload.levels
    header = ("trial", "servers", "against the baseline", "", "against the leader", *(label(c) for c in levels), "")
    rows = []
    for finalist in found.finalists if found is not None else ():
        gains = [change_percent(finalist.levels[c]) if c in finalist.levels else MISSING for c in levels]
        rows.append(
            (
                str(finalist.trial),
                str(finalist.servers),
                _signed(finalist.gain),
                finalist.verdict,
                _signed(finalist.behind),
                *gains,
                finalist.dropped,
            )
        )
    return Table(header, tuple(rows), frozenset({0, 1, 2, 4, *range(5, 5 + len(levels))}))


def confirmation_note(result: StudyResult) -> str:
    """What the table is of."""
    found = result.confirmation
    if found is None:
        return ""
    spread = (
        ""
        if found.launch_spread is None
        else f" Launches of one configuration differ by {_percent(found.launch_spread)}."
    )
    return (
        f"{found.rounds} of {found.planned} planned rounds, {duration(found.node_seconds)} of node time; the baseline "
        f"on {found.baseline_servers} servers. Each run is a fresh server on prompts that no trial of the search has "
        f"seen.{spread} Intervals hold for all finalists and all looks at once (95 %)."
    )


def drift_rows(result: StudyResult) -> Table:
    """The change at each level, from the first measurement of the baseline to the last. Empty with fewer than two."""
    drift = result.drift
    levels = drift.levels if drift is not None else {}
    rows = tuple((str(level), _signed(change)) for level, change in sorted(levels.items()))
    what = "level" if result.spec.workload.rates else "concurrency"
    return Table((what, "change of the baseline"), rows, frozenset({0, 1}))


def drift_note(result: StudyResult) -> str:
    drift = result.drift
    if drift is None:
        return ""
    said = drift_sentence(drift)
    if drift.launch_spread is None:
        launches = "How much launches of the baseline differ cannot be told"
    else:
        launches = f"Launches of the baseline differ by about {_percent(drift.launch_spread)} beside that"
    return f"{said[0].upper()}{said[1:]}. {launches}. Throughputs are shown as they were measured."


def confirmation_data(result: StudyResult) -> dict[str, Any] | None:
    """For `--json`: None without a confirmation."""
    found = result.confirmation
    if found is None:
        return None
    return {
        "outcome": found.outcome,
        "rounds": found.rounds,
        "planned": found.planned,
        "baseline_servers": found.baseline_servers,
        "launch_spread": found.launch_spread,
        "node_seconds": round(found.node_seconds, 1),
        "finalists": [
            {
                "trial": finalist.trial,
                "servers": finalist.servers,
                "ratio": finalist.gain.value if finalist.gain is not None else None,
                "interval": _ends(finalist.gain),
                "verdict": finalist.verdict,
                "levels": {str(level): ratio for level, ratio in finalist.levels.items()},
                "dropped": finalist.dropped,
            }
            for finalist in found.finalists
        ],
    }


def drift_data(result: StudyResult) -> dict[str, Any] | None:
    """For `--json`: None with fewer than two measurements of the baseline."""
    drift = result.drift
    if drift is None:
        return None
    return {
        "repeats": drift.repeats,
        "hours": round(drift.hours, 3),
        "ratio": drift.change.value,
        "interval": _ends(drift.change),
        "seen": drift.seen,
        "launch_spread": drift.launch_spread,
        "told": drift.told,
        "levels": {str(level): None if c is None else c.value for level, c in drift.levels.items()},
        "largest_correction": drift.largest,
    }


def _servers(found: Confirmation, leader: Finalist) -> str:
    if leader.servers == found.baseline_servers:
        return f"{leader.servers} fresh servers each"
    return f"{leader.servers} fresh servers, the baseline on {found.baseline_servers}"


def _signed(ratio: Estimate | None) -> str:
    if ratio is None:
        return MISSING
    half = ratio.half_width
    return change_percent(ratio.value) + ("" if half is None else f" ± {min(half * 100, 999.0):.1f}")


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:-1])) + (" and " if len(numbers) > 1 else "") + str(numbers[-1])


def _percent(spread: float) -> str:
    return f"{spread * 100:.1f} % (standard deviation)"


def _ends(estimate: Estimate | None) -> list[float] | None:
    return None if estimate is None or estimate.low is None or estimate.high is None else [estimate.low, estimate.high]
