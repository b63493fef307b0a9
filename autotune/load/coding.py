"""The bundled coding prompts: composed of parts, so that hundreds of thousands of them differ."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import dataclass
from functools import cached_property
from importlib import resources

from autotune.load.shuffling import Permutation

_PACKAGE_LINES = 110
_STRIDE = 3


@dataclass(frozen=True)
class CodingCatalogue:
    """The parts that bundled prompts are composed of.

    A base prompt is a task seen from an angle. A variation places it: a repository, a language and a house style.
    Every prompt begins with `repository/module.extension`, so that a server's prefix cache finds nothing to share.
    Lengths: a line (an angle with the task alone), a paragraph (with its detail), one with a sketch in Python, and a
    whole package of sketches, over 100 lines of code.
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

    @cached_property
    def _by_length(self) -> tuple[int, ...]:
        lengths = [len(self.compose(angle * len(self.tasks), 0)) for angle in range(len(self.angles))]
        return tuple(sorted(range(len(self.angles)), key=lambda angle: lengths[angle]))

    def spread_angle(self, slot: int) -> int:
        """An order of the angles, over and over, in which long ones stand far apart: strides over them by length."""
        count = len(self.angles)
        stride = next(stride for stride in itertools.count(_STRIDE) if math.gcd(stride, count) == 1)
        return self._by_length[slot * stride % count]

    def compose(self, base: int, variation: int) -> str:
        """Different for each pair: repository, module, extension, angle and style all stand in the text."""
        angle, task_index = divmod(base, len(self.tasks))
        module, task, detail, stub = self.tasks[task_index]
        variation, style = divmod(variation, len(self.styles))
        repository, language_index = divmod(variation, len(self.languages))
        language, extension = self.languages[language_index]
        fenced = f"```python\n{stub}\n```"
        asked = self.angles[angle]
        package = self._package(task_index, repository) if "{package}" in asked else ""
        asked = asked.format(task=task, detail=detail, language=language, stub=fenced, package=package)
        separator = "" if asked.endswith("\n") else " "
        return f"{self.repositories[repository]}/{module}{extension}: {asked}{separator}{self.styles[style]}"

    def _package(self, first: int, seed: int) -> str:
        """The sketch of a task and of others, as files of one package: at least `_PACKAGE_LINES` lines of code."""
        others = Permutation(len(self.tasks), f"package:{seed}")
        places = (others[place] for place in range(len(self.tasks)))
        files, lines = [], 0
        for index in itertools.chain([first], (other for other in places if other != first)):
            module, task, detail, stub = self.tasks[index]
            files.append(f"```python\n# {module}.py: {task}\n# {detail}\n{stub}\n```")
            lines += stub.count("\n") + 3
            if lines >= _PACKAGE_LINES:
                break
        return "\n\n".join(files)

    def shared_text(self, tokens: int, seed: int) -> str:
        """House rules and sketches, about `tokens` tokens long: what every prompt of a study begins with on request.
        The tuner has no tokenizer, and takes four characters for a token."""
        wanted = 4 * tokens
        text = "You work in the code base that is described here. Its rules:\n\n- " + "\n- ".join(self.styles) + "\n\n"
        for index in itertools.count():
            if len(text) >= wanted:
                break
            text += self._package(index % len(self.tasks), seed + index) + "\n\n"
        return text[:wanted].rstrip() + "\n\n"
