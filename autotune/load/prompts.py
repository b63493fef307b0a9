"""Where prompts come from: the bundled coding prompts, or a JSONL file of the user's own. Each is given once."""

from __future__ import annotations

import hashlib
import itertools
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

from autotune.domain.workload import Prompt, PromptSource
from autotune.errors import InputError, LoadFailed
from autotune.load.shuffling import Permutation

BUNDLED = "coding"
_FAULTS_SHOWN = 20


def prompt_source(name: str, *, seed: int, skip: int = 0) -> PromptSource:
    """`name` is `coding`, or the path of a .jsonl file. The first `skip` prompts of the seed's order are left out:
    those that a study has sent before it is resumed. Raises InputError with file:line for a file with faults."""
    if name == BUNDLED:
        return BundledPrompts(CodingCatalogue.load(), seed=seed, skip=skip)
    if name.endswith(".jsonl"):
        return FilePrompts(read_prompts(Path(name)), name=name, seed=seed, skip=skip)
    raise InputError(
        f"prompts are `{BUNDLED}` or the path of a .jsonl file, but got {name!r}",
        hint=f"write `prompts: {BUNDLED}`, or a file with one JSON object a line that has a `prompt`",
    )


class _OncePrompts(ABC):
    """Walks an order from its start and never goes back."""

    def __init__(self, *, name: str, skip: int) -> None:
        self._name = name
        self._next = skip

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
        return [self.at(position) for position in range(first, first + count)]


@dataclass(frozen=True)
class CodingCatalogue:
    """The parts that bundled prompts are composed of.

    A base prompt is a task seen from an angle. A variation places it: a repository, a language and a house style.
    Every prompt begins with `repository/module.extension`, so that a server's prefix cache finds nothing to share.
    """

    tasks: tuple[tuple[str, str, str, str], ...]  # module, noun phrase, detail, sketch in Python
    angles: tuple[str, ...]
    languages: tuple[tuple[str, str], ...]  # name, extension
    repositories: tuple[str, ...]
    styles: tuple[str, ...]

    @classmethod
    def load(cls) -> CodingCatalogue:
        data = json.loads(resources.files("autotune.load").joinpath("coding_prompts.json").read_text("utf-8"))
        return cls(
            tasks=tuple((t["module"], t["task"], t["detail"], "\n".join(t["stub"])) for t in data["tasks"]),
            angles=tuple(data["angles"]),
            languages=tuple((language, extension) for language, extension in data["languages"]),
            repositories=tuple("-".join(pair) for pair in itertools.product(data["adjectives"], data["nouns"])),
            styles=tuple(data["styles"]),
        )

    @cached_property
    def bases(self) -> int:
        return len(self.tasks) * len(self.angles)

    @cached_property
    def variations(self) -> int:
        return len(self.repositories) * len(self.languages) * len(self.styles)

    def compose(self, base: int, variation: int) -> str:
        """Different for each pair: repository, module, extension, angle and style all stand in the text."""
        angle, task_index = divmod(base, len(self.tasks))
        module, task, detail, stub = self.tasks[task_index]
        variation, style = divmod(variation, len(self.styles))
        repository, language_index = divmod(variation, len(self.languages))
        language, extension = self.languages[language_index]
        fenced = f"```python\n{stub}\n```"
        asked = self.angles[angle].format(task=task, detail=detail, language=language, stub=fenced)
        separator = "" if asked.endswith("\n") else " "
        return f"{self.repositories[repository]}/{module}{extension}: {asked}{separator}{self.styles[style]}"


class BundledPrompts(_OncePrompts):
    """Every run of `bases` prompts in a row holds each base prompt once, in an order of its own, each in a fresh
    variation. So two levels or trials see nearly the same mix of lengths and tasks, and never the same prompt."""

    def __init__(self, catalogue: CodingCatalogue, *, seed: int, skip: int) -> None:
        super().__init__(name=f"`{BUNDLED}`", skip=skip)
        self._catalogue = catalogue
        self._seed = seed
        self._lap = -1
        self._order = Permutation(catalogue.bases, "")

    @property
    def capacity(self) -> int:
        return self._catalogue.bases * self._catalogue.variations

    def at(self, position: int) -> Prompt:
        lap, place = divmod(position, self._catalogue.bases)
        if lap != self._lap:
            self._lap, self._order = lap, Permutation(self._catalogue.bases, f"{self._seed}:lap:{lap}")
        base = self._order[place]
        variation = Permutation(self._catalogue.variations, f"{self._seed}:base:{base}")[lap]
        return Prompt(f"{BUNDLED}-{base}-{variation}", self._catalogue.compose(base, variation))


class FilePrompts(_OncePrompts):
    def __init__(self, texts: Sequence[str], *, name: str, seed: int, skip: int) -> None:
        super().__init__(name=name, skip=skip)
        self._texts = texts
        self._order = Permutation(len(texts), f"{seed}:file")

    @property
    def capacity(self) -> int:
        return len(self._texts)

    def at(self, position: int) -> Prompt:
        text = self._texts[self._order[position]]
        return Prompt(hashlib.sha256(text.encode()).hexdigest()[:16], text)


def read_prompts(path: Path) -> tuple[str, ...]:
    """The distinct texts of a JSONL file, in its order; of equal texts the first is kept, blank lines are skipped.

    A line is {"prompt": …}, {"text": …} or a chat, {"messages": [{"role": …, "content": …}, …]}.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}", hint="check the path in `prompts:`") from error
    texts: dict[str, None] = {}
    faults: list[str] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            texts[_text_of(line)] = None
        except ValueError as error:
            faults.append(f"{path}:{number}: {error}")
    if len(faults) > _FAULTS_SHOWN:
        faults[_FAULTS_SHOWN:] = [f"… and {len(faults) - _FAULTS_SHOWN} more lines with faults"]
    if not faults and not texts:
        faults.append(f"{path}: holds no prompt")
    if faults:
        raise InputError(
            "\n".join(faults), hint='each line is one JSON object, e.g. {"prompt": "Write a parser for …"}'
        )
    return tuple(texts)


def _text_of(line: bytes) -> str:
    """Raises ValueError, in words for the user, for a line that holds no prompt."""
    try:
        entry: Any = json.loads(line)
    except UnicodeDecodeError:
        raise ValueError("a line must be UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"a line must be JSON: {error.msg} at column {error.colno}") from None
    if not isinstance(entry, dict):
        raise ValueError(f"a line must be a JSON object, but got {type(entry).__name__}")
    if "messages" in entry:
        return _chat_text(entry["messages"])
    text = entry.get("prompt", entry.get("text"))
    if not isinstance(text, str) or not text.strip():
        shown = ", ".join(sorted(entry)) or "nothing"
        raise ValueError(f"a line must have a `prompt`, `text` or `messages` with text in it, but has: {shown}")
    return _sendable(text)


def _chat_text(messages: Any) -> str:
    """The contents, one after the other with a blank line between. Roles are left out: /generate takes plain text,
    and inventing a chat template here would be another model's."""
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise ValueError("`messages` must be a list of objects with `content`")
    contents = [message.get("content") for message in messages]
    if not all(isinstance(content, str) for content in contents):
        raise ValueError("each of `messages` must have a `content` that is text")
    joined = "\n\n".join(content for content in contents if content.strip())
    if not joined:
        raise ValueError("`messages` hold no text")
    return _sendable(joined)


def _sendable(text: str) -> str:
    """JSON can spell half a character (a lone surrogate), which no request can carry."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"the text holds half a surrogate pair at character {error.start}") from None
    return text
