"""The name that somebody meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import lru_cache


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean x?`, to be put behind a message, or nothing where no known word is near.

    A known word that begins with `word` is nearer than one of similar letters.
    """
    return _nearest(word, frozenset(known))


@lru_cache(maxsize=1024)
def _nearest(word: str, known: frozenset[str]) -> str:
    """Cached: `check` asks the same of every configuration of a space, and similar letters are dear to find."""
    candidates = sorted(known, key=lambda name: (len(name), name))
    near = [name for name in candidates if name.startswith(word)] or difflib.get_close_matches(word, candidates, n=1)
    return f"; did you mean {near[0]}?" if near else ""
