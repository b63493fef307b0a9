"""A bash script that becomes the server."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.exporters.export import Export, Word
from autotune.exporters.quoting import comment, quoted


def render(export: Export) -> str:
    """Sets the variables that the space chose, unsets those that the server of the trial was kept from, and gives
    way to the server. The rest of the environment is the caller's."""
    lines = ["#!/usr/bin/env bash", *comment(export.heading), "set -euo pipefail", ""]
    if export.dropped:
        lines += [*comment(["set in the shell of the study, and kept from the server:"])]
        lines += [f"unset {' '.join(export.dropped)}", ""]
    lines += [f"export {name}={quoted(word)}" for name, word in export.environment.items()]
    if export.environment:
        lines.append("")
    groups = [" ".join(quoted(word) for word in group) for group in _by_flag(export.argv)]
    return "\n".join(lines) + "\nexec " + " \\\n  ".join(groups) + "\n"


def _by_flag(argv: Sequence[Word]) -> list[list[Word]]:
    """A flag with its values on one line; what comes before the first flag on the first."""
    groups: list[list[Word]] = [[]]
    for word in argv:
        if word.text.startswith("--") and groups[-1]:
            groups.append([])
        groups[-1].append(word)
    return groups
