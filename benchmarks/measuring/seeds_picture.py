"""The replay as a picture: what the protocol shows against what is true, and how often the order comes out right."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from html import escape

from benchmarks.measuring import reading
from benchmarks.measuring.protocols import Table
from benchmarks.measuring.published import BASELINE, CHAIN, LEVELS

WIDTH, HEIGHT, LEFT, TOP, PANEL, GAP, PLOT = 980, 430, 58, 62, 420, 76, 290
COLOURS = {"baseline": "#1b6ca8", "chain": "#c0392b"}
RIGHT, UNDECIDED, WRONG = "#2e8b57", "#cfd4d8", "#c0392b"
MOST = 1600.0
NOISE = "loud"
"""The noise of the picture: that of the published table."""

Tables = Mapping[tuple[str, str], Sequence[Table]]


def svg(tables: Tables) -> str:
    published, tool = tables["published", NOISE], tables["tool", NOISE]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" '
        'font-size="12"><rect width="100%" height="100%" fill="white"/>',
        _text(LEFT, 20, "Simulated node: throughput by level", size=14),
        *_curves(published),
        _text(LEFT + PANEL + GAP, 20, "Chain against baseline: share of tables with the true order", size=14),
        *_bars(
            LEFT + PANEL + GAP,
            TOP,
            reading.ranks_of(published, "chain", "baseline", tool=False),
            "published protocol: bare figures, 2 % a tie, as it ran",
        ),
        *_bars(
            LEFT + PANEL + GAP,
            TOP + PLOT / 2 + 18,
            reading.ranks_of(tool, "chain", "baseline", tool=True),
            "this tool: its verdicts, cap 256",
        ),
        *_bar_legend(LEFT + PANEL + GAP),
    ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _x(level: int) -> float:
    return LEFT + PANEL * math.log(level) / math.log(LEVELS[-1])


def _y(throughput: float) -> float:
    return TOP + PLOT * (1.0 - throughput / MOST)


def _curves(published: Sequence[Table]) -> list[str]:
    parts = []
    for throughput in range(0, int(MOST) + 1, 400):
        y = _y(throughput)
        parts.append(f'<line x1="{LEFT}" x2="{LEFT + PANEL}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(_text(LEFT - 6, y + 4, f"{throughput:,}", anchor="end"))
    parts += [_text(_x(level), TOP + PLOT + 16, str(level), anchor="middle") for level in LEVELS]
    parts.append(_text(LEFT + PANEL / 2, TOP + PLOT + 32, "level (tok/s upwards)", anchor="middle"))
    for server in (BASELINE, CHAIN):
        colour = COLOURS[server.name]
        cuts = [
            statistics.quantiles([t.cells[server.name][level].value for t in published], n=20, method="inclusive")
            for level in LEVELS
        ]
        edge = [(_x(level), _y(cut[-1])) for level, cut in zip(LEVELS, cuts, strict=True)]
        edge += [(_x(level), _y(cut[0])) for level, cut in reversed(list(zip(LEVELS, cuts, strict=True)))]
        parts.append(f'<polygon points="{_points(edge)}" fill="{colour}" opacity="0.22"/>')
        for raised, dash in ((True, ""), (False, ' stroke-dasharray="5 4"')):
            true = zip(LEVELS, reading.truth(server.name, raised=raised), strict=True)
            line = _points([(_x(level), _y(value)) for level, value in true])
            parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.8"{dash}/>')
        for level, value in server.published.items():
            parts.append(f'<circle cx="{_x(level):.1f}" cy="{_y(value):.1f}" r="3.2" fill="{colour}"/>')
    return [*parts, *_curve_legend()]


def _curve_legend() -> list[str]:
    def line(dash: str) -> Callable[[float, float], str]:
        return lambda x, y: f'<line x1="{x}" x2="{x + 26}" y1="{y}" y2="{y}" stroke="#333" stroke-width="1.8"{dash}/>'

    marks: list[tuple[str, Callable[[float, float], str]]] = [
        ("true, with so many in flight (cap 256)", line("")),
        ("true, as it ran (the chain's cap is 48)", line(' stroke-dasharray="5 4"')),
        ("replayed protocol, 90 % of the tables", lambda x, y: _box(x, y - 5, 26, 10, "#333", 0.22)),
        ("published", lambda x, y: f'<circle cx="{x + 13}" cy="{y}" r="3.2" fill="#333"/>'),
    ]
    parts = []
    for place, (label, draw) in enumerate(marks):
        y = TOP + 10 + 17 * place
        parts += [draw(LEFT + 10, y), _text(LEFT + 44, y + 4, label)]
    for place, (name, colour) in enumerate(COLOURS.items()):
        y = TOP + 10 + 17 * (len(marks) + place)
        parts += [_box(LEFT + 10, y - 5, 26, 10, colour), _text(LEFT + 44, y + 4, name)]
    return parts


def _bars(left: float, top: float, found: reading.Ranks, title: str) -> list[str]:
    height, step = PLOT / 2 - 18, PANEL / len(LEVELS)
    parts = [_text(left, top - 6, title)]
    for place, level in enumerate(LEVELS):
        below = top + height
        for values, colour in ((found.right, RIGHT), (found.undecided, UNDECIDED), (found.wrong, WRONG)):
            size = height * values[place]
            below -= size
            parts.append(_box(left + place * step + 4, below, step - 8, size, colour))
        parts.append(_text(left + (place + 0.5) * step, top + height + 14, str(level), anchor="middle"))
    return parts


def _bar_legend(left: float) -> list[str]:
    y = TOP + PLOT + 40
    parts = []
    for place, (label, colour) in enumerate((("right", RIGHT), ("undecided", UNDECIDED), ("wrong", WRONG))):
        parts += [_box(left + 100 * place, y - 9, 14, 10, colour), _text(left + 100 * place + 20, y, label)]
    return parts


def _box(x: float, y: float, width: float, height: float, colour: str, opacity: float = 1.0) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}" opacity="{opacity}"/>'
    )


def _text(x: float, y: float, words: str, *, anchor: str = "start", size: int = 12) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{escape(words)}</text>'


def _points(pairs: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in pairs)
