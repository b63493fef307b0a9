"""YAML 1.2 core, read and written: `on`, `off`, `yes` and `no` are text, `1e-3` is a number.

PyYAML gives the scanner, the parser and the marks; its YAML 1.1 guesses about words are replaced here. Anchors,
aliases and tags are refused: a space file needs none of them, and aliases can blow a small file up without bound.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import yaml
import yaml.composer
import yaml.parser
import yaml.reader
import yaml.resolver
import yaml.scanner

from autotune.spacefile.tree import Entry, Faults, Listing, Node, Place, Plain, Scalar, Table, joined, shown

MAX_BYTES = 1 << 20
_MAX_DEPTH = 20
_UNUSABLE = re.compile("[\0\ud800-\udfff]")  # neither an argument nor a UTF-8 file can hold these
_TAG = "tag:yaml.org,2002:"
_PATTERNS = {
    "null": (re.compile(r"^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""]),
    "bool": (re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")),
    "int": (re.compile(r"^(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$"), list("-+0123456789")),
    "float": (
        re.compile(
            r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
        ),
        list("-+.0123456789"),
    ),
}


class _CoreResolver(yaml.resolver.BaseResolver):
    pass


for _name, (_pattern, _first) in _PATTERNS.items():
    _CoreResolver.add_implicit_resolver(_TAG + _name, _pattern, _first)


class _Loader(yaml.reader.Reader, yaml.scanner.Scanner, yaml.parser.Parser, yaml.composer.Composer, _CoreResolver):
    def __init__(self, text: str) -> None:
        yaml.reader.Reader.__init__(self, text)
        yaml.scanner.Scanner.__init__(self)
        yaml.parser.Parser.__init__(self)
        yaml.composer.Composer.__init__(self)
        _CoreResolver.__init__(self)
        self.level = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if getattr(event, "anchor", None) is not None:
            raise yaml.MarkedYAMLError(problem="anchors and aliases may not be used", problem_mark=event.start_mark)
        if getattr(event, "tag", None) is not None:
            raise yaml.MarkedYAMLError(problem="tags may not be used", problem_mark=event.start_mark)
        self.level += 1
        if self.level > _MAX_DEPTH:
            raise yaml.MarkedYAMLError(problem=f"nested more than {_MAX_DEPTH} deep", problem_mark=event.start_mark)
        node = super().compose_node(parent, index)
        self.level -= 1
        return node


class _Dumper(yaml.SafeDumper):
    """Quotes what this room's loader would take for something else than text, and writes no anchors."""

    yaml_implicit_resolvers = _CoreResolver.yaml_implicit_resolvers

    def ignore_aliases(self, data: Any) -> bool:
        return True


def write(data: Mapping[str, Any]) -> str:
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1000, default_flow_style=False)


def compose(text: str, whole: Place, path: str, faults: Faults) -> Node | None:
    """The tree of a text; None, and a fault, where it is no YAML.

    `whole` names the file, or the override (then every node stands at `whole`: there are no lines to show).
    """
    text = text.removeprefix("\ufeff")
    try:
        loader = _Loader(text)
        root = loader.get_single_node()
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        faults.add(
            _placed(whole, before.count("\n") + 1, error.position - before.rfind("\n")),
            "a character that YAML does not allow",
            f"U+{ord(text[error.position]):04X}",
        )
        return None
    except yaml.MarkedYAMLError as error:
        _syntax_fault(error, whole, faults)
        return None
    if root is None:
        faults.add(whole, "there is nothing in it", hint="docs/space_file.md shows what a space file holds")
        return None
    return _Growth(text, whole, faults).node(root, path)


def texts(text: str, source: str) -> list[Any]:
    """Any YAML (a compose file, a manifest) as mappings, lists and texts, one item a document; every scalar is the
    text that stands there. Raises SpaceFileError."""
    faults, found = Faults(), []
    line = 0
    for document in re.split(r"^---.*$", text, flags=re.MULTILINE):
        padded = "\n" * line + document  # so that a fault names the line of the whole text
        line += document.count("\n")
        if not re.sub(r"^\s*#.*$", "", document, flags=re.MULTILINE).strip():
            continue
        node = compose(padded, Place(0, 0, 0, source), "", faults)
        found.append(_texts(node))
    faults.raise_if_any()
    return found


def _texts(node: Node | None) -> Any:
    if isinstance(node, Table):
        return {entry.key.text: _texts(entry.node) for entry in node}
    if isinstance(node, Listing):
        return [_texts(item) for item in node.items]
    return "" if node is None else node.text


def _placed(whole: Place, line: int, column: int) -> Place:
    return whole if whole.rank else Place(whole.rank, line, column, whole.file)


def _syntax_fault(error: yaml.MarkedYAMLError, whole: Place, faults: Faults) -> None:
    mark = error.problem_mark or error.context_mark
    place = _placed(whole, mark.line + 1, mark.column + 1) if mark else whole
    problem, hint = error.problem or "not YAML", ""
    if "\\t" in problem:
        problem, hint = "a tab may not stand here", "indent with blanks"
    elif "expected ',' or" in problem:
        hint = "inside [ ] and { }, put an expression that holds brackets or commas in quotes"
    elif "mapping values" in problem:
        hint = "text that holds `: ` needs quotes; so does a line that is indented too far"
    elif "another document" in problem:
        problem, hint = "a second document begins here", "one file holds one study"
    context = ""
    began = error.context_mark
    if error.context and began and mark and began.line != mark.line and problem == error.problem and not whole.rank:
        context = f" ({error.context}, line {began.line + 1})"
    faults.add(place, f"not valid YAML: {problem}{context}", hint=hint)


class _Growth:
    """Turns PyYAML's nodes into this room's."""

    def __init__(self, text: str, whole: Place, faults: Faults) -> None:
        self.text = text
        self.whole = whole
        self.faults = faults

    def node(self, node: yaml.Node, path: str) -> Node:
        place = _placed(self.whole, node.start_mark.line + 1, node.start_mark.column + 1)
        if isinstance(node, yaml.ScalarNode):
            return self.scalar(node, place, path)
        if isinstance(node, yaml.SequenceNode):
            items = [self.node(item, joined(path, index)) for index, item in enumerate(node.value)]
            return Listing(place, path, items)
        table = Table(place, path, [])
        first: dict[tuple[bool, Plain], Scalar] = {}
        for key_node, value_node in node.value:
            key = self.node(key_node, path)
            if not isinstance(key, Scalar) or key.value is None:
                self.faults.add(key.place, "a key must be a word or a number", shown(key))
                continue
            key.path = joined(path, key.text)
            value = self.node(value_node, key.path)
            earlier = first.setdefault((isinstance(key.value, bool), key.value), key)
            if earlier is not key:
                where = f" (first in line {earlier.place.line})" if earlier.place.line else ""
                self.faults.add(key.place, f"the key `{key.path}` stands twice{where}", hint="keep one of them")
                continue
            table.entries.append(Entry(key, value))
        return table

    def scalar(self, node: yaml.ScalarNode, place: Place, path: str) -> Scalar:
        raw = self.text[node.start_mark.index : node.end_mark.index]
        if _UNUSABLE.search(node.value):
            self.faults.add(place, "text may not hold a NUL character or half a surrogate pair")
        try:
            value = _value(node.tag.removeprefix(_TAG), node.value)
        except ValueError as error:
            self.faults.add(place, str(error), f"`{node.value[:40]}`")
            value = 0
        return Scalar(place, path, value, node.value, raw)


def _value(kind: str, text: str) -> Plain:
    if kind == "null":
        return None
    if kind == "bool":
        return text.lower() == "true"
    if kind == "int":
        if len(text) > 40:  # int() itself refuses thousands of digits
            raise ValueError("a whole number must fit 64 bits")
        base = {"0x": 16, "0o": 8}.get(text[:2], 10)
        number = int(text, base)
        if not -(2**63) <= number < 2**63:
            raise ValueError("a whole number must fit 64 bits")
        return number
    if kind == "float":
        if text.lower().lstrip("+-") in (".inf", ".nan") or math.isinf(float(text)):
            raise ValueError("a number must be finite")
        return float(text)
    return text
