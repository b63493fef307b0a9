"""The chosen environment as KEY=VALUE lines."""

from __future__ import annotations

from autotune.exporters.export import Export
from autotune.exporters.quoting import comment, quoted


def render(export: Export) -> str:
    """Quoted for a POSIX shell (`set -a; . ./FILE`). The command stands above in a comment."""
    lines = comment(export.heading)
    if export.dropped:
        lines += comment([f"unset before: {' '.join(export.dropped)}"])
    lines += comment(["command: " + " ".join(quoted(word) for word in export.argv)])
    lines += [f"{name}={quoted(word)}" for name, word in export.environment.items()]
    return "\n".join(lines) + "\n"
