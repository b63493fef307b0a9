#!/usr/bin/env python
"""Replays the protocol of the published table on the simulated node that was fitted to it, beside this tool's own.

    benchmarks/measuring/seeds_replay.py --quick                                   12 tables of each kind
    benchmarks/measuring/seeds_replay.py --tables 200 --tool-tables 25 --out OUT   12 minutes of CPU

Stopped, it goes on where it was when it is typed again.

Writes OUT/tables.jsonl (a line a table), OUT/curse.json, OUT/report.md and OUT/seeds_protocol.svg. Everything in them
is simulated. Use the interpreter that has autotune.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from autotune.domain.measurement import Estimate
from benchmarks.measuring import curse, seeds_picture, seeds_report
from benchmarks.measuring.protocols import PROTOCOLS, Cell, Table
from benchmarks.measuring.virtual import Noise

NOISES = {"quiet": Noise(relative=0.01), "loud": Noise(relative=0.072)}
"""quiet: the simulated node's default. loud: a burst scatters as the four cells of one load do in the published
table (4.4 %); a test holds it to that."""

Tables = dict[tuple[str, str], list[Table]]
"""By protocol and noise."""


def main() -> None:
    options = _options()
    options.out.mkdir(parents=True, exist_ok=True)
    tables = replay(options.out / "tables.jsonl", options.tables, options.tool_tables)
    side = curse.run(options.out / "curse.json", options.tables)
    (options.out / "report.md").write_text(seeds_report.markdown(tables, side), encoding="utf-8")
    (options.out / "seeds_protocol.svg").write_text(seeds_picture.svg(tables), encoding="utf-8")


def replay(path: Path, tables: int, tool_tables: int) -> Tables:
    """What `path` does not hold yet is made and appended."""
    found = _read(path) if path.exists() else {}
    for noise, law in NOISES.items():
        for protocol, make in PROTOCOLS.items():
            known = found.setdefault((protocol, noise), [])
            wanted = tables if protocol == "published" else tool_tables
            have = {table.number for table in known}
            for number in (number for number in range(wanted) if number not in have):
                table = make(noise, number, law)
                with path.open("a", encoding="utf-8") as lines:
                    lines.write(json.dumps({"protocol": protocol, **asdict(table)}) + "\n")
                known.append(table)
    return found


def _read(path: Path) -> Tables:
    found: Tables = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        data = json.loads(line)
        cells = {
            server: {int(level): Cell(Estimate(**cell["estimate"]), cell["node_s"]) for level, cell in row.items()}
            for server, row in data["cells"].items()
        }
        table = Table(data["noise"], data["number"], cells)
        found.setdefault((data["protocol"], table.noise), []).append(table)
    return found


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=200, help="tables by the published protocol, for each noise")
    parser.add_argument("--tool-tables", type=int, help="tables by this tool (default: as many)")
    parser.add_argument("--out", type=Path, default=Path("seeds-replay"))
    parser.add_argument("--quick", action="store_true", help="12 tables of each kind")
    options = parser.parse_args()
    if min(options.tables, options.tool_tables or options.tables) < 2:
        parser.error("at least 2 tables of each kind are needed: one has no spread")
    if options.quick:
        options.tables = 12
    options.tool_tables = options.tables if options.tool_tables is None else options.tool_tables
    return options


if __name__ == "__main__":
    main()
