"""Compose files and Kubernetes manifests: whatever mapping in them has a command that starts SGLang."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from autotune.drafting.invocation import Invocation, Left, Nested, find
from autotune.drafting.shell_text import Word, reference, split
from autotune.spacefile.core_yaml import texts

_KUBERNETES = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_]*)\)")
_COMPOSE = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)(?::?-([^}]*))?\}?")
_KEYS = ("entrypoint", "command", "args")


def calls(text: str, source: str, nested: Nested) -> list[Invocation]:
    """Every call in the documents of `text`. Raises SpaceFileError for what is no YAML."""
    found: list[Invocation] = []
    for document in texts(text, source):
        for path, mapping in _mappings(document, ""):
            found += _of_mapping(path, mapping, source, nested)
    return found


def _mappings(node: Any, path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if isinstance(node, Mapping):
        yield path, node
        for key, value in node.items():
            yield from _mappings(value, f"{path}.{key}" if path else str(key))
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from _mappings(value, f"{path}.{index}" if path else str(index))


def _of_mapping(path: str, mapping: Mapping[str, Any], source: str, nested: Nested) -> list[Invocation]:
    parts = [mapping[key] for key in _KEYS if mapping.get(key) not in (None, "", [])]
    if not parts:
        return []
    where = f"{source}: {path}" if path else source
    environment, left = _environment(mapping)
    words: list[Word] = []
    for part in parts:
        words += _words(part, where, environment)
    expanded = tuple(word.expanded({k: v.text for k, v in environment.items() if not v.unknown}) for word in words)
    files = mapping.get("env_file") or []
    names = files if isinstance(files, list) else [files]
    left += [
        Left(f"env_file {name}", "the file was not read; write what the server needs under engine.env")
        for name in names
    ]
    image = mapping.get("image")
    return [
        replace(
            call,
            image=call.image or (image if isinstance(image, str) else "container"),
            left=(*left, *call.left),
            place=path or "the command",
        )
        for call in find(expanded, environment, nested)
    ]


def _words(part: Any, where: str, environment: Mapping[str, Word]) -> list[Word]:
    """A list gives its items as they are; a text is split as a shell would."""
    if isinstance(part, list):
        return [_item(str(item)) for item in part if not isinstance(item, Mapping | list)]
    if isinstance(part, Mapping):
        return []
    return [word for statement in split(str(part), where).statements for word in statement]


def _item(text: str) -> Word:
    """`$(NAME)` of Kubernetes, `${NAME}` and `${NAME:-default}` of compose, become references; `$$` is a dollar."""
    if "\n" in text or " " in text.strip():
        return Word(_KUBERNETES.sub(lambda found: "${" + found.group(1) + "}", text).replace("$$", "$"))
    marked = _KUBERNETES.sub(lambda found: reference(found.group(1)), text.replace("$$", "\2"))
    marked = _COMPOSE.sub(lambda found: found.group(2) or reference(found.group(1)), marked)
    return Word(marked.replace("\2", "$"))


def _environment(mapping: Mapping[str, Any]) -> tuple[dict[str, Word], list[Left]]:
    """`environment:` of compose, a map or a list of A=B; `env:` of Kubernetes, a list of name and value."""
    pairs: dict[str, Word] = {}
    left: list[Left] = []
    for key in ("environment", "env"):
        held = mapping.get(key)
        entries: list[tuple[str, Any]] = []
        if isinstance(held, Mapping):
            entries = list(held.items())
        for item in held if isinstance(held, list) else []:
            if isinstance(item, Mapping):
                entries.append((str(item.get("name", "")), item.get("value")))
            else:
                name, equals, value = str(item).partition("=")
                entries.append((name, value if equals else None))
        for name, value in entries:
            if isinstance(value, str):
                pairs[name] = _item(value)
            elif name:
                left.append(Left(name, "its value stands elsewhere (the shell, a secret, a config map)"))
    return pairs, left
