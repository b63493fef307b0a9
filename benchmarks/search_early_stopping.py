#!/usr/bin/env python
"""What stopping a trial before its last level saves, and whether it ever stops the one that should win.

    benchmarks/search_early_stopping.py --seeds 100
    benchmarks/search_early_stopping.py --seeds 3 --tables nvlink-x8      a first look

Replays the tables of benchmarks/search with the strategy greedy_tpe, trials being stopped as in a study. The replayed
node knows what a stopped trial would have cost to its end, so that both costs are of the same trials. The winner is the
best by the noiseless truth of all that were tried, stopped ones included; it counts as stopped where no trial that ran
to its end is as good. Writes a line a run to OUT, and goes on from there.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from autotune.domain.study import Budget
from autotune.domain.trial import TrialRequest, TrialResult, TrialState
from autotune.study import run_study
from benchmarks.search import tables
from benchmarks.search.replay import Node, Truth

SAME = 1e-9


class StoppingNode(Node):
    """A node whose trials end when their screen says so. `whole` holds what each would have been without."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.whole: list[TrialResult] = []

    def evaluate(self, request: TrialRequest) -> TrialResult:
        whole = super().evaluate(request)
        self.whole.append(whole)
        if request.screen is None or whole.score is None:
            return whole
        done = []
        for level in request.screen.order[:-1]:
            done += [seen for seen in whole.measurements if seen.concurrency == level]
            bound = request.screen.bound(done)
            if bound is not None:
                left = self.seconds_of(whole, set(self.table.levels) - set(bound.measured))
                self.results[-1] = replace(
                    whole,
                    state=TrialState.PRUNED,
                    score=None,
                    bound=bound,
                    measurements=tuple(sorted(done, key=lambda seen: seen.concurrency)),
                    node_seconds=whole.node_seconds - left,
                )
                break
        return self.results[-1]

    def seconds_of(self, result: TrialResult, levels: set[int]) -> float:
        """What these levels of a complete trial took."""
        plan = self.table.spec.plan()
        rates = {m.concurrency: m.output_throughput.value for m in result.measurements if m.output_throughput}
        chosen = [level for level in plan.levels if level.concurrency in levels]
        return sum((one.requests + one.concurrency) * plan.max_tokens / rates[one.concurrency] for one in chosen)


@dataclass(frozen=True)
class Run:
    """minutes: of node time; whole_minutes: had every trial run to its end; measuring_minutes: the part of these that
    is no start-up. exceeded: stopped trials that would have scored more than their bound. lost: true regret of the best
    complete trial, less that of the best tried."""

    minutes: float
    whole_minutes: float
    measuring_minutes: float
    served: int
    stopped: int
    exceeded: int
    winner_stopped: bool
    lost: float


def run(table: tables.Table, truth: Truth, seed: int, options: argparse.Namespace) -> Run:
    node = StoppingNode(table, seed)
    budget = Budget(trials=options.trials, early_stopping=True)
    spec = replace(table.spec, seed=seed, budget=budget, strategy=options.strategy)
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        journal = Path(folder) / "journal.log"
        run_study(spec, evaluate=node.evaluate, validity=table.validity(), history=(), storage=journal)
    served = [(r, w) for r, w in zip(node.results, node.whole, strict=True) if w.score is not None]
    stopped = [
        (r.bound.score, w.score.estimate.value) for r, w in served if r.bound is not None and w.score is not None
    ]
    best = min(truth.regret(r.configuration) for r, _whole in served)
    kept = min(truth.regret(r.configuration) for r, _whole in served if r.score is not None)
    levels = set(table.levels)
    return Run(
        node.seconds / 60.0,
        sum(whole.node_seconds for whole in node.whole) / 60.0,
        sum(node.seconds_of(whole, levels) for _result, whole in served) / 60.0,
        len(served),
        len(stopped),
        sum(bound < score for bound, score in stopped),
        kept > best + SAME,
        kept - best,
    )


def row(name: str, runs: Sequence[Run]) -> str:
    ratios = [one.minutes / one.whole_minutes for one in runs]
    measuring = [1.0 - (one.whole_minutes - one.minutes) / one.measuring_minutes for one in runs]
    share = sum(one.stopped for one in runs) / sum(one.served for one in runs)
    wrong = sum(one.winner_stopped for one in runs)
    lost = max(one.lost for one in runs)
    exceeded = sum(one.exceeded for one in runs)
    return (
        f"| {name} | {len(runs)} | {_quartiles(ratios)} | {_quartiles(measuring)} | {100 * share:.0f} % "
        f"| {wrong} of {len(runs)} | {100 * lost:.2f} % | {exceeded} of {sum(one.stopped for one in runs)} |"
    )


def _quartiles(values: Sequence[float]) -> str:
    if len(values) < 2:
        return f"{values[0]:.3f}"
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{middle:.3f} ({low:.3f}–{high:.3f})"


HEAD = (
    "| table | seeds | node minutes with / without: median (quartiles) | the same, measuring alone "
    "| of the trials that served, stopped | winner stopped | regret that cost, at most | bound exceeded |\n"
    "|---|---|---|---|---|---|---|---|"
)


def main() -> None:
    options = _options()
    done = _read(options.out)
    print(HEAD)  # noqa: T201
    for name in options.tables:
        table = tables.load(name)
        truth = Truth(table)
        runs = []
        for seed in range(options.seeds):
            key = f"{name} {options.strategy} {options.trials} {seed}"
            if key not in done:
                done[key] = run(table, truth, seed, options)
                options.out.parent.mkdir(parents=True, exist_ok=True)
                with options.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"key": key, "run": asdict(done[key])}) + "\n")
            runs.append(done[key])
        print(row(name, runs), flush=True)  # noqa: T201


def _read(path: Path) -> dict[str, Run]:
    """A torn last line, of a run that was killed, is left out."""
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            data = json.loads(line)
        except json.JSONDecodeError:
            continue
        found[data["key"]] = Run(**data["run"])
    return found


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--tables", nargs="+", choices=tables.NAMES, default=list(tables.NAMES))
    parser.add_argument("--strategy", default="greedy_tpe")
    parser.add_argument("--out", type=Path, default=Path("runs/benchmark_early_stopping/results.jsonl"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
