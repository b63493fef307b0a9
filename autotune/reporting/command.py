"""The recorded launch command as a reader may see it: secrets are named, not shown."""

from __future__ import annotations

import shlex

from autotune.domain.secrets import MASK, is_secret
from autotune.domain.trial import LaunchCommand


def command_text(command: LaunchCommand) -> str:
    """One line for a POSIX shell: the chosen environment, then argv. A secret appears as `"${ITS_NAME}"`."""
    words = [
        f'{name}="${{{name}}}"' if value == MASK or is_secret(name, value) else f"{name}={shlex.quote(value)}"
        for name, value in sorted(command.chosen.items())
    ]
    before = ""
    for word in command.argv:
        flag, joined, value = word.partition("=")
        if before.startswith("--") and (word == MASK or is_secret(before, word)):
            words.append(_placeholder(before))
        elif joined and flag.startswith("--") and (value == MASK or is_secret(flag, value)):
            words.append(f"{flag}={_placeholder(flag)}")
        else:
            words.append(shlex.quote(word))
        before = word
    return " ".join(words)


def _placeholder(flag: str) -> str:
    return '"${' + flag.lstrip("-").replace("-", "_").upper() + '}"'
