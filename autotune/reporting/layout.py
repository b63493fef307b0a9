"""Tables, code blocks and escapes, in plain text and in Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """Every row is as long as the header. Columns whose index is in `right` are aligned to the right."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int] = frozenset()


def as_text(table: Table) -> str:
    """Columns two blanks apart, a rule under the header; empty for a table without rows."""
    if not table.rows:
        return ""
    lines = [table.header, *table.rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(table.header))]

    def laid_out(cells: Sequence[str]) -> str:
        placed = [
            cell.rjust(widths[column]) if column in table.right else cell.ljust(widths[column])
            for column, cell in enumerate(cells)
        ]
        return "  ".join(placed).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([laid_out(table.header), rule, *(laid_out(row) for row in table.rows)])


def as_markdown(table: Table) -> str:
    """A table of GitHub's Markdown, cells escaped; empty for a table without rows."""
    if not table.rows:
        return ""
    marks = ["---:" if column in table.right else "---" for column in range(len(table.header))]
    lines = [[escape(cell) for cell in table.header], marks, *([escape(cell) for cell in row] for row in table.rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def escape(text: str) -> str:
    """Text that means itself in Markdown, also inside a table: one line, nothing of it mark-up."""
    return re.sub(r"([\\`|*<\[\]])", r"\\\1", " ".join(text.split()))


def code_block(text: str, language: str = "") -> str:
    """Fenced by more backticks than the text has in a row."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"
