"""Tables: what every configuration of a space would show on a node, computed once and replayed.

A table knows, for each server that the space can ask for (canonical form): tokens per second and accept length at
each level without noise, how long it takes to start, or how it dies and after how long. Simulated ones are made by
`build`; `benchmarks/data/search_<node>.json.gz` keeps them.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from autotune import engines, spacefile
from autotune.domain.configuration import Configuration
from autotune.domain.engine import LaunchSite
from autotune.domain.study import StudySpec
from autotune.domain.trial import EngineVersion
from autotune.simulated_node.latency import StepModel
from autotune.simulated_node.nodes import NODES, NodeDescription
from autotune.simulated_node.resolution import Resolved, resolve
from autotune.study import Validity
from benchmarks.search import held_out
from benchmarks.search.steps import Steps, count_steps

FOLDER = Path(__file__).parent
DATA = FOLDER.parent / "data"
DESIGN = ("rtx-pro-6000-x8", "nvlink-x8", "one-card-8b")
NAMES = (*DESIGN, held_out.NAME)
PROMPT_TOKENS = 100
VERSION = EngineVersion("0.5.9", (0, 5, 9))

REFUSED_S = 12.0
"""Until the server's own checks refuse it: importing its libraries takes most of that."""
START_S = {"rtx-pro-6000-x8": 300.0, "nvlink-x8": 240.0, "one-card-8b": 55.0, held_out.NAME: 270.0}
"""Without graphs. Reading 555 GiB takes minutes; all four are assumed."""
GRAPH_S = 0.8
"""Capturing the graph of one batch size. Assumed."""
DEAD_AFTER = {"distributed": 0.1, "weights": 0.6, "backend": 0.65, "pool": 0.7, "capture": 0.9}
"""Share of the start-up time that a death at a stage costs."""


@dataclass(frozen=True)
class Cell:
    """`death` is None, or the stage at which such a server dies; then `seconds` is how long that takes, else the
    start-up time. Without speculation `accept` is empty."""

    seconds: float
    death: str | None = None
    throughput: tuple[float, ...] = ()
    accept: tuple[float, ...] = ()


@dataclass(frozen=True)
class Table:
    """`cells` by the canonical form of a server. `asked` maps every configuration of the space to that form and to why
    it must not be launched, empty if nothing is known against it: replaying needs no engine."""

    spec: StudySpec
    cells: Mapping[str, Cell]
    asked: Mapping[str, tuple[Configuration, tuple[str, ...]]]

    @property
    def levels(self) -> tuple[int, ...]:
        return self.spec.workload.levels

    def cell(self, configuration: Configuration) -> Cell:
        """Raises LookupError for what the table does not hold."""
        return self.cells[self.asked[configuration.canonical][0].canonical]

    def validity(self) -> Validity:
        return Validity(problems=self._problems, canonical=self._form)

    def _problems(self, configuration: Configuration) -> tuple[str, ...]:
        known = self.asked.get(configuration.canonical)
        return ("the table does not hold it",) if known is None else known[1]

    def _form(self, configuration: Configuration) -> Configuration:
        known = self.asked.get(configuration.canonical)
        return configuration if known is None else known[0]


def spec_of(name: str) -> StudySpec:
    return spacefile.load(FOLDER / "spaces" / f"{name}.yaml")


def validity_of(spec: StudySpec, version: EngineVersion = VERSION) -> Validity:
    """The engine's own rules."""
    engine = engines.get(spec.engine.name)
    return Validity(
        problems=lambda configuration: engine.problems(spec.engine, version, configuration),
        canonical=lambda configuration: engine.canonical(spec.engine, version, configuration),
    )


def load(name: str) -> Table:
    """Raises FileNotFoundError where `build` has not been run."""
    with gzip.open(path_of(name), "rt", encoding="utf-8") as file:
        data = json.load(file)
    forms = [Configuration(form) for form in data["forms"]]
    cells = {
        form.canonical: Cell(seconds, death, tuple(throughput), tuple(accept))
        for form, (seconds, death, throughput, accept) in zip(forms, data["cells"], strict=True)
    }
    asked = {
        Configuration(values).canonical: (forms[index], tuple(problems)) for values, index, problems in data["asked"]
    }
    return Table(spec_of(name), cells, asked)


def save(name: str, table: Table) -> None:
    index = {form: number for number, form in enumerate(table.cells)}
    data = {
        "node": name,
        "levels": table.levels,
        "forms": [json.loads(form) for form in table.cells],
        "cells": [[cell.seconds, cell.death, cell.throughput, cell.accept] for cell in table.cells.values()],
        "asked": [
            [json.loads(text), index[form.canonical], problems] for text, (form, problems) in table.asked.items()
        ],
    }
    DATA.mkdir(exist_ok=True)
    path_of(name).write_bytes(gzip.compress(json.dumps(data, separators=(",", ":")).encode(), 9, mtime=0))


def path_of(name: str) -> Path:
    return DATA / f"search_{name}.json.gz"


def node_of(name: str) -> NodeDescription:
    return held_out.node() if name == held_out.NAME else NODES[name]


def build(name: str) -> Table:
    """Brute force over the whole space, illegal configurations included: a strategy may launch them."""
    spec, node = spec_of(name), node_of(name)
    engine = engines.get(spec.engine.name)
    builder = _Builder(spec, node, START_S[name])
    cells: dict[str, Cell] = {}
    asked: dict[str, tuple[Configuration, tuple[str, ...]]] = {}
    for configuration in (spec.baseline, *spec.space.configurations()):
        form = engine.canonical(spec.engine, VERSION, configuration)
        if form.canonical not in cells:
            cells[form.canonical] = builder.cell(configuration)
        asked[configuration.canonical] = form, engine.problems(spec.engine, VERSION, configuration)
    return Table(spec, cells, asked)


class _Builder:
    def __init__(self, spec: StudySpec, node: NodeDescription, start_s: float) -> None:
        self._spec, self._node, self._start_s = spec, node, start_s
        self._engine = engines.get(spec.engine.name)
        self._steps: dict[tuple[object, ...], Steps] = {}
        self._resolved: dict[object, Resolved | None] = {}

    def cell(self, configuration: Configuration) -> Cell:
        resolved = self._resolve(configuration)
        if resolved is None:
            return Cell(REFUSED_S, "refused")
        start = round(self._start_s + GRAPH_S * len(resolved.graph_sizes), 1)
        if resolved.failure is not None:
            stage = resolved.failure.stage
            return Cell(round(DEAD_AFTER[stage] * start, 1), stage)
        model, limit = StepModel(self._node, resolved.plan), resolved.plan.prefill_limit_tokens
        throughput, accept = [], []
        for level in self._spec.workload.levels:
            steps = self._count(resolved, level)
            if steps.largest_prefill > limit:
                return Cell(start + 10.0, "serving")
            throughput.append(float(f"{steps.throughput(model):.5g}"))
            if resolved.plan.tree is not None:
                passes = sum(running * count for running, count in steps.running.items())
                accept.append(round(steps.generated / passes, 4))
        return Cell(start, None, tuple(throughput), tuple(accept))

    def _resolve(self, configuration: Configuration) -> Resolved | None:
        site = LaunchSite("127.0.0.1", 1, "bench", "python")
        command = self._engine.command(self._spec.engine, VERSION, configuration, site)
        words = command.argv[3:]
        key = (words, tuple(sorted(command.environment.items())))
        if key not in self._resolved:
            try:
                self._resolved[key] = resolve(self._node, words, command.environment)
            except (ValueError, AssertionError, TypeError, SystemExit):
                self._resolved[key] = None
        return self._resolved[key]

    def _count(self, resolved: Resolved, level: int) -> Steps:
        plan, tokens = resolved.plan, self._spec.workload.max_tokens
        memory = min(plan.kv_capacity_tokens, level * (PROMPT_TOKENS + tokens))
        running = min(plan.max_running, level)
        key = (level, plan.tree, running, memory, plan.chunk_tokens)
        if key not in self._steps:
            patient = replace(plan, prefill_limit_tokens=10**9)
            self._steps[key] = count_steps(self._node, patient, level, tokens, PROMPT_TOKENS)
        return self._steps[key]
