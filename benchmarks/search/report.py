"""The benchmark's table in Markdown and its plot as SVG, written by hand: no plotting library is needed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from html import escape

from autotune.domain.study import StudySpec
from benchmarks.search.replay import Run
from benchmarks.search.results import Row, median_path

AT_MINUTES = (60.0, 120.0, 240.0)
COLOURS = ("#1b6ca8", "#c0392b", "#2e8b57", "#8e44ad", "#d68910", "#7f8c8d", "#16a085", "#34495e")
DEFAULT = StudySpec.strategy
"""Drawn with a broad line."""
WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 760, 380, 60, 46, 34, 170
LEAST_REGRET = 0.002


def markdown(rows: Sequence[Row], calculated: tuple[float, float, float], limits: Sequence[str] = ()) -> str:
    """The best first. `calculated` are the quartiles of random search; `limits`: rows that know the answer, the first
    of which is what the others are compared with."""
    least = next((row.reached[1] for row in rows if limits and row.strategy == limits[0]), None)
    lines = [
        "| strategy | seeds | min to 2 %: median (quartiles) | x random | x oracle | runs that got there "
        + "".join(f"| regret at {minutes:.0f} min " for minutes in AT_MINUTES)
        + "| invalid | duplicates | crashed | ms |",
        "|---|---|---|---|---|---|" + "---|" * len(AT_MINUTES) + "---|---|---|---|",
    ]
    median = calculated[1]
    quartiles = f"{calculated[1]:.0f} ({calculated[0]:.0f}–{calculated[2]:.0f})"
    lines.append(f"| *random, calculated* | | {quartiles} | 1 | | |" + " |" * len(AT_MINUTES) + " 0 | 0 | | |")
    for row in sorted(rows, key=lambda row: (row.reached[1] or math.inf, row.regrets)):
        low, middle, high = ("never" if value is None else f"{value:.0f}" for value in row.reached)
        ratio = "–" if row.reached[1] is None else f"{row.reached[1] / median:.2f}"
        above = "–" if row.reached[1] is None or not least else f"{row.reached[1] / least:.1f}"
        name = f"*{row.strategy}*" if row.strategy in limits else row.strategy
        regrets = "".join(f" {100 * regret:.1f} % |" for regret in row.regrets)
        lines.append(
            f"| {name} | {row.seeds} | {middle} ({low}–{high}) | {ratio} | {above} | {100 * row.share:.0f} % |{regrets}"
            f" {row.invalid:.1f} | {row.duplicates:.1f} | {row.crashed:.1f} | {row.suggest_ms:.0f} |"
        )
    return "\n".join(lines)


def svg(title: str, runs: Mapping[str, Sequence[Run]], minutes: float) -> str:
    """Median regret (log scale) against node minutes, one line a strategy."""
    times = [minutes * step / 120 for step in range(1, 121)]
    inner_width, inner_height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x(at: float) -> float:
        return LEFT + inner_width * at / minutes

    def y(regret: float) -> float:
        share = math.log(max(regret, LEAST_REGRET) / LEAST_REGRET) / math.log(1.0 / LEAST_REGRET)
        return TOP + inner_height * (1.0 - share)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" '
        f'font-size="12"><rect width="100%" height="100%" fill="white"/>',
        f'<text x="{LEFT}" y="20" font-size="14">{escape(title)}: median regret of the incumbent</text>',
    ]
    for regret in (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0):
        dash = "" if regret == 0.02 else ' stroke-dasharray="2 4"'
        parts.append(
            f'<line x1="{LEFT}" x2="{LEFT + inner_width}" y1="{y(regret):.1f}" y2="{y(regret):.1f}" '
            f'stroke="#bbb"{dash}/>'
            f'<text x="{LEFT - 6}" y="{y(regret) + 4:.1f}" text-anchor="end">{100 * regret:g} %</text>'
        )
    for step in range(5):
        at = minutes * step / 4
        parts.append(f'<text x="{x(at):.1f}" y="{HEIGHT - 24}" text-anchor="middle">{at:.0f}</text>')
    parts.append(f'<text x="{LEFT + inner_width / 2}" y="{HEIGHT - 8}" text-anchor="middle">node minutes</text>')
    for index, (strategy, found) in enumerate(runs.items()):
        line = f'stroke="{COLOURS[index % len(COLOURS)]}"'
        line += "" if index < len(COLOURS) else ' stroke-dasharray="7 4"'
        width = 3.2 if strategy == DEFAULT else 1.8
        regrets = median_path(found, times, statistics.median)
        points = " ".join(f"{x(at):.1f},{y(regret):.1f}" for at, regret in zip(times, regrets, strict=True))
        parts.append(f'<polyline points="{points}" fill="none" {line} stroke-width="{width}"/>')
        below = TOP + 14 * index + 8
        parts.append(
            f'<line x1="{WIDTH - RIGHT + 12}" x2="{WIDTH - RIGHT + 32}" y1="{below - 4}" y2="{below - 4}" '
            f'{line} stroke-width="3"/><text x="{WIDTH - RIGHT + 38}" y="{below}">{escape(strategy)}</text>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"
