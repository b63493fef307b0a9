"""What one configuration has that another has not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.domain.configuration import Configuration, show_value
from autotune.reporting.figures import MISSING


@dataclass(frozen=True)
class Change:
    """Values as a space file writes them; `before` or `after` None: the parameter was not active there."""

    name: str
    before: str | None
    after: str | None

    def __str__(self) -> str:
        return f"{self.name}={self.after if self.after is not None else MISSING}"


def changes(configuration: Configuration, baseline: Configuration) -> tuple[Change, ...]:
    """By name; empty if both are the same."""
    found = []
    for name in sorted(set(configuration) | set(baseline)):
        before = show_value(baseline[name]) if name in baseline else None
        after = show_value(configuration[name]) if name in configuration else None
        if before != after:
            found.append(Change(name, before, after))
    return tuple(found)


def differences_from_baseline(configuration: Configuration, baseline: Configuration, order: Sequence[str] = ()) -> str:
    """`cuda_graph_max_bs=256, spec_v2=true`, or `(the baseline)`. What is only inactive goes without saying, unless
    there is nothing else. Names in `order` come first, in that order: lines are cut off at the right."""
    found = changes(configuration, baseline)
    places = {name: place for place, name in enumerate(order)}
    shown = [change for change in found if change.after is not None] or list(found)
    shown.sort(key=lambda change: places.get(change.name, len(places)))
    return ", ".join(str(change) for change in shown) or "(the baseline)"


def single_change(found: Sequence[Change]) -> Change | None:
    """The one parameter that was set anew; None if there were more.

    Parameters that only came or went do not count: they follow from the one that did change (no draft steps
    without speculation).
    """
    set_anew = [change for change in found if change.before is not None and change.after is not None]
    if len(set_anew) == 1:
        return set_anew[0]
    return found[0] if not set_anew and len(found) == 1 else None
