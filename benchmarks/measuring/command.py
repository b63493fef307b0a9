"""What the benchmarks of whole studies share: their options, and their lines as soon as they are there."""

from __future__ import annotations

import argparse
import sys


def options_of(description: str | None, *, studies: int, only: str) -> argparse.Namespace:
    """`studies`: the default of --studies. `only`: what --only selects by its name."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--studies", type=int, default=studies)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", default="", metavar="TEXT", help=f"{only} whose name has this text")
    return parser.parse_args()


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def under(header: str) -> str:
    """The line between a Markdown table's header and its rows."""
    return "|---" * (header.count("|") - 1) + "|"
