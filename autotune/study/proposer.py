"""What a search asks for the next configuration."""

from __future__ import annotations

from typing import Protocol

from autotune.domain.configuration import Configuration


class Proposer(Protocol):
    def propose(self) -> Configuration | None:
        """One that may be launched and has not been settled; None if it finds none."""
        ...
