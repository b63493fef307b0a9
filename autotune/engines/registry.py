"""Engines by name, through the entry points of the group `autotune.engines`.

The engines that ship with the tuner are registered in the same way as a plugin's. An entry point names a function
of no arguments that returns an Engine; it is imported only when its engine is asked for.
"""

from __future__ import annotations

import difflib
from importlib import metadata

from autotune.domain.engine import Engine
from autotune.errors import InputError

GROUP = "autotune.engines"


def names() -> tuple[str, ...]:
    """Every registered name, sorted. Imports none of the engines."""
    return tuple(sorted({point.name for point in metadata.entry_points(group=GROUP)}))


def get(name: str) -> Engine:
    """Raises InputError for a name that nobody registered, that two register differently, or that cannot be loaded."""
    found = metadata.entry_points(group=GROUP, name=name)
    targets = sorted({point.value for point in found})
    if not targets:
        raise InputError(f"engine.name must be one of {', '.join(names())}, but got {name}", hint=_nearest(name))
    if len(targets) > 1:
        raise InputError(
            f"engine.name must name one engine, but {name} is registered as {' and as '.join(targets)}",
            hint="uninstall one of the packages that register it",
        )
    point = next(iter(found))
    try:
        engine: Engine = point.load()()
    except (ImportError, AttributeError) as error:
        raise InputError(
            f"the engine {name} is registered as {point.value}, but cannot be loaded: {error}",
            hint="install the package that provides it again",
        ) from error
    return engine


def _nearest(name: str) -> str:
    close = difflib.get_close_matches(name, names(), n=1, cutoff=0.4)
    return f"did you mean {close[0]}?" if close else ""
