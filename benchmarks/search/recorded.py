"""A table out of a recorded study: trials.jsonl of a real node, and its space file.

What was not measured is a hole. Nothing is made up for it: no strategy may propose it (the table gives that as a
problem), so that all search the same set. Where one server was measured several times, its rates are averaged.
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path

from autotune import spacefile
from autotune.domain.configuration import Configuration
from autotune.domain.trial import EngineVersion, TrialResult, TrialState
from autotune.recording import decode_trial
from autotune.study.ledger import Ledger
from benchmarks.search.tables import Cell, Table, validity_of


def load(trials: Path, space: Path, version: EngineVersion) -> Table:
    """Trials that failed by circumstance or lack a level are left out. Raises ValueError if the baseline is missing."""
    spec = spacefile.load(space)
    lines = [line for line in trials.read_text(encoding="utf-8").splitlines() if line.strip()]
    results = [decode_trial(json.loads(line)) for line in lines]
    ledger = Ledger(spec.space, validity_of(spec, version))
    by_form: dict[Configuration, list[TrialResult]] = {}
    for result in results:
        if result.state is TrialState.INFEASIBLE or _rates(result, spec.workload.levels):
            by_form.setdefault(ledger.identity(result.configuration), []).append(result)
    cells = {form.canonical: _cell(found, spec.workload.levels) for form, found in by_form.items()}
    asked = {}
    for configuration in (*spec.space.configurations(), spec.baseline, *(r.configuration for r in results)):
        form = ledger.identity(configuration)
        if form.canonical in cells:
            asked[configuration.canonical] = form, ledger.faults(configuration)
    if spec.baseline.canonical not in asked:
        raise ValueError(f"{trials} has no measured trial of the baseline ({spec.baseline})")
    return Table(spec, cells, asked)


def _cell(found: list[TrialResult], levels: tuple[int, ...]) -> Cell:
    alive = [result for result in found if _rates(result, levels)]
    if not alive:
        return Cell(statistics.median(result.node_seconds for result in found), "capture")
    rates = [_rates(result, levels) for result in alive]
    accepts = [accept for result in alive if (accept := _accepts(result, levels))]
    starts = [result.startup_seconds for result in alive if result.startup_seconds is not None]
    return Cell(
        statistics.median(starts) if starts else 0.0,
        None,
        tuple(statistics.mean(column) for column in zip(*rates, strict=True)),
        tuple(statistics.mean(column) for column in zip(*accepts, strict=True)),
    )


def _rates(result: TrialResult, levels: tuple[int, ...]) -> tuple[float, ...]:
    """Empty unless every level has one."""
    found = [result.at(level) for level in levels]
    rates = [m.output_throughput.value for m in found if m is not None and m.output_throughput is not None]
    return tuple(rates) if len(rates) == len(levels) and result.state is TrialState.COMPLETE else ()


def _accepts(result: TrialResult, levels: tuple[int, ...]) -> tuple[float, ...]:
    found = [result.at(level) for level in levels]
    accepts = [m.accept_length for m in found if m is not None and m.accept_length is not None]
    return tuple(accepts) if len(accepts) == len(levels) else ()
