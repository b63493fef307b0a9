"""The small language of conditions and constraints: parsed into a tree, never evaluated as Python.

    or and not   == != < <= > >= in   + - * / // % **   ( )   [a, b]   numbers, words, "text", true, false, unset

A list stands after `in`, and nowhere else. A yes/no value equals only a yes/no value: `true == 1` is False.
A bare word is a parameter (or fixed argument) where one of that name is known, and text otherwise, so that
`speculative_algorithm == EAGLE3` needs no quotes. Logic has three values: what cannot be known because a name is
absent or unset is None. `x == unset` and `x != unset` are always known; comparisons by size with something unset
are not. A condition is met only by True; a constraint is broken only by False.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

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
_MAX_BASE = 2**64
_MAX_DEPTH = 30  # both bounds keep the parser and the evaluation, which are recursive, clear of Python's own limit
_MAX_TOKENS = 300


class ExpressionError(ValueError):
    """The text is not an expression. `offset` is the character, from 0, at which that shows."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


@dataclass(frozen=True)
class Node:
    """`kind` is literal, name, list, not, neg, or the sign of a binary operator. `offset`: where it begins, from 0."""

    kind: str
    children: tuple[Node, ...] = ()
    value: Value = None
    offset: int = field(default=0, compare=False)


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
        self.tokens = _tokens(text)
        if len(self.tokens) > _MAX_TOKENS:
            raise ExpressionError(
                f"an expression may hold {_MAX_TOKENS} words and signs at most", self.tokens[_MAX_TOKENS][2]
            )
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

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise ExpressionError(f"an expression may be nested {_MAX_DEPTH} deep at most", self.offset())

    def disjunction(self) -> Node:
        node = self.conjunction()
        while self.take("or"):
            node = Node("or", (node, self.conjunction()), offset=node.offset)
        return node

    def conjunction(self) -> Node:
        node = self.negation()
        while self.take("and"):
            node = Node("and", (node, self.negation()), offset=node.offset)
        return node

    def negation(self) -> Node:
        count, start = 0, self.offset()
        while self.take("not"):
            count += 1
        node = self.comparison()
        return Node("not", (node,), offset=start) if count % 2 else node

    def comparison(self) -> Node:
        node = self.sum()
        if sign := self.take("==", "!=", "<=", ">=", "<", ">", "in"):
            right = self.choices() if sign == "in" else self.sum()
            node = Node(sign, (node, right), offset=node.offset)
            if again := self.take("==", "!=", "<=", ">=", "<", ">", "in"):
                raise ExpressionError(f"comparisons do not chain: write `and` before `{again}`", self.offset(-1))
        return node

    def sum(self) -> Node:
        node = self.product()
        while sign := self.take("+", "-"):
            node = Node(sign, (node, self.product()), offset=node.offset)
        return node

    def product(self) -> Node:
        node = self.unary()
        while sign := self.take("*", "/", "//", "%"):
            node = Node(sign, (node, self.unary()), offset=node.offset)
        return node

    def unary(self) -> Node:
        count, start = 0, self.offset()
        while self.take("-"):
            count += 1
        node = self.power()
        return Node("neg", (node,), offset=start) if count % 2 else node

    def power(self) -> Node:
        node = self.atom()
        if self.take("**"):
            self.deeper()
            node = Node("**", (node, self.unary()), offset=node.offset)
            self.depth -= 1
        return node

    def choices(self) -> Node:
        start = self.offset()
        self.expect("[")
        items: list[Node] = []
        while not self.take("]"):
            items.append(self.sum())
            if not self.take(","):
                self.expect("]")
                break
        return Node("list", tuple(items), offset=start)

    def atom(self) -> Node:
        if self.position >= len(self.tokens):
            raise ExpressionError("a value or a name must follow", self.end)
        kind, shown, offset = self.tokens[self.position]
        self.position += 1
        if kind == "number":
            return Node("literal", value=_number_of(shown, offset), offset=offset)
        if kind == "text":
            return Node("literal", value=shown[1:-1], offset=offset)
        if kind == "word" and shown not in ("and", "or", "not", "in"):
            constants: dict[str, Value] = {"true": True, "false": False, "unset": None}
            if shown in constants:
                return Node("literal", value=constants[shown], offset=offset)
            return Node("name", value=shown, offset=offset)
        if shown == "(":
            self.deeper()
            node = self.disjunction()
            self.expect(")")
            self.depth -= 1
            return node
        if shown == "[":
            raise ExpressionError("a list may stand only after `in`", offset)
        raise ExpressionError(f"a value or a name must stand here, but got `{shown}`", offset)

    def expect(self, sign: str) -> None:
        if not self.take(sign):
            raise ExpressionError(f"`{sign}` must stand here", self.offset())

    def offset(self, step: int = 0) -> int:
        index = self.position + step
        return self.tokens[index][2] if index < len(self.tokens) else self.end


def _number_of(shown: str, offset: int) -> float:
    if len(shown) > 40:  # int() refuses thousands of digits with an error of its own
        raise ExpressionError("a number may have 40 digits at most", offset)
    number = float(shown) if any(sign in shown for sign in ".eE") else int(shown)
    if math.isinf(number):
        raise ExpressionError(f"`{shown}` is too large", offset)
    return number


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
        return _same(left, right) == (node.kind == "==")
    if node.kind == "in":
        return any(_same(left, item) for item in right) if isinstance(right, tuple) else None
    if not (_number(left) and _number(right)):
        return None
    assert isinstance(left, int | float)
    assert isinstance(right, int | float)
    if node.kind in _COMPARE:
        return _COMPARE[node.kind](left, right)
    return _arithmetic(node.kind, left, right)


def _same(left: Result, right: Result) -> bool:
    return left == right and isinstance(left, bool) == isinstance(right, bool)


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
    if sign == "**" and (abs(right) > _MAX_POWER or abs(left) > _MAX_BASE or (left < 0 and right != int(right))):
        return None
    operations: dict[str, Callable[[], float]] = {
        "+": lambda: left + right,
        "-": lambda: left - right,
        "*": lambda: left * right,
        "/": lambda: left / right,
        "//": lambda: left // right,
        "%": lambda: left % right,
        "**": lambda: left**right,
    }
    try:
        result = operations[sign]()
        return result if math.isfinite(result) else None
    except (ZeroDivisionError, OverflowError):
        return None
