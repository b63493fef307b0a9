"""Where prompts come from: the bundled coding prompts, or a JSONL file of the user's own. Each is given once.

Each set has two parts that share no prompt: one for screening, and one held out, for confirming what screening found.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from autotune.domain.workload import Prompt, PromptSource
from autotune.errors import InputError, LoadFailed
from autotune.load.coding import CodingCatalogue
from autotune.load.prompt_file import read_prompts
from autotune.load.shuffling import Permutation

BUNDLED = "coding"
HELD_OUT_SHARE = 0.25
"""Of a file's prompts, rounded down. (Of the bundled ones it is the half: there are enough.)"""


def prompt_source(
    name: str, *, seed: int, skip: int = 0, held_out: bool = False, prefix_tokens: int | None = None
) -> PromptSource:
    """`name` is `coding`, or the path of a .jsonl file. The first `skip` prompts of the seed's order are left out:
    those that a study has sent before it is resumed. `held_out`: prompts that the same name and seed never give
    without it. `prefix_tokens`: every prompt begins with the same text of about so many tokens.

    Raises InputError with file:line for a file with faults."""
    if name == BUNDLED:
        source: _OncePrompts = BundledPrompts(CodingCatalogue.load(), seed=seed, skip=skip, held_out=held_out)
    elif name.endswith(".jsonl"):
        source = FilePrompts(read_prompts(Path(name)), name=name, seed=seed, skip=skip, held_out=held_out)
    else:
        raise InputError(
            f"prompts are `{BUNDLED}` or the path of a .jsonl file, but got {name!r}",
            hint=f"write `prompts: {BUNDLED}`, or a file with one JSON object a line that has a `prompt`",
        )
    if prefix_tokens is not None:
        source.prefix = CodingCatalogue.load().shared_text(prefix_tokens, seed)
    return source


class _OncePrompts(ABC):
    """Walks an order from its start and never goes back."""

    def __init__(self, *, name: str, skip: int) -> None:
        self._name = name
        self._next = skip
        self.prefix = ""

    @property
    @abstractmethod
    def capacity(self) -> int: ...

    @abstractmethod
    def at(self, position: int) -> Prompt:
        """The prompt at a position (from 0) of the seed's order."""

    @property
    def position(self) -> int:
        """How many prompts of the order are used up: the `skip` of a source that goes on from here."""
        return self._next

    def take(self, count: int) -> list[Prompt]:
        left = max(0, self.capacity - self._next)
        if count > left:
            raise LoadFailed(
                f"no prompt is sent twice in a study: {count:,} more are needed, "
                f"{left:,} of the {self.capacity:,} distinct prompts of {self._name} are left",
                hint=f"use the bundled set (`prompts: {BUNDLED}`), a larger file, fewer trials or lower levels",
            )
        first, self._next = self._next, self._next + count
        return [self._prefixed(self.at(position)) for position in range(first, first + count)]

    def _prefixed(self, prompt: Prompt) -> Prompt:
        return replace(prompt, text=self.prefix + prompt.text) if self.prefix else prompt


class BundledPrompts(_OncePrompts):
    """Every run of `bases` prompts in a row (a lap) holds each base prompt once, each in a fresh variation. Within a
    lap every round of as many prompts as there are angles holds each angle once, in an order that jumps between
    short and long: a level of ten requests sees nearly the same mix of lengths as the next, or as one of a thousand.

    A base prompt's variations stand in an order of their own; the later half of each is held out.
    """

    def __init__(self, catalogue: CodingCatalogue, *, seed: int, skip: int, held_out: bool = False) -> None:
        super().__init__(name=f"`{BUNDLED}`", skip=skip)
        self._catalogue = catalogue
        self._seed = seed
        self._laps = catalogue.variations // 2
        self._first_lap = self._laps if held_out else 0

    @property
    def capacity(self) -> int:
        return self._catalogue.bases * self._laps

    def at(self, position: int) -> Prompt:
        lap, place = divmod(position, self._catalogue.bases)
        lap += self._first_lap
        turn, slot = divmod(place, len(self._catalogue.angles))
        angle = self._catalogue.spread_angle(slot + lap)
        tasks = Permutation(len(self._catalogue.tasks), f"{self._seed}:lap:{lap}:angle:{angle}")
        base = angle * len(self._catalogue.tasks) + tasks[turn]
        variation = Permutation(self._catalogue.variations, f"{self._seed}:base:{base}")[lap]
        return Prompt(f"{BUNDLED}-{base}-{variation}", self._catalogue.compose(base, variation))


class FilePrompts(_OncePrompts):
    """The last quarter of the seed's order is held out."""

    def __init__(self, prompts: Sequence[Prompt], *, name: str, seed: int, skip: int, held_out: bool = False) -> None:
        super().__init__(name=name, skip=skip)
        self._prompts = prompts
        self._order = Permutation(len(prompts), f"{seed}:file")
        kept_back = int(HELD_OUT_SHARE * len(prompts))
        self._capacity = kept_back if held_out else len(prompts) - kept_back
        self._first = len(prompts) - kept_back if held_out else 0

    @property
    def capacity(self) -> int:
        return self._capacity

    def at(self, position: int) -> Prompt:
        return self._prompts[self._order[self._first + position]]
