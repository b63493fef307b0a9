"""Words and comments for a POSIX shell."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from autotune.exporters.export import Word


def quoted(word: Word) -> str:
    """A secret is a reference in double quotes; `set -u` stops where it is not set."""
    if not word.secret:
        return shlex.quote(word.text)
    return f'{word.text}"${{{word.secret}}}"'


def comment(lines: Iterable[str]) -> list[str]:
    """Each line behind `# `, also the second of a text that has a line break in it."""
    return [f"# {part}".rstrip() for line in lines for part in (line.splitlines() or [""])]
