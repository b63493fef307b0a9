"""Values and configurations: one immutable assignment of a search space."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

Value = bool | int | float | str | None
"""What a parameter may be. None is `unset`: the flag or variable is left out of the launch command."""


def show_value(value: Value) -> str:
    """As a space file writes it: `unset`, `true`, `4`, `triton`."""
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


class Configuration(Mapping[str, Value]):
    """An immutable assignment of the active parameters. An inactive parameter is absent; an unset one is None.

    Two configurations with the same canonical form (keys sorted, compact JSON) are one.
    """

    __slots__ = ("_values", "canonical")

    def __init__(self, values: Mapping[str, Value] | None = None) -> None:
        self._values = dict(sorted((values or {}).items()))
        self.canonical = json.dumps(self._values, separators=(",", ":"))

    def __getitem__(self, name: str) -> Value:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(self.canonical)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Configuration) and self.canonical == other.canonical

    def __repr__(self) -> str:
        return f"Configuration({self})"

    def __str__(self) -> str:
        return ", ".join(f"{name}={show_value(value)}" for name, value in self._values.items()) or "(defaults)"

    @property
    def digest(self) -> str:
        """12 hexadecimal digits of the SHA-256 of the canonical form."""
        return hashlib.sha256(self.canonical.encode()).hexdigest()[:12]

    def replace(self, **changes: Value) -> Configuration:
        return Configuration({**self._values, **changes})

    def without(self, *names: str) -> Configuration:
        return Configuration({name: value for name, value in self._values.items() if name not in names})

    def __reduce__(self) -> tuple[Any, ...]:
        return (Configuration, (self._values,))
