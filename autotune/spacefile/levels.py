"""`workload.concurrency` and `workload.rates`: what a trial is measured at, with the weight of each."""

from __future__ import annotations

import math

from autotune.domain.level import STEPS_PER_REQUEST, Level, Rate, level_of
from autotune.domain.measurement import Objective
from autotune.domain.workload import Workload
from autotune.spacefile import fields
from autotune.spacefile.tree import Entry, Faults, Node, Place, Scalar, Table, shown

_LEVELS = "write level: weight, such as `concurrency: {1: 1, 10: 2}`"
_RATES = "write requests a second: weight, such as `rates: {4: 1, 8: 1}`"
_NEITHER = f"{_LEVELS}; or `rates: {{4: 1}}` for requests a second"


def read(
    concurrency: Node | None, rates: Node | None, at: Place, faults: Faults
) -> tuple[dict[int, float], dict[float, float]]:
    """Weights by requests in flight, and by requests a second. One of the two must name a level."""
    if rates is None or (_is_empty(rates) and not _is_empty(concurrency)):
        return _concurrency(concurrency, at, faults), {}
    closed = {} if _is_empty(concurrency) else _concurrency(concurrency, at, faults)
    return closed, _rates(rates, faults)


def _is_empty(node: Node | None) -> bool:
    return (
        node is None
        or (isinstance(node, Scalar) and node.value is None)
        or fields.is_unset(node)
        or (isinstance(node, Table) and not node.entries)
    )


def _concurrency(node: Node | None, at: Place, faults: Faults) -> dict[int, float]:
    if _is_empty(node):
        faults.add(node.place if node else at, "workload.concurrency must name at least one level", hint=_NEITHER)
        return {}
    if not isinstance(node, Table):
        raised = "workload.concurrency must be a mapping of levels to weights"
        faults.add(at if node is None else node.place, raised, "" if node is None else shown(node), _LEVELS)
        return {}
    levels: dict[int, float] = {}
    for entry in node:
        level = entry.key.value
        if isinstance(level, bool) or not isinstance(level, int) or level < 1:
            must = "a concurrency level must be a whole number of at least 1"
            faults.add(entry.key.place, must, f"`{entry.key.text}`", _LEVELS)
            continue
        levels[level] = _weight(entry, faults)
    return levels


def _rates(node: Node, faults: Faults) -> dict[float, float]:
    if _is_empty(node) or not isinstance(node, Table):
        faults.add(node.place, "workload.rates must be a mapping of rates to weights", shown(node), _RATES)
        return {}
    rates: dict[float, float] = {}
    for entry in node:
        rate = entry.key.value
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate < math.inf:
            faults.add(entry.key.place, "a rate must be a number above 0", f"`{entry.key.text}`", _RATES)
        elif not math.isclose(rate * STEPS_PER_REQUEST, max(1, round(rate * STEPS_PER_REQUEST)), rel_tol=1e-9):
            must = f"a rate must be a multiple of {1 / STEPS_PER_REQUEST:g} requests a second"
            faults.add(entry.key.place, must, f"`{entry.key.text}`")
        elif float(rate) in rates:
            faults.add(entry.key.place, "a rate may stand once", f"`{entry.key.text}`", "keep one of them")
        else:
            rates[float(rate)] = _weight(entry, faults)
    return rates


def _weight(entry: Entry, faults: Faults) -> float:
    return float(faults.attempt(fields.positive, entry.node, 1.0))


def check(workload: Workload, objective: Objective, node: Node | None, faults: Faults) -> None:
    """What rates and the rest of the file must have to do with each other."""
    rates = node.entry("rates") if isinstance(node, Table) else None
    if rates is None or not workload.rates:
        return
    if objective.metric != Objective.METRICS[2]:
        faults.add(
            rates.key.place,
            f"at a rate that is sustained the throughput is the rate, so {objective.metric} ranks nothing there",
            hint="`objective: {metric: weighted_goodput}`, with what a good request is: `slo: {ttft_ms: 500}`",
        )
    for key in ("precision", "level_seconds"):
        entry = node.entry(key) if isinstance(node, Table) else None
        if entry is not None and getattr(workload, key) is not None and not workload.concurrency:
            must = f"workload.{key} is for levels of workload.concurrency, and there are none"
            faults.add(entry.key.place, must, hint="at rates `min_requests` says how many requests there are at least")


def of_key(key: Scalar) -> Level | None:
    """The level that a key of `slo` names, `64` or `4 req/s`; None where it names none."""
    if isinstance(key.value, bool):
        return None
    if isinstance(key.value, int):
        return key.value
    try:
        found = level_of(key.text)
    except ValueError:
        return None
    return found if isinstance(found, Rate) else None
