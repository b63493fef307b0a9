"""The small language of conditions and constraints: parsed into a tree, never evaluated as Python.

    or and not   == != < <= > >= in   + - * / // % **   ( )   [a, b]   numbers, words, "text", true, false, unset

A bare word is a parameter (or fixed argument) where one of that name is known, and text otherwise, so that
`speculative_algorithm == EAGLE3` needs no quotes. Logic has three values: what cannot be known because a name is
absent or unset is None. `x == unset` and `x != unset` are always known; comparisons by size with something unset
are not. A condition is met only by True; a constraint is broken only by False.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from autotune.domain.configuration import Value

Result = Value | tuple[Value, ...]

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)|(?P<word>[A-Za-z_][A-Za-z0-9_.-]*)"
    r"|(?P<text>\"[^\"]*\"|'[^']*')|(?P<sign>\*\*|//|==|!=|<=|>=|[-+*/%<>()\[\],]))"
)
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
_MAX_POWER = 64  # an exponent beyond this is a mistake of the file, and would cost time without bound
_MAX_DEPTH = 50


class ExpressionError(ValueError):
    """The text is not an expression. `offset` is the character, from 0, at which that shows."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


@dataclass(frozen=True)
class Node:
    """`kind` is literal, name, list, not, neg, or the sign of a binary operator."""

    kind: str
    children: tuple[Node, ...] = ()
    value: Value = None


@dataclass(frozen=True)
class Expression:
    text: str
    root: Node

    @property
    def words(self) -> frozenset[str]:
        """Every bare word: names, and text that was written without quotes."""
        found: set[str] = set()
        stack = [self.root]
        while stack:
            node = stack.pop()
            stack.extend(node.children)
            if node.kind == "name":
                found.add(str(node.value))
        return frozenset(found)

    def evaluate(self, values: Mapping[str, Value], known: frozenset[str]) -> Result:
        """`known` are the names that are parameters; other words are text. Returns None where unknowable."""
        return _evaluate(self.root, values, known)

    def __str__(self) -> str:
        return self.text


def parse(text: str) -> Expression:
    """Raises ExpressionError, with the offset, for anything that is not one whole expression."""
    return Expression(text, _Parser(text).whole())


class _Parser:
    def __init__(self, text: str) -> None:
        self.tokens = list(_tokens(text))
        self.position = 0
        self.depth = 0
        self.end = len(text)

    def whole(self) -> Node:
        node = self.disjunction()
        if self.position < len(self.tokens):
            _kind, shown, offset = self.tokens[self.position]
            raise ExpressionError(f"nothing may follow here, but got `{shown}`", offset)
        return node

    def peek(self) -> str:
        return self.tokens[self.position][1] if self.position < len(self.tokens) else ""

    def take(self, *shown: str) -> str:
        if self.peek() in shown and self.tokens[self.position][0] in ("sign", "word"):
            self.position += 1
            return self.tokens[self.position - 1][1]
        return ""

    def disjunction(self) -> Node:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise ExpressionError("an expression may be nested 50 deep at most", self.offset())
        node = self.conjunction()
        while self.take("or"):
            node = Node("or", (node, self.conjunction()))
        self.depth -= 1
        return node

    def conjunction(self) -> Node:
        node = self.negation()
        while self.take("and"):
            node = Node("and", (node, self.negation()))
        return node

    def negation(self) -> Node:
        count = 0
        while self.take("not"):
            count += 1
        node = self.comparison()
        return Node("not", (node,)) if count % 2 else node

    def comparison(self) -> Node:
        node = self.sum()
        if sign := self.take("==", "!=", "<=", ">=", "<", ">", "in"):
            node = Node(sign, (node, self.sum()))
            if again := self.take("==", "!=", "<=", ">=", "<", ">", "in"):
                raise ExpressionError(f"comparisons do not chain: write `and` before `{again}`", self.offset(-1))
        return node

    def sum(self) -> Node:
        node = self.product()
        while sign := self.take("+", "-"):
            node = Node(sign, (node, self.product()))
        return node

    def product(self) -> Node:
        node = self.unary()
        while sign := self.take("*", "/", "//", "%"):
            node = Node(sign, (node, self.unary()))
        return node

    def unary(self) -> Node:
        count = 0
        while self.take("-"):
            count += 1
        node = self.power()
        return Node("neg", (node,)) if count % 2 else node

    def power(self) -> Node:
        node = self.atom()
        if self.take("**"):
            return Node("**", (node, self.unary()))
        return node

    def atom(self) -> Node:
        if self.position >= len(self.tokens):
            raise ExpressionError("a value or a name must follow", self.end)
        kind, shown, offset = self.tokens[self.position]
        self.position += 1
        if kind == "number":
            return Node("literal", value=float(shown) if any(c in shown for c in ".eE") else int(shown))
        if kind == "text":
            return Node("literal", value=shown[1:-1])
        if kind == "word" and shown not in ("and", "or", "not", "in"):
            constants: dict[str, Value] = {"true": True, "false": False, "unset": None}
            return Node("literal", value=constants[shown]) if shown in constants else Node("name", value=shown)
        if shown == "(":
            node = self.disjunction()
            self.expect(")")
            return node
        if shown == "[":
            items: list[Node] = []
            while not self.take("]"):
                items.append(self.sum())
                if not self.take(","):
                    self.expect("]")
                    break
            return Node("list", tuple(items))
        raise ExpressionError(f"a value or a name must stand here, but got `{shown}`", offset)

    def expect(self, sign: str) -> None:
        if not self.take(sign):
            raise ExpressionError(f"`{sign}` must stand here", self.offset())

    def offset(self, step: int = 0) -> int:
        index = self.position + step
        return self.tokens[index][2] if index < len(self.tokens) else self.end


def _tokens(text: str) -> list[tuple[str, str, int]]:
    found, position = [], 0
    while text[position:].strip():
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            blank = len(text[position:]) - len(text[position:].lstrip())
            raise ExpressionError(f"`{text[position + blank]}` has no meaning here", position + blank)
        found.append((match.lastgroup, match[match.lastgroup], match.start(match.lastgroup)))
        position = match.end()
    return found


def _evaluate(node: Node, values: Mapping[str, Value], known: frozenset[str]) -> Result:
    if node.kind == "literal":
        return node.value
    if node.kind == "name":
        name = str(node.value)
        return values.get(name) if name in known else name
    parts = [_evaluate(child, values, known) for child in node.children]
    if node.kind == "list":
        return tuple(part for part in parts if not isinstance(part, tuple))
    if node.kind == "not":
        truth = _truth(parts[0])
        return None if truth is None else not truth
    if node.kind == "neg":
        return -parts[0] if _number(parts[0]) else None  # type: ignore[operator]
    left, right = parts
    if node.kind in ("and", "or"):
        return _logic(node.kind, _truth(left), _truth(right))
    if node.kind in ("==", "!="):
        return (left == right) == (node.kind == "==")
    if node.kind == "in":
        return left in right if isinstance(right, tuple) else None
    if not (_number(left) and _number(right)):
        return None
    assert isinstance(left, int | float)
    assert isinstance(right, int | float)
    if node.kind in _COMPARE:
        return _COMPARE[node.kind](left, right)
    return _arithmetic(node.kind, left, right)


def _number(value: Result) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _truth(value: Result) -> bool | None:
    return value if isinstance(value, bool) else None


def _logic(kind: str, left: bool | None, right: bool | None) -> bool | None:
    decisive = kind == "or"
    if left is decisive or right is decisive:
        return decisive
    return None if left is None or right is None else not decisive


def _arithmetic(sign: str, left: float, right: float) -> Result:
    if sign in ("/", "//", "%") and right == 0:
        return None
    if sign == "**":
        return left**right if abs(right) <= _MAX_POWER and (left >= 0 or right == int(right)) else None
    operations: dict[str, Callable[[], float]] = {
        "+": lambda: left + right,
        "-": lambda: left - right,
        "*": lambda: left * right,
        "/": lambda: left / right,
        "//": lambda: left // right,
        "%": lambda: left % right,
    }
    return operations[sign]()
