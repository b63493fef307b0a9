"""Two ways to measure the servers of the published table, each once from start to end: a table of cells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from autotune.domain.measurement import Comparison, Estimate, Measurement, Objective
from autotune.domain.workload import REQUESTS_PER_SLOT, LevelPlan
from autotune.scoring import compare, measure
from benchmarks.measuring.published import LEVELS, REQUESTS, SERVERS, TOKENS, WARMUP_REQUESTS, Server
from benchmarks.measuring.virtual import Noise

MIN_REQUESTS = 10
"""As `min_requests` of a space file has it where it is not given."""

SPEEDUP = Objective("weighted_speedup")


@dataclass(frozen=True)
class Cell:
    """`estimate` has no interval where the protocol gives none. `node_s`: all node time that the cell took."""

    estimate: Estimate
    node_s: float

    @property
    def value(self) -> float:
        return self.estimate.value


@dataclass(frozen=True)
class Table:
    """cells[server][level]."""

    noise: str
    number: int
    cells: Mapping[str, Mapping[int, Cell]]

    def row(self, server: str) -> list[float]:
        return [self.cells[server][level].value for level in LEVELS]

    @property
    def node_s(self) -> float:
        return sum(cell.node_s for row in self.cells.values() for cell in row.values())


def published_table(noise: str, number: int, law: Noise) -> Table:
    """30 requests a level whatever the level, behind a gate, from an idle server to the last token; 5 requests of
    warm-up before the first level; each server launched once, each cell measured once."""
    cells = {}
    for server, seed in _seeded(SERVERS, number):
        node = server.node(seed, law)
        node.burst(1, WARMUP_REQUESTS, server.tokens)
        row = {}
        for level in LEVELS:
            burst = node.burst(level, REQUESTS, server.tokens)
            row[level] = Cell(Estimate(burst.throughput), burst.wall_s)
        cells[server.name] = row
    return Table(noise, number, cells)


def tool_table(noise: str, number: int, law: Noise) -> Table:
    """This tool's screening: at least 5 requests for each slot, a window without ramp and tail, an interval. The
    servers have a cap above the largest level, since the tool refuses them otherwise. Launched once each."""
    cells = {}
    for server, seed in _seeded((server.raised() for server in SERVERS), number):
        node = server.node(seed, law)
        row = {}
        for level in LEVELS:
            before_s = node.clock_s
            run = node.level(LevelPlan(level, max(REQUESTS_PER_SLOT * level, MIN_REQUESTS)), TOKENS)
            shown = measure(run).output_throughput
            if shown is None:
                raise ValueError(f"level {level} of {server.name} has no throughput")
            row[level] = Cell(shown, node.clock_s - before_s)
        cells[server.name] = row
    return Table(noise, number, cells)


PROTOCOLS: Mapping[str, Callable[[str, int, Noise], Table]] = {"published": published_table, "tool": tool_table}


def verdict(table: Table, mine: str, theirs: str, levels: Iterable[int]) -> Comparison:
    """The tool's own comparison over `levels`, each of weight 1."""
    chosen = tuple(levels)
    candidate, baseline = (_measurements(table.cells[name], chosen) for name in (mine, theirs))
    found = compare(candidate, baseline, SPEEDUP, dict.fromkeys(chosen, 1.0))
    if found is None:
        raise ValueError(f"nothing to compare at {chosen}")
    return found


def _measurements(row: Mapping[int, Cell], levels: Iterable[int]) -> list[Measurement]:
    return [Measurement(level, 0, 0, output_throughput=row[level].estimate) for level in levels]


def _seeded(servers: Iterable[Server], number: int) -> Iterable[tuple[Server, int]]:
    """Every launch of every table has noise and prompts of its own."""
    return ((server, 1000 * number + place) for place, server in enumerate(servers))
