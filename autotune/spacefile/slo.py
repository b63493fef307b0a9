"""The section `slo`: bounds on what the levels may show, for all of them or for single ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from autotune.domain.level import Level, Rate, named
from autotune.domain.measurement import Objective
from autotune.domain.slo import CEILINGS, FLOORS, REQUEST_BOUNDS, Slo
from autotune.spacefile import fields
from autotune.spacefile.levels import of_key
from autotune.spacefile.tree import Entry, Faults, Node, Place, Table, nearest


def _share(node: Node) -> float:
    found = fields.positive(node)
    if found > 1:
        raise fields.refuse(node, "a share above 0 and of at most 1", "95 % is 0.95")
    return found


FIGURES: Mapping[str, Callable[[Node], float]] = {
    **dict.fromkeys((*CEILINGS, *REQUEST_BOUNDS, FLOORS[0]), fields.positive),
    FLOORS[1]: _share,
}
_EXAMPLE = "such as `slo: {ttft_p95_ms: 500}`, or for one level `slo: {64: {ttft_p95_ms: 2000}}`"


def read(node: Node | None, levels: Sequence[Level], objective: Objective, whole: Place, faults: Faults) -> Slo:
    """`levels`: those that the workload measures."""
    before = len(faults)
    everywhere: dict[str, float] = {}
    single: dict[Level, Mapping[str, float]] = {}
    for entry in fields.table_of(node, "slo", faults) or ():
        level = of_key(entry.key)
        if level is not None and level in single:
            faults.add(entry.key.place, f"{named(level)} stands twice in slo", hint="keep one of them")
        elif level is not None:
            single[level] = _level(entry, level, levels, faults)
        else:
            everywhere.update(_bound(entry, faults))
    made = Slo(everywhere, single)
    if len(faults) == before:
        _request_bounds(made, levels, objective, node.place if node is not None else whole, faults)
    return made


def _level(entry: Entry, level: Level, levels: Sequence[Level], faults: Faults) -> dict[str, float]:
    if level not in levels:
        known = f"levels here: {', '.join(map(str, levels))}" if levels else ""
        source = "workload.rates" if isinstance(level, Rate) else "workload.concurrency"
        faults.add(entry.key.place, f"a level of slo must be one of {source}", f"`{entry.key.text}`", known)
    table = fields.table_of(entry.node, f"slo.{entry.key.text}", faults)
    read: dict[str, float] = {}
    for bound in table if isinstance(table, Table) else ():
        read.update(_bound(bound, faults))
    return read


def _bound(entry: Entry, faults: Faults) -> dict[str, float]:
    name = entry.key.text
    if name not in FIGURES:
        faults.add(entry.key.place, f"unknown key `{name}` in slo", hint=nearest(name, FIGURES) or _EXAMPLE)
        return {}
    return {name: float(faults.attempt(FIGURES[name], entry.node, 1.0))}


def _request_bounds(made: Slo, levels: Sequence[Level], objective: Objective, at: Place, faults: Faults) -> None:
    """What counts good requests must be told which are good."""
    hint = f"bound {', '.join(REQUEST_BOUNDS)}, or some of them, in slo: `slo: {{ttft_ms: 500, tpot_ms: 30}}`"
    for level in levels:
        if made.of_a_request(level):
            continue
        if objective.metric == "weighted_goodput":
            faults.add(at, f"weighted_goodput must be told which requests are good, at {named(level)} too", hint=hint)
        elif FLOORS[1] in made.at(level):
            faults.add(at, f"slo.good_share must be told which requests are good, at {named(level)} too", hint=hint)


def plain(made: Slo) -> dict[Any, Any]:
    """As study.yaml writes it."""
    return {**made.everywhere, **{_key(level): dict(bounds) for level, bounds in made.levels.items()}}


def _key(level: Level) -> int | str:
    return str(level) if isinstance(level, Rate) else level
