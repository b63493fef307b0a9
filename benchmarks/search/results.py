"""Results of the benchmark: one line of JSON for each table x strategy x seed, appended as it ends, so that a run that
was stopped goes on where it was; and what is read off them."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.search.replay import WITHIN, Run, Truth, measuring_seconds
from benchmarks.search.tables import Table

CALCULATED = "random_calculated"


@dataclass(frozen=True)
class Key:
    table: str
    strategy: str
    seed: int
    trials: int


def read(path: Path) -> dict[Key, Run]:
    """A torn last line, of a run that was killed, is left out."""
    found: dict[Key, Run] = {}
    if not path.exists():
        return found
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            data = json.loads(line)
        except json.JSONDecodeError:
            continue
        run = data["run"]
        run["path"] = tuple((minutes, regret) for minutes, regret in run["path"])
        found[Key(**data["key"])] = Run(**run)
    return found


def append(path: Path, key: Key, run: Run) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = path.read_bytes() if path.exists() else b""
    torn = bool(content) and not content.endswith(b"\n")
    with path.open("a", encoding="utf-8") as file:
        file.write(("\n" if torn else "") + json.dumps({"key": asdict(key), "run": asdict(run)}) + "\n")


@dataclass(frozen=True)
class Row:
    """Of one strategy on one table. `reached`: lower quartile, median, upper quartile of the node minutes until within
    2 % for good; None where that share of the runs never got there."""

    strategy: str
    seeds: int
    reached: tuple[float | None, float | None, float | None]
    share: float
    regrets: tuple[float, ...]
    invalid: float
    duplicates: float
    crashed: float
    suggest_ms: float


def row(strategy: str, runs: Sequence[Run], at_minutes: Sequence[float]) -> Row:
    reached = [run.reached for run in runs]
    return Row(
        strategy,
        len(runs),
        (_quantile(reached, 0.25), _quantile(reached, 0.5), _quantile(reached, 0.75)),
        sum(value is not None for value in reached) / len(runs),
        tuple(statistics.median(regret_at(run, minutes) for run in runs) for minutes in at_minutes),
        statistics.mean(run.invalid for run in runs),
        statistics.mean(run.duplicates for run in runs),
        statistics.mean(run.crashed for run in runs),
        statistics.median(run.suggest_ms for run in runs),
    )


def regret_at(run: Run, minutes: float) -> float:
    """Of the incumbent at that time; 1 before the first trial has ended."""
    return next((regret for at, regret in reversed(run.path) if at <= minutes), 1.0)


def _quantile(values: Iterable[float | None], share: float) -> float | None:
    """None counts as later than anything."""
    ordered = sorted(float("inf") if value is None else value for value in values)
    found = ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]
    return None if found == float("inf") else found


def random_median(table: Table, truth: Truth) -> tuple[float, float, float]:
    """Random search calculated, without noise: node minutes until one of the configurations within 2 % is drawn, in
    one run of four, of two, and in three of four. A trial costs the mean of the table's; a draw is never repeated."""
    count = len(truth.legal)
    good = sum(truth.regret_of(form) <= WITHIN for form in truth.legal)
    costs = []
    for form in truth.legal:
        cell = table.cells[form]
        costs.append(cell.seconds if cell.death else cell.seconds + measuring_seconds(table, cell.throughput))
    mean = statistics.mean(costs) / 60.0

    def trials(share: float) -> int:
        missed, drawn = 1.0, 0
        while missed > 1.0 - share:
            missed *= (count - drawn - good) / (count - drawn)
            drawn += 1
        return drawn

    return trials(0.25) * mean, trials(0.5) * mean, trials(0.75) * mean


def median_path(runs: Sequence[Run], minutes: Sequence[float], pick: Callable[[Sequence[float]], float]) -> list[float]:
    return [pick([regret_at(run, at) for run in runs]) for at in minutes]
