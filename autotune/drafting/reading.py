"""A text to the one call of SGLang's server in it: shell text, or the YAML of compose and Kubernetes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePosixPath

from autotune.drafting import documents
from autotune.drafting.invocation import Invocation, Left, assignment, find
from autotune.drafting.shell_text import Word, split
from autotune.errors import InputError

_DOCUMENT = re.compile(
    r"^\s*(?:-\s+)?(?:services|apiVersion|kind|spec|containers|image|command|args|entrypoint|environment)\s*:",
    re.MULTILINE,
)
_NO_CALL = "the text must hold one command that starts SGLang: `python -m sglang.launch_server …` or `sglang serve …`"
_MAX_DEPTH = 5


def read(text: str, source: str) -> Invocation:
    """Raises InputError for text that is not well formed, and for none or several commands."""
    if _DOCUMENT.search(text):
        found = documents.calls(text, source, lambda script, outside: _script(script, source, outside))
    else:
        found = _statements(text, source, {}, 0)
    if not found:
        raise InputError(f"{source}: {_NO_CALL}, but none was found in {_glimpse(text)}")
    if len(found) > 1:
        places = ", ".join(call.place or "?" for call in found)
        raise InputError(
            f"{source}: {_NO_CALL}, but it holds {len(found)} ({places})", hint="give the one that is to be tuned"
        )
    return found[0]


def _script(script: Word, source: str, outside: Mapping[str, Word]) -> list[Invocation]:
    return _statements(script.text, f"{source}:{script.line}" if script.line else source, outside, 1)


def _statements(text: str, source: str, outside: Mapping[str, Word], depth: int) -> list[Invocation]:
    """Every call in the text, each under what was exported before it."""
    if depth > _MAX_DEPTH:
        raise InputError(f"{source}: a command may stand in {_MAX_DEPTH} shells at most")
    parsed = split(text, source)
    state = _State(dict(outside))
    found: list[Invocation] = []
    for statement in parsed.statements:
        words = tuple(word.expanded(state.texts) for word in statement)
        words = words[1:] if words[0].text in ("$", "%") else words  # the prompt of a pasted line
        if not words or state.take(words):
            continue
        calls = find(
            words,
            state.exported,
            lambda script, inside: _statements(script.text, f"{source}:{script.line}", inside, depth + 1),
        )
        if not calls:
            state.others.append(next((word.shown for word in words if assignment(word) is None), "?"))
        found += [state.dressed(call, f"{source}:{words[0].line}:{words[0].column}") for call in calls]
    remarks = tuple(Left("a comment within the command", remark) for remark in parsed.remarks)
    return [replace(call, left=(*call.left, *remarks, *state.beside())) for call in found]


class _State:
    """What the statements before a command set up."""

    def __init__(self, outside: dict[str, Word]) -> None:
        self.exported: dict[str, Word] = outside
        self.plain: dict[str, Word] = {}
        self.python = ""
        self.others: list[str] = []

    @property
    def texts(self) -> dict[str, str]:
        return {name: word.text for name, word in {**self.exported, **self.plain}.items() if not word.unknown}

    def take(self, words: tuple[Word, ...]) -> bool:
        """Whether the statement only sets variables or chooses an environment, and has been taken in."""
        first, rest = words[0].text, words[1:]
        if first in ("export", "declare", "typeset", "readonly"):
            is_exported = first == "export" or any(re.fullmatch(r"-\w*x\w*", word.text) for word in rest)
            for word in rest:
                self.assign(word, exported=is_exported)
            return True
        if first == "unset":
            for word in rest:
                self.exported.pop(word.text, None)
                self.plain.pop(word.text, None)
            return True
        if first in ("source", ".") and rest and rest[0].text.endswith("/bin/activate"):
            self.python = str(PurePosixPath(rest[0].text).parent / "python3")
            return True
        if first in ("set", "shopt", "cd", "mkdir", "ulimit", "echo", "sleep", "pushd", "#!/bin/bash"):
            return True
        if all(assignment(word) is not None for word in words):
            for word in words:
                self.assign(word, exported=False)
            return True
        return False

    def assign(self, word: Word, *, exported: bool) -> None:
        pair = assignment(word)
        if pair is None:
            if word.text in self.plain:
                self.exported[word.text] = self.plain.pop(word.text)
            return
        name, value = pair
        (self.exported if exported or name in self.exported else self.plain)[name] = value

    def dressed(self, call: Invocation, place: str) -> Invocation:
        """With the interpreter of the environment that was activated, where the command names none of its own."""
        in_container = bool(call.image)
        python = self.python if self.python and not in_container and "/" not in call.python else call.python
        return replace(call, python=python, place=call.place or place)

    def beside(self) -> tuple[Left, ...]:
        return tuple(
            Left(f"`{other}`", "another command beside the server's; its effect, if any, is not part of a launch")
            for other in self.others
        )


def _glimpse(text: str) -> str:
    words = [word for word in text.split() if "=" not in word]
    return f"`{' '.join(words[:3])} …`" if words else "an empty text"
