"""What a reader takes from a table, and whether it is so."""

from __future__ import annotations

import functools
import itertools
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.measuring.protocols import Table, verdict
from benchmarks.measuring.published import BASELINE, CHAIN, LEVELS, SAME_LOAD, SERVERS, TREE

TIE = 0.02
"""A reader of bare figures who takes less than this for a tie. (The published text calls 0.2 % a tie and 2 % a win.)"""

TRUE_TIE = 0.01
"""A true difference up to this is none."""

SIGNS: Mapping[str, int] = {"better": 1, "worse": -1, "unclear": 0}


def signs(mine: Sequence[float], theirs: Sequence[float], tie: float = 0.0) -> list[int]:
    """At each level: 1 if `mine` is ahead, -1 if behind, 0 if it is a tie."""
    ratios = (one / other - 1.0 for one, other in zip(mine, theirs, strict=True))
    return [0 if abs(ratio) <= tie else 1 if ratio > 0 else -1 for ratio in ratios]


def verdicts(table: Table, mine: str, theirs: str) -> list[int]:
    """The same as this tool says it: 0 where its interval holds 1."""
    return [SIGNS[verdict(table, mine, theirs, (level,)).verdict] for level in LEVELS]


def crossovers(order: Sequence[int]) -> int:
    """How often the order flips along the levels; ties say nothing."""
    decided = [sign for sign in order if sign]
    return sum(before != after for before, after in itertools.pairwise(decided))


@functools.cache
def truth(name: str, *, raised: bool) -> tuple[float, ...]:
    """Along LEVELS: what an endless closed loop shows of the server as it ran, or with its cap above all levels."""
    server = next(server for server in SERVERS if server.name == name)
    return tuple((server.raised() if raised else server).truth(level) for level in LEVELS)


@dataclass(frozen=True)
class Load:
    """The four cells of one load, over tables. spread: (largest - smallest) / mean, median over tables. falls: share of
    tables in which 250 is more than TIE below the best of the others, a fall that the published text explains by
    queueing. flips: share in which the chain's order to the baseline is not the same in all four."""

    spread: Mapping[str, float]
    falls: Mapping[str, float]
    flips: float


def one_load(tables: Sequence[Table]) -> Load:
    spread, falls = {}, {}
    for server in (BASELINE, TREE, CHAIN):
        rows = [[table.cells[server.name][level].value for level in SAME_LOAD] for table in tables]
        spread[server.name] = statistics.median(spread_of(row) for row in rows)
        falls[server.name] = share([row[-1] < (1.0 - TIE) * max(row[:-1]) for row in rows])
    orders = [signs(table.row("chain"), table.row("baseline"))[-len(SAME_LOAD) :] for table in tables]
    return Load(spread, falls, share([crossovers(order) > 0 for order in orders]))


def spread_of(row: Sequence[float]) -> float:
    return (max(row) - min(row)) / statistics.mean(row)


def share(found: Sequence[bool]) -> float:
    return sum(found) / len(found)


@dataclass(frozen=True)
class Ranks:
    """Shares of the tables, along LEVELS: the order of two servers as it truly is, not decided, or wrong. Where there
    is truly none, not deciding is right and deciding is wrong."""

    right: list[float]
    undecided: list[float]
    wrong: list[float]


def ranks(orders: Sequence[Sequence[int]], true: Sequence[int]) -> Ranks:
    columns = [[order[place] for order in orders] for place in range(len(true))]
    right = [share([seen == sign for seen in column]) for column, sign in zip(columns, true, strict=True)]
    undecided = [share([seen == 0 != sign for seen in column]) for column, sign in zip(columns, true, strict=True)]
    wrong = [share([seen not in (0, sign) for seen in column]) for column, sign in zip(columns, true, strict=True)]
    return Ranks(right, undecided, wrong)


def ranks_of(tables: Sequence[Table], mine: str, theirs: str, *, tool: bool) -> Ranks:
    """By bare figures (a tie up to TIE) of the servers as they ran, or by this tool's verdicts."""
    true = signs(truth(mine, raised=tool), truth(theirs, raised=tool), TRUE_TIE)
    if tool:
        return ranks([verdicts(table, mine, theirs) for table in tables], true)
    return ranks([signs(table.row(mine), table.row(theirs), TIE) for table in tables], true)


@dataclass(frozen=True)
class Best:
    """The largest cell of a table. at: how often it stands at which server and level. error: its figure over what is
    true there (0.1: 10 % too large), `curse`: over the mean figure of that cell in all tables. held: share of the
    tables whose interval holds the truth, None without intervals."""

    at: Mapping[str, float]
    error: list[float]
    curse: list[float]
    held: float | None


def best_cells(tables: Sequence[Table], *, tool: bool) -> Best:
    names = [server.name for server in (BASELINE, TREE, CHAIN)]
    means = {(name, level): _mean(tables, name, level, tool=tool) for name in names for level in LEVELS}
    at: dict[str, int] = {}
    error, curse, held = [], [], []
    for table in tables:
        name, level = max(means, key=lambda cell: table.cells[cell[0]][cell[1]].value)
        at[f"{name} at {level}"] = at.get(f"{name} at {level}", 0) + 1
        shown = table.cells[name][level].estimate
        really = truth(name, raised=tool)[LEVELS.index(level)]
        error.append(shown.value / really - 1.0)
        curse.append(shown.value / means[name, level] - 1.0)
        if shown.low is not None and shown.high is not None:
            held.append(shown.low <= really <= shown.high)
    places = {place: count / len(tables) for place, count in sorted(at.items(), key=lambda item: -item[1])}
    return Best(places, error, curse, share(held) if held else None)


def _mean(tables: Sequence[Table], name: str, level: int, *, tool: bool) -> float:
    levels = SAME_LOAD if level in SAME_LOAD and not tool else (level,)
    return statistics.mean(table.cells[name][each].value for table in tables for each in levels)


def coverage(tables: Sequence[Table]) -> tuple[float, int]:
    """Share of this tool's intervals that hold the truth, and how many there were."""
    held = [
        cell.estimate.low <= truth(name, raised=True)[LEVELS.index(level)] <= cell.estimate.high
        for table in tables
        for name, row in table.cells.items()
        for level, cell in row.items()
        if cell.estimate.low is not None and cell.estimate.high is not None
    ]
    return share(held), len(held)
