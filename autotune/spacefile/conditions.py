"""Expressions of a space file: parsed, and checked against the names that the file knows."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from autotune.domain.configuration import Value, show_value
from autotune.domain.expression import Expression, ExpressionError, parse
from autotune.domain.expression import Node as Term
from autotune.domain.space import Domain, FloatRange, IntRange, Values
from autotune.spacefile import fields
from autotune.spacefile.tree import Faults, Node, Refusal, Scalar, nearest, shown

_ORDER = ("<", "<=", ">", ">=")
_ARITHMETIC = ("+", "-", "*", "/", "//", "%", "**", "neg")


@dataclass(frozen=True)
class Names:
    """What expressions may speak of. A domain is None where the parameter itself could not be read."""

    parameters: Mapping[str, Domain | None]
    fixed: Mapping[str, Value]

    @property
    def known(self) -> frozenset[str]:
        return frozenset(self.parameters) | frozenset(self.fixed)

    def may_be(self, name: str, kinds: tuple[type, ...]) -> bool:
        """Whether the name ever holds one of these kinds (exactly: a bool is no int). True where nobody can tell."""
        if name in self.parameters:
            domain = self.parameters[name]
            if isinstance(domain, Values):
                return any(type(choice) in kinds for choice in domain.choices)
            return domain is None or int in kinds
        held = self.fixed[name]
        return held is None or type(held) in kinds


def expression(node: Node) -> Expression:
    """Refuses with the very column at which the text stops being an expression."""
    if not isinstance(node, Scalar) or node.value is None:
        raise fields.refuse(node, "an expression, such as `speculative_algorithm != unset`")
    try:
        return parse(node.text)
    except ExpressionError as error:
        hint = "inside [ ] and { }, put the expression in quotes" if not node.text.strip() else ""
        raise Refusal(node.place_at(error.offset), f"{node.path}: {error}, in {shown(node)}", hint=hint) from error


def check(parsed: Expression, node: Scalar, names: Names, faults: Faults, *, takes: bool) -> None:
    """Faults: unknown names, arithmetic with what is no number, an expression that is neither true nor false.

    `takes`: also a comparison with a value that its parameter never takes. Conditions are held to that; constraints
    are not, so that a list can be narrowed without rewriting the constraints that speak of what was dropped.
    """
    _Check(node, names, faults, takes).logical(parsed.root)


class _Check:
    def __init__(self, node: Scalar, names: Names, faults: Faults, takes: bool) -> None:
        self.node = node
        self.names = names
        self.faults = faults
        self.takes = takes

    def fault(self, term: Term, rule: str, hint: str = "") -> None:
        self.faults.add(self.node.place_at(term.offset), f"{self.node.path}: {rule}", hint=hint)

    def unknown(self, term: Term) -> bool:
        """Reports a bare word that names nothing."""
        word = str(term.value)
        if word in self.names.known:
            return False
        hint = nearest(word, self.names.known) or "a name is a parameter or one of engine.args"
        if any(part in self.names.known for part in word.split("-")):
            hint = "put blanks around a minus sign"
        self.fault(term, f"`{word}` is no parameter and no fixed argument", hint)
        return True

    def logical(self, term: Term) -> None:
        if term.kind in ("and", "or", "not"):
            for child in term.children:
                self.logical(child)
        elif term.kind in ("==", "!="):
            self.equality(*term.children)
        elif term.kind == "in":
            self.membership(*term.children)
        elif term.kind in _ORDER:
            for child in term.children:
                self.numeric(child)
        elif term.kind == "name":
            if not self.unknown(term) and not self.names.may_be(str(term.value), (bool,)):
                self.fault(term, f"`{term.value}` is never true or false", f"write `{term.value} != unset`, say")
        elif not (term.kind == "literal" and isinstance(term.value, bool)):
            self.fault(term, "a condition is a comparison, such as `a == b`, or a name that is true or false")

    def numeric(self, term: Term) -> None:
        if term.kind in _ARITHMETIC:
            for child in term.children:
                self.numeric(child)
        elif term.kind == "name":
            if not self.unknown(term) and not self.names.may_be(str(term.value), (int, float)):
                self.fault(term, f"`{term.value}` is never a number")
        elif term.kind != "literal" or isinstance(term.value, bool | str) or term.value is None:
            self.fault(term, "a number, or a name that holds one, must stand here", "`== unset` asks for unset")

    def equality(self, left: Term, right: Term) -> None:
        if self.is_known(right) and not self.is_known(left):
            left, right = right, left
        self.operand(left)
        if right.kind != "name":
            self.operand(right)
        self.taken(left, right)

    def membership(self, left: Term, right: Term) -> None:
        self.operand(left)
        for item in right.children:
            if item.kind != "name":
                self.operand(item)
            self.taken(left, item)

    def operand(self, term: Term) -> None:
        if term.kind == "name":
            self.unknown(term)
        elif term.kind in _ARITHMETIC:
            self.numeric(term)
        elif term.kind not in ("literal", "list"):
            self.logical(term)

    def is_known(self, term: Term) -> bool:
        return term.kind == "name" and term.value in self.names.known

    def taken(self, left: Term, right: Term) -> None:
        """`unset` may always be asked for: an inactive parameter is unset, whatever its list says."""
        domain = self.names.parameters.get(str(left.value)) if left.kind == "name" else None
        if not self.takes or domain is None or self.is_known(right):
            return
        if right.kind not in ("name", "literal") or right.value is None or _takes(domain, right.value):
            return
        self.fault(
            right,
            f"`{left.value}` is never `{show_value(right.value)}`",
            _closest_value(show_value(right.value), domain),
        )


def _takes(domain: Domain, wanted: Value) -> bool:
    if isinstance(wanted, float) and wanted.is_integer() and int(wanted) in domain:
        return True
    return wanted in domain or (isinstance(wanted, int) and not isinstance(wanted, bool) and float(wanted) in domain)


def _closest_value(wanted: str, domain: Domain) -> str:
    if isinstance(domain, IntRange | FloatRange):
        return f"it goes from {domain.low} to {domain.high}"
    listed = [show_value(choice) for choice in domain.choices]
    close = difflib.get_close_matches(wanted, listed, n=1, cutoff=0.6)
    return f"did you mean `{close[0]}`?" if close else f"its values: {', '.join(listed)}"
