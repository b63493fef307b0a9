"""A flag table from the text of SGLang's own source, which is read and never imported.

Up to 0.5.13 each flag is a call of `add_argument`; later most are annotated fields of classes
(`name: A[type, Arg(help=..., choices=..., aliases=...)] = default`), and some calls remain.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import Any

_NUMBERS = {"int": "int", "float": "float"}
_SWITCHES = {"store_true", "store_false", "DeprecatedStoreTrueAction", "DeprecatedStoreConstAction", "DeprecatedAction"}
_TOGGLE = "BooleanOptionalAction"
_VARIABLE = re.compile(r"(?:[\"'.]|^ +)(SGL(?:ANG)?_[A-Z0-9_]*[A-Z0-9])\b", re.MULTILINE)
"""Quoted, an attribute of `envs`, or a field of its class: not the words of a comment."""

Entry = dict[str, Any]


def table_of(version: str, arguments: Mapping[str, str], variables: Mapping[str, str]) -> dict[str, Any]:
    """A table in the shape of `flags/*.json`. Both are texts of modules by their names: those that define arguments,
    and any that may name a variable of the environment. A module that is no Python of this interpreter is left out."""
    trees = [tree for text in arguments.values() if (tree := _parsed(text)) is not None]
    words = _constants(trees)
    flags: dict[str, Entry] = {}
    for tree in trees:
        for name, entry in (*_fields(tree, words), *_calls(tree, words)):
            flags.setdefault(name, entry)
    names = {name for text in variables.values() for name in _VARIABLE.findall(text)}
    return {"version": version, "flags": dict(sorted(flags.items())), "variables": sorted(names)}


def from_listing(version: str, listing: list[Mapping[str, Any]]) -> dict[str, Any]:
    """A table from a list of {"flag", "type"?, "default"?, "nargs"?, "choices"?, "aliases"?}.

    Such a list does not tell which flags read sizes like 8k, nor which have a `--no-` form: the source does.
    """
    flags: dict[str, Entry] = {}
    for row in listing:
        choices = row.get("choices") if isinstance(row.get("choices"), list) else None
        kind = "text" if choices or row.get("default", False) is None else "switch"
        if "type" in row:
            annotation = ast.parse(row["type"], mode="eval").body
            kind, choices = _kind_of_annotation(annotation), choices or _literal(annotation)
        if row.get("nargs") in ("+", "*") and not kind.endswith("s"):
            kind += "s"
        flags[row["flag"]] = _entry(kind, choices, row.get("aliases"))
    return {"version": version, "flags": dict(sorted(flags.items()))}


def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return None


def _constants(trees: list[ast.Module]) -> dict[str, list[str]]:
    """Lists of words that modules name (ATTENTION_BACKEND_CHOICES), sums of such lists among them."""
    words: dict[str, list[str]] = {}
    for _round in range(2):  # a list may be a sum of lists of another module
        for tree in trees:
            for node in tree.body:
                target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
                value = getattr(node, "value", None)
                if isinstance(target, ast.Name) and isinstance(value, ast.expr):
                    found = _words(value, words)
                    if found:
                        words[target.id] = found
    return words


def _words(node: ast.expr | None, known: Mapping[str, list[str]]) -> list[str] | None:
    """None where the source computes them."""
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        found = [element.value for element in node.elts if isinstance(element, ast.Constant)]
        return [str(word) for word in found] if len(found) == len(node.elts) else None
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.Call) and _name(node.func) in ("list", "sorted") and node.args:
        return _words(node.args[0], known)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _words(node.left, known), _words(node.right, known)
        return [*left, *right] if left is not None and right is not None else None
    return None


def _fields(tree: ast.Module, known: Mapping[str, list[str]]) -> Iterator[tuple[str, Entry]]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        if not (isinstance(node.annotation, ast.Subscript) and _name(node.annotation.value) in ("A", "Annotated")):
            continue
        parts = node.annotation.slice
        if not isinstance(parts, ast.Tuple) or len(parts.elts) < 2:
            continue
        argument = next((part for part in parts.elts[1:] if _name(getattr(part, "func", None)) == "Arg"), None)
        helped = any(isinstance(part, ast.Constant) and isinstance(part.value, str) for part in parts.elts[1:])
        if argument is None and not helped:
            continue
        given = _keywords(argument)
        if _constant(given.get("no_cli")) is True:
            continue
        flag = _constant(given.get("cli_name")) or "--" + node.target.id.replace("_", "-")
        yield str(flag), _field_entry(parts.elts[0], given, known)


def _field_entry(annotation: ast.expr, given: Mapping[str, ast.expr], known: Mapping[str, list[str]]) -> Entry:
    aliases = _words(given.get("aliases"), known)
    action = given.get("action")
    if action is not None:
        several = isinstance(given.get("action_kwargs"), ast.Dict) and "nargs" in ast.unparse(given["action_kwargs"])
        kind = "texts" if several else "toggle" if _name(action) == _TOGGLE else "text"
        return _entry("switch" if _is_switch(action) else kind, None, aliases)
    literal = _literal(annotation)
    kind = _kind_of_annotation(annotation)
    if literal is not None:
        kind = "int" if all(word.lstrip("-").isdecimal() for word in literal) else "text"
    nargs, parser = _constant(given.get("nargs")), _name(given.get("type_parser"))
    if parser is not None and nargs is None and parser not in _NUMBERS:  # it reads one word in a way of its own
        kind = "text"
    if nargs not in (None, "?") and not kind.endswith("s"):
        kind += "s"
    return _entry(kind, _words(given.get("choices"), known) or literal, aliases)


def _calls(tree: ast.Module, known: Mapping[str, list[str]]) -> Iterator[tuple[str, Entry]]:
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and _name(node.func) == "add_argument"):
            continue
        flags = [str(word) for word in map(_constant, node.args) if isinstance(word, str) and word.startswith("--")]
        if not flags:
            continue
        given = _keywords(node)
        action, nargs = given.get("action"), _constant(given.get("nargs"))
        if action is not None and _name(action) == _TOGGLE:
            kind = "toggle"
        elif action is not None and _is_switch(action) and "choices" not in given:
            kind = "switch"
        else:
            kind = _NUMBERS.get(_name(given.get("type")) or "", "text")
            kind += "s" if nargs in ("+", "*") or isinstance(nargs, int) else ""
        choices = _words(given.get("choices"), known) if kind not in ("switch", "toggle") else None
        yield flags[0], _entry(kind, choices, flags[1:])


def _entry(kind: str, choices: list[str] | None, aliases: list[str] | None) -> Entry:
    entry: Entry = {"kind": {"bool": "switch"}.get(kind, kind)}
    if choices and entry["kind"] not in ("switch", "toggle"):
        entry["choices"] = [str(choice) for choice in choices]
    if aliases:
        entry["aliases"] = list(aliases)
    return entry


def _kind_of_annotation(node: ast.expr) -> str:
    """int, ints, bool, ... from `Optional[List[int]]`, `int | None`, `bool`; text for anything else."""
    if isinstance(node, ast.Name):
        return {"int": "int", "float": "float", "bool": "bool"}.get(node.id, "text")
    if isinstance(node, ast.BinOp):
        sides = [side for side in (node.left, node.right) if not isinstance(side, ast.Constant)]
        return _kind_of_annotation(sides[0]) if len(sides) == 1 else "text"
    if isinstance(node, ast.Subscript):
        outer = _name(node.value)
        if outer == "Optional":
            return _kind_of_annotation(node.slice)
        if outer in ("List", "list"):
            inner = _kind_of_annotation(node.slice)
            return inner + "s" if inner in ("int", "float", "text") else "texts"
    return "text"


def _literal(node: ast.expr) -> list[str] | None:
    if isinstance(node, ast.Subscript) and _name(node.value) == "Optional":
        return _literal(node.slice)
    if isinstance(node, ast.Subscript) and _name(node.value) == "Literal":
        return _words(node.slice if isinstance(node.slice, ast.Tuple) else ast.List([node.slice]), {})
    return None


def _keywords(node: ast.AST | None) -> dict[str, ast.expr]:
    return {k.arg: k.value for k in node.keywords if k.arg} if isinstance(node, ast.Call) else {}


def _is_switch(action: ast.expr) -> bool:
    return _constant(action) in _SWITCHES or _name(action) in _SWITCHES


def _constant(node: ast.expr | None) -> Any:
    return node.value if isinstance(node, ast.Constant) else None


def _name(node: ast.AST | None) -> str | None:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else None
