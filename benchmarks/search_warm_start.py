#!/usr/bin/env python
"""What a warm start saves, and what it costs where it is from another node.

    benchmarks/search_warm_start.py --seeds 24

For each table of benchmarks/search and each seed: an earlier study of the same node (another seed), an earlier one of
another node (FROM), then the new study cold and warm from either. Node minutes until the best measured is within 2 %
of the optimum for good; the earlier study's own minutes are not counted: it was run anyway.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from autotune.domain.knowledge import Knowledge
from autotune.domain.study import Budget, StudySpec
from autotune.domain.trial import Provenance, TrialResult
from autotune.study import EarlierStudy, Here, learn, run_study
from benchmarks.search import contestants, results, tables
from benchmarks.search.replay import Run, Truth, summarise

FROM = {
    "rtx-pro-6000-x8": "nvlink-x8",
    "nvlink-x8": "rtx-pro-6000-x8",
    "one-card-8b": "rtx-pro-6000-x8",
    "held-out": "rtx-pro-6000-x8",
}
"""The other node that a warm start is from."""
FACTS = {"cpu": "replayed"}
KINDS = ("cold", "same node", "other node")
EARLIER_SEED = 50_000


def main() -> None:
    options = _options()
    done: dict[tuple[str, str, int], Run] = {}
    studies: dict[tuple[str, int], EarlierStudy] = {}
    loaded = {name: tables.load(name) for name in {*options.tables, *(FROM[name] for name in options.tables)}}
    for name in options.tables:
        table, truth = loaded[name], Truth(loaded[name])
        for seed in range(options.seeds):
            for kind in options.kinds:
                known = Knowledge()
                if kind != "cold":
                    source = name if kind == "same node" else FROM[name]
                    if (source, seed) not in studies:
                        studies[source, seed] = _earlier(loaded[source], source, seed, options)
                    here = Here(FACTS, lambda _configuration: tables.VERSION, table.validity())
                    known = learn(table.spec, [studies[source, seed]], here)
                session = _run(table, replace(table.spec, earlier=known), seed, options)
                run = summarise(session.node, truth, 0.0)
                done[name, kind, seed] = run
                _append(options.out, name, kind, seed, run)
            print(f"{name}: seed {seed} done", file=sys.stderr)  # noqa: T201
        print(_table(name, done, options.seeds))  # noqa: T201


def _run(table: tables.Table, spec: StudySpec, seed: int, options: argparse.Namespace) -> contestants.Session:
    session = contestants.Session(table, seed, options.trials)
    spec = replace(spec, strategy=options.strategy, seed=seed, budget=Budget(trials=options.trials))
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        run_study(
            spec,
            evaluate=session.evaluate,
            validity=table.validity(),
            history=(),
            storage=Path(folder) / "journal.log",
        )
    return session


def _earlier(table: tables.Table, name: str, seed: int, options: argparse.Namespace) -> EarlierStudy:
    """A whole study with another seed, and with the provenance that a record would have."""
    session = _run(table, table.spec, EARLIER_SEED + seed, options)
    provenance = Provenance("simulated", tables.VERSION.text, simulated=True, node=FACTS)
    trials: Sequence[TrialResult] = [replace(result, provenance=provenance) for result in session.node.results]
    return EarlierStudy(f"{name}-earlier", table.spec, tuple(trials))


def _append(out: Path, name: str, kind: str, seed: int, run: Run) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    line = {"table": name, "kind": kind, "seed": seed, "reached": run.reached, "path": run.path, "crashed": run.crashed}
    with out.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def _table(name: str, done: dict[tuple[str, str, int], Run], seeds: int) -> str:
    lines = [
        f"\n### {name}\n",
        "| start | seeds | min to 2 %: median (quartiles) | runs that got there | regret at 30 min | at 60 | at 120 "
        "| crashed |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for kind in dict.fromkeys(kind for table, kind, _seed in done if table == name):
        runs = [done[name, kind, seed] for seed in range(seeds)]
        row = results.row(kind, runs, (30.0, 60.0, 120.0))
        low, middle, high = ("never" if value is None else f"{value:.0f}" for value in row.reached)
        regrets = " | ".join(f"{100 * regret:.1f} %" for regret in row.regrets)
        crashed = statistics.mean(run.crashed for run in runs)
        shown = kind if kind != "other node" else f"other node ({FROM[name]})"
        lines.append(
            f"| {shown} | {seeds} | {middle} ({low}–{high}) | {100 * row.share:.0f} % | {regrets} | {crashed:.1f} |"
        )
    return "\n".join(lines)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=24)
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--strategy", default="greedy_tpe")
    parser.add_argument("--tables", nargs="+", choices=tables.NAMES, default=list(tables.NAMES))
    parser.add_argument("--out", type=Path, default=Path("runs/benchmark_warm_start/results.jsonl"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
