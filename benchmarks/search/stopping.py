"""What ending by itself saves and costs: each run that did beside the run of the same seed that went on."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from benchmarks.search.contestants import SETTLING
from benchmarks.search.replay import WITHIN, Run
from benchmarks.search.results import Key


def markdown(table: str, trials: int, done: Mapping[Key, Run]) -> str:
    """Empty where no such pair was run."""
    lines = []
    for name in sorted({key.strategy for key in done if key.strategy.endswith(SETTLING)}):
        pairs = []
        for key, run in done.items():
            full = done.get(Key(table, name.removesuffix(SETTLING), key.seed, trials))
            if (key.table, key.strategy, key.trials) == (table, name, trials) and full is not None:
                pairs.append((run, full))
        if pairs:
            lines.append(_row(name, pairs))
    if not lines:
        return ""
    names = ("strategy", "seeds", "trials at the end", "node minutes saved", "short of 2 %", "so the full run", "lost")
    return "\n".join([f"| {' | '.join(names)} |", "|---" * len(names) + "|", *lines]) + "\n"


def _row(name: str, pairs: list[tuple[Run, Run]]) -> str:
    ended = statistics.median(len(run.path) for run, _full in pairs)
    saved = statistics.median(1.0 - run.path[-1][0] / full.path[-1][0] for run, full in pairs)
    early = sum(run.path[-1][1] > WITHIN for run, _full in pairs)
    anyway = sum(full.path[-1][1] > WITHIN for _run, full in pairs)
    lost = statistics.mean(run.path[-1][1] - full.path[-1][1] for run, full in pairs)
    figures = (name, len(pairs), f"{ended:.0f}", f"{100 * saved:.0f} %", early, anyway, f"{100 * max(lost, 0.0):.2f} %")
    return f"| {' | '.join(map(str, figures))} |"
