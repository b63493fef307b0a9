"""`docker run` and `docker exec`: the options, the image, and the command behind it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from autotune.drafting.shell_text import Word

_SWITCH = re.compile(r"-[ditPq]+")
_SWITCHES = frozenset(
    {
        *("--rm", "--detach", "--interactive", "--tty", "--privileged", "--init", "--read-only", "--quiet"),
        *("--no-healthcheck", "--oom-kill-disable", "--publish-all", "--sig-proxy", "--disable-content-trust"),
    }
)
_ATTACHED = re.compile(r"-[epvwuhlmca][^-].*")
"""`-eA=B`: a short option with its value in one word. Every other option takes the next word, unless it has a `=`."""


@dataclass(frozen=True)
class ContainerCall:
    """`environment`: A=B, or a bare name whose value is the shell's. `files`: of --env-file. `image` may be the name
    of a running container. `options`: the words before it without those of the environment."""

    image: str
    command: tuple[Word, ...]
    environment: tuple[Word, ...] = ()
    files: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


def container_call(words: tuple[Word, ...]) -> ContainerCall | None:
    """From `docker [container] run|exec|create …`; None for another verb, or where there is no image."""
    verbs = [index for index, word in enumerate(words[:6]) if word.text in ("run", "exec", "create")]
    if not verbs:
        return None
    position = verbs[0] + 1
    environment, files, entry = list[Word](), list[str](), list[Word]()
    options = [word.shown for word in words[:position]]
    while position < len(words) and words[position].text.startswith("-"):
        option, value, used = _option(words, position)
        position += used
        if option in ("-e", "--env"):
            environment.append(value)
        elif option == "--env-file":
            files.append(value.shown)
        elif option == "--entrypoint":
            entry = [value] if value.text else []
        else:
            options += [word.shown for word in words[position - used : position]]
    if position >= len(words):
        return None
    image = words[position].text
    command = (*entry, *words[position + 1 :])
    return ContainerCall(image, command, tuple(environment), tuple(files), (*options, words[position].shown))


def _option(words: tuple[Word, ...], position: int) -> tuple[str, Word, int]:
    """The option, its value (empty for a switch), and how many words the two are."""
    word = words[position]
    text = word.text
    if text.startswith("--") and "=" in text:
        name, _equals, value = text.partition("=")
        return name, Word(value, word.line, word.column), 1
    if text in _SWITCHES or _SWITCH.fullmatch(text):
        return text, Word(""), 1
    if _ATTACHED.fullmatch(text) and not text.startswith("--"):
        return text[:2], Word(text[2:].removeprefix("="), word.line, word.column + 2), 1
    following = words[position + 1] if position + 1 < len(words) else Word("")
    return text, following, 2
