"""The replay's findings in Markdown. Every figure is of the simulated node."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from benchmarks.measuring import reading
from benchmarks.measuring.curse import CANDIDATES, Curse, shares
from benchmarks.measuring.protocols import Table, verdict
from benchmarks.measuring.published import BASELINE, CHAIN, LEVELS, PUBLISHED_SCATTER, SAME_LOAD, TREE, scatter
from benchmarks.measuring.reading import TIE

Tables = Mapping[tuple[str, str], Sequence[Table]]


def markdown(tables: Tables, curse: Curse) -> str:
    noises = sorted({noise for _protocol, noise in tables}, reverse=True)
    parts = ["Simulated, all of it.", _truth()]
    for noise in noises:
        published, tool = tables["published", noise], tables["tool", noise]
        parts += [
            f"## {noise}: {len(published)} tables by the published protocol, {len(tool)} by this tool",
            _load(published),
            _twins(published, tool),
            _ranks(published, tool, "baseline"),
            _ranks(published, tool, "tree"),
            _errors(published, tool),
            _best(published, tool),
            _covered(tool),
            _node_time(published, tool),
        ]
    return "\n\n".join([*parts, _curse(curse)]) + "\n"


def percent(value: float, digits: int = 0) -> str:
    return f"{100 * value:.{digits}f} %"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _truth() -> str:
    columns = [("baseline", False), ("chain", False), ("chain", True), ("tree", False), ("tree", True)]
    header = ["in flight", *(f"{name}, {'cap 256' if raised else 'as it ran'}" for name, raised in columns)]
    rows = [[str(level)] for level in LEVELS]
    for name, raised in columns:
        for row, value in zip(rows, reading.truth(name, raised=raised), strict=True):
            row.append(f"{value:.0f}")
    return "True closed loop, 512 tokens, tok/s:\n\n" + _table(header, rows)


def _load(published: Sequence[Table]) -> str:
    found = reading.one_load(published)
    rows = []
    for server in (BASELINE, TREE, CHAIN):
        theirs = [server.published[level] for level in SAME_LOAD]
        spread, falls = found.spread[server.name], found.falls[server.name]
        rows.append([server.name, percent(reading.spread_of(theirs), 1), percent(spread, 1), percent(falls)])
    cells = [[t.cells[s.name][level].value for level in SAME_LOAD] for t in published for s in (BASELINE, TREE, CHAIN)]
    return (
        _table(["30, 70, 100, 250: one load", "spread published", "median spread replayed", "falls at 250"], rows)
        + f"\n\nscatter of one load: published {percent(PUBLISHED_SCATTER, 1)}, replayed {percent(scatter(cells), 1)}; "
        f"order of chain and baseline not the same in all four: {percent(found.flips)}"
    )


def _twins(published: Sequence[Table], tool: Sequence[Table]) -> str:
    """Two launches of one server: every difference is noise."""
    bare = {
        f"bare figures, {name}": [reading.signs(table.row("twin"), table.row("baseline"), tie) for table in published]
        for name, tie in (("any difference counts", 0.0), (f"up to {percent(TIE)} is a tie", TIE))
    }
    orders = {**bare, "this tool's verdict at each level": [reading.verdicts(t, "twin", "baseline") for t in tool]}
    rows = [
        [
            name,
            percent(reading.share([reading.crossovers(order) > 0 for order in found])),
            percent(reading.share([any(order) for order in found])),
            percent(statistics.mean(sum(map(abs, order)) for order in found) / len(LEVELS), 1),
        ]
        for name, found in orders.items()
    ]
    whole = [verdict(table, "twin", "baseline", LEVELS).verdict != "unclear" for table in tool]
    rows.append(["this tool's verdict over all levels", "", percent(reading.share(whole)), ""])
    header = ["baseline against itself", "tables with a crossover", "with a winner somewhere", "cells with a winner"]
    return _table(header, rows)


def _ranks(published: Sequence[Table], tool: Sequence[Table], other: str) -> str:
    header = [f"chain against {other}", *(str(level) for level in LEVELS)]
    rows = []
    for name, tables, is_tool in (("published", published, False), ("this tool", tool, True)):
        mine, theirs = (reading.truth(server, raised=is_tool) for server in ("chain", other))
        ratios = (one / another - 1.0 for one, another in zip(mine, theirs, strict=True))
        found = reading.ranks_of(tables, "chain", other, tool=is_tool)
        rows.append([f"{name}: true difference", *(f"{100 * ratio:+.1f} %" for ratio in ratios)])
        rows.append([f"{name}: right", *map(percent, found.right)])
        rows.append([f"{name}: undecided", *map(percent, found.undecided)])
        rows.append([f"{name}: wrong", *map(percent, found.wrong)])
    orders = [reading.signs(table.row("chain"), table.row(other), TIE)[-len(SAME_LOAD) :] for table in published]
    never = reading.share([min(order) >= 0 for order in orders])
    seen = reading.share([order[0] > 0 > min(order[1:]) for order in orders])
    return (
        _table(header, rows)
        + f"\n\nBy bare figures of the servers as they ran: never behind from 30 on in {percent(never)} of the tables; "
        f"ahead at 30 and behind somewhere above in {percent(seen)}."
    )


def _errors(published: Sequence[Table], tool: Sequence[Table]) -> str:
    """Mean error of a cell and its scatter, against the truth of the level it is called by."""
    rows = []
    for protocol, tables, is_tool in (("published", published, False), ("this tool", tool, True)):
        for server in ("baseline", "chain"):
            row = [f"{protocol}, {server}"]
            for level, true in zip(LEVELS, reading.truth(server, raised=is_tool), strict=True):
                off = [table.cells[server][level].value / true - 1.0 for table in tables]
                row.append(f"{100 * statistics.mean(off):+.1f} ± {100 * statistics.stdev(off):.1f}")
            rows.append(row)
    return _table(["cell against the truth, mean % ± scatter", *map(str, LEVELS)], rows)


def _best(published: Sequence[Table], tool: Sequence[Table]) -> str:
    rows = []
    for name, tables, is_tool in (("published", published, False), ("this tool", tool, True)):
        found = reading.best_cells(tables, tool=is_tool)
        places = ", ".join(f"{place}: {percent(part)}" for place, part in list(found.at.items())[:5])
        held = "no interval" if found.held is None else percent(found.held)
        rows.append([name, places, *(f"{percent(statistics.median(v), 1)}" for v in (found.error, found.curse)), held])
    return _table(["largest cell", "where", "over the truth there", "over that cell's mean", "interval holds"], rows)


def _covered(tool: Sequence[Table]) -> str:
    held, count = reading.coverage(tool)
    return f"{percent(held, 1)} of this tool's {count:,} intervals hold the truth."


def _node_time(published: Sequence[Table], tool: Sequence[Table]) -> str:
    names = [server.name for server in (BASELINE, TREE, CHAIN)]
    header = ["node minutes a table", *(str(level) for level in LEVELS), "all"]
    rows = []
    for name, tables in (("published", published), ("this tool", tool)):
        minutes = [
            statistics.mean(sum(table.cells[server][level].node_s for server in names) for table in tables) / 60
            for level in LEVELS
        ]
        rows.append([name, *(f"{value:.1f}" for value in minutes), f"{sum(minutes):.0f}"])
    return _table(header, rows)


def _curse(found: Curse) -> str:
    def span(values: Sequence[float]) -> str:
        mean, low, middle, high = (f"{100 * value:+.1f}" for value in (statistics.mean(values), *shares(values)))
        return f"{mean} % (median {middle}, 90 %: {low} to {high})"

    different, stale, replays = found.different, found.stale, len(found.equal)
    over = [(1.0 + claim) / (1.0 + true) - 1.0 for claim, true in zip(different.claimed, different.true, strict=True)]
    return "\n".join(
        [
            f"## The largest of {CANDIDATES}, {replays} replays",
            "",
            f"- one cell scatters by {percent(found.cell_scatter, 1)}",
            f"- best of {CANDIDATES} equal servers over what each has: {span(found.equal)}",
            f"- best of {CANDIDATES} different servers, gain over the baseline: claimed {span(different.claimed)}, "
            f"true {span(different.true)}, ratio overstated by {span(over)}",
            f"- what the pick lacks to the best: {span(different.regret)}; picked another: "
            f"{percent(reading.share([value > 0 for value in different.regret]))}",
            f"- the pick and the baseline measured again: ratio off by {span(different.remeasured)}; interval holds "
            f"the truth: {percent(different.covered / replays)}",
            "",
            f"## The stale baseline, {replays} replays",
            "",
            f"- over the baseline of another day: {span(stale.stale)}, without noise {percent(stale.stale_true, 1)}",
            f"- over the study's own: {span(stale.fresh)}, without noise {percent(stale.fresh_true, 1)}",
            f"- this tool's verdicts on the study's own: {stale.verdicts}",
        ]
    )
