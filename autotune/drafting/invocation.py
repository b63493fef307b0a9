"""The call of SGLang's server within words: who calls it, what stands around it, and what it is given."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from autotune.domain.secrets import is_secret
from autotune.drafting.containers import container_call
from autotune.drafting.shell_text import Word

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_PYTHON = re.compile(r"python[0-9.]*|pypy[0-9.]*")
_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ash", "ksh"})
_TAKES_A_WORD = frozenset({"-X", "-W"})  # options of Python before -m
_ENV_TAKES_A_WORD = frozenset({"-u", "--unset", "-C", "--chdir"})
_WRAPPERS = frozenset(
    {
        *("sudo", "nohup", "nice", "ionice", "chrt", "stdbuf", "setsid", "timeout", "numactl"),
        *("taskset", "srun", "uv", "conda", "micromamba", "poetry"),
    }
)
"""Programs that start another one, and whose own words are worth telling. Of others only the name is told."""
_MODULE, _CLI = "sglang.launch_server", "sglang.cli.main"
_VERSION = re.compile(r"\bv?(\d+\.\d+\.\d+(?:\.post\d+)?)(?![\d.])")


@dataclass(frozen=True)
class Left:
    """Something of the command that the space file does not hold, and why. Never a secret's value."""

    what: str
    why: str


@dataclass(frozen=True)
class Invocation:
    """`words` are the server's arguments. `python`: the interpreter as written. `image`: of a container, else empty.

    `environment` in the order of the text; its values may hold references that nothing resolves.
    """

    words: tuple[Word, ...]
    python: str
    environment: Mapping[str, Word] = field(default_factory=dict)
    image: str = ""
    around: tuple[str, ...] = ()
    left: tuple[Left, ...] = ()
    positional_model: bool = False
    place: str = ""

    @property
    def image_version(self) -> str | None:
        """From the image's tag: 0.5.15 of `lmsysorg/sglang:v0.5.15-cu129`."""
        _name, _colon, tag = self.image.rpartition(":")
        found = _VERSION.search(tag)
        return found.group(1) if found else None


Nested = Callable[[Word, Mapping[str, Word]], "list[Invocation]"]
"""Reads the script behind `sh -c`, under the environment that it is given."""


def assignment(word: Word) -> tuple[str, Word] | None:
    found = _ASSIGNMENT.fullmatch(word.text)
    return (found.group(1), replace(word, text=found.group(2))) if found else None


def find(words: Sequence[Word], environment: Mapping[str, Word], nested: Nested) -> list[Invocation]:
    """The calls that `words`, one command, come to: none, one, or those of a script behind `sh -c`."""
    own, around = dict(environment), list[str]()
    rest, telling = tuple(words), True
    while rest:
        pair = assignment(rest[0])
        if pair is not None:
            own[pair[0]] = pair[1]
            rest = rest[1:]
            continue
        name = PurePosixPath(rest[0].text).name
        found = _call(rest, name)
        if found is not None:
            return [replace(found, environment=own, around=tuple(around))]
        if name == "env" and len(rest) > 1:
            rest, own = _behind_env(rest[1:], own)
            continue
        script = _script(rest) if name in _SHELLS else None
        if script is not None:
            return [replace(call, around=(*around, *call.around)) for call in nested(script, own)]
        if name in ("docker", "podman", "nerdctl"):
            return _in_container(rest, own, around, nested)
        telling = name in _WRAPPERS or (telling and bool(around))
        if name not in ("exec", "time") and (telling or not around):
            around += [rest[0].shown] if _is_kept(rest[0].text) else []
        rest = rest[1:]
    return []


def _call(words: tuple[Word, ...], name: str) -> Invocation | None:
    """`words` begin with what starts the server."""
    first = words[0].text
    texts = [word.text for word in words]
    if name == "sglang" and texts[1:2] == ["serve"]:
        folder = PurePosixPath(first).parent
        python = "python3" if first == name else str(folder / "python3")
        return Invocation(words[2:], python, positional_model=True)
    if not _PYTHON.fullmatch(name):
        return None
    index = 1
    while index < len(texts) and texts[index].startswith("-") and texts[index] != "-m":
        index += 2 if texts[index] in _TAKES_A_WORD else 1
    if texts[index : index + 2] == ["-m", _MODULE]:
        return Invocation(words[index + 2 :], first)
    if texts[index : index + 3] == ["-m", _CLI, "serve"]:
        return Invocation(words[index + 3 :], first, positional_model=True)
    if index < len(texts) and texts[index].endswith("sglang/launch_server.py"):
        return Invocation(words[index + 1 :], first)
    return None


def _behind_env(words: tuple[Word, ...], own: dict[str, Word]) -> tuple[tuple[Word, ...], dict[str, Word]]:
    """`env -i -u NAME A=B program`: the options are carried out on `own`."""
    own = dict(own)
    while words and words[0].text.startswith("-"):
        option = words[0].text
        if option in ("-i", "-", "--ignore-environment"):
            own.clear()
        if option in ("-u", "--unset") and len(words) > 1:
            own.pop(words[1].text, None)
        words = words[2 if option in _ENV_TAKES_A_WORD else 1 :]
    return words, own


def _script(words: tuple[Word, ...]) -> Word | None:
    """What follows `-c`, `-lc`, `-euxc`."""
    for index, word in enumerate(words[1:-1], start=1):
        if re.fullmatch(r"-[a-z]*c", word.text):
            return words[index + 1]
        if not word.text.startswith("-"):
            return None
    return None


def _in_container(
    words: tuple[Word, ...], outside: Mapping[str, Word], around: list[str], nested: Nested
) -> list[Invocation]:
    call = container_call(words)
    if call is None:
        return []
    inside: dict[str, Word] = {}
    left = [
        Left(f"--env-file {name}", "the file was not read; write what the server needs under engine.env")
        for name in call.files
    ]
    for word in call.environment:
        pair = assignment(word)
        if pair is not None:
            inside[pair[0]] = pair[1]
        elif word.text in outside:
            inside[word.text] = outside[word.text]
        else:
            left.append(Left(f"-e {word.text}", "its value stood in the shell, not in the command"))
    left += [
        Left(name, "was set outside the container, and did not reach the server")
        for name in outside
        if name not in inside
    ]
    found = find(call.command, inside, nested)
    kept = tuple(text for text in call.options if _is_kept(text))
    return [
        replace(each, image=each.image or call.image, around=(*around, *kept, *each.around), left=(*left, *each.left))
        for each in found
    ]


def _is_kept(text: str) -> bool:
    """Whether a word may stand in a comment: not where it is `name=secret`."""
    name, equals, value = text.rpartition("=")
    return not (equals and is_secret(re.split(r"[^A-Za-z0-9_-]", name)[-1], value))
