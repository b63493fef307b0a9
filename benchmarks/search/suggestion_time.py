#!/usr/bin/env python
"""How long a strategy thinks, by how many trials are in.

    python benchmarks/search/suggestion_time.py --strategies greybox greedy_tpe --trials 60 1000

Trials of random valid configurations are replayed first, then proposals are timed, each with its result in: wall
clock, and processor time, which a machine that is shared does not stretch as much.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from autotune.domain.study import STRATEGIES
from autotune.domain.trial import Origin, TrialRequest
from autotune.study.ledger import Ledger
from autotune.study.sampler import Sampler, quiet
from autotune.study.strategies import proposer
from benchmarks.search import tables
from benchmarks.search.replay import Node


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strategies", nargs="+", choices=STRATEGIES, default=["greybox", "greedy_tpe"])
    parser.add_argument("--trials", nargs="+", type=int, default=[60, 1000])
    parser.add_argument("--proposals", type=int, default=20)
    parser.add_argument("--table", choices=tables.NAMES, default="nvlink-x8")
    options = parser.parse_args()
    quiet()
    table = tables.load(options.table)
    print("| strategy | trials in | wall ms: median (95th percentile) | processor ms |\n|---|---|---|---|")  # noqa: T201
    for strategy in options.strategies:
        for trials in options.trials:
            walls, processors = _timed(table, strategy, trials, options.proposals)
            high = walls[min(len(walls) - 1, round(0.95 * (len(walls) - 1)))]
            middle, busy = statistics.median(walls), statistics.median(processors)
            print(f"| {strategy} | {trials} | {middle:.0f} ({high:.0f}) | {busy:.0f} |")  # noqa: T201


def _timed(table: tables.Table, strategy: str, trials: int, proposals: int) -> tuple[list[float], list[float]]:
    """Milliseconds, sorted. The first proposal fills caches and is not counted."""
    node, ledger = Node(table, seed=0), Ledger(table.spec.space, table.validity())
    legal = [c for c in table.spec.space.configurations() if ledger.is_legal(c)]
    random.Random(0).shuffle(legal)
    for configuration in (table.spec.baseline, *legal):
        if len(ledger.results) < trials and ledger.is_open(configuration):
            ledger.add(node.evaluate(TrialRequest(len(ledger.results), configuration, Origin.SAMPLER)))
    tpe = Sampler(ledger, seed=0)
    chosen = proposer(table.spec, ledger, tpe, strategy)
    walls, processors = [], []
    for _ in range(proposals + 1):
        wall, processor = time.perf_counter(), time.process_time()
        proposed = chosen.propose()
        walls.append(1000.0 * (time.perf_counter() - wall))
        processors.append(1000.0 * (time.process_time() - processor))
        if proposed is not None:
            ledger.add(node.evaluate(TrialRequest(len(ledger.results), proposed, Origin.SAMPLER)))
            tpe.add(ledger.results[-1])
    return sorted(walls[1:]), sorted(processors[1:])


if __name__ == "__main__":
    main()
