"""Shell text as statements of words, with their places. A subset of POSIX quoting; nothing is run or looked up.

References to variables stay in the words as marks, and are replaced by `Word.expanded` from what the text itself sets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from autotune.errors import InputError

_MARK = "\0"  # around the name, and the default behind _DEFAULT, of a reference; no shell text can hold one
_DEFAULT = "\1"
_REFERENCE = re.compile(f"{_MARK}([^{_MARK}{_DEFAULT}]*)(?:{_DEFAULT}([^{_MARK}]*))?{_MARK}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BRACED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?::?-([^}]*))?")
_CONTINUED = re.compile(r"\\[ \t]*\r?\n")  # blanks behind the backslash are a slip of the pen; the next line is meant
_IN_DOUBLE_QUOTES = '"\\$`\n'


@dataclass(frozen=True)
class Word:
    """`text` without quotes; line and column count from 1."""

    text: str
    line: int = 0
    column: int = 0

    def expanded(self, variables: Mapping[str, str]) -> Word:
        """With the references to `variables` replaced, or by their own defaults. Others stay."""

        def replaced(found: re.Match[str]) -> str:
            name, default = found.group(1), found.group(2)
            value = variables.get(name, found.group(0) if default is None else default)
            return value or default or ""

        return Word(_REFERENCE.sub(replaced, self.text), self.line, self.column)

    @property
    def unknown(self) -> tuple[str, ...]:
        """Names of what it refers to and nothing sets."""
        return tuple(found.group(1) for found in _REFERENCE.finditer(self.text))

    @property
    def shown(self) -> str:
        """As a person writes it."""
        return _REFERENCE.sub(lambda found: f"${found.group(1)}", self.text)


@dataclass(frozen=True)
class ShellText:
    """`statements` in the order of the text; `remarks` on what was read otherwise than a shell would."""

    statements: tuple[tuple[Word, ...], ...]
    remarks: tuple[str, ...] = ()


def split(text: str, source: str) -> ShellText:
    """Raises InputError, with the place, for a quote or a substitution that is never closed."""
    if _MARK in text:
        raise InputError(f"{source}: a command may not hold a NUL character")
    return _Reader(text.replace("\r\n", "\n").replace(_DEFAULT, " "), source).read()


def reference(name: str) -> str:
    """A word's mark for the variable `name`."""
    return f"{_MARK}{name}{_MARK}"


class _Reader:
    def __init__(self, text: str, source: str) -> None:
        self.text = text
        self.source = source
        self.at = 0
        self.word: list[str] | None = None
        self.began = 0
        self.words: list[Word] = []
        self.statements: list[tuple[Word, ...]] = []
        self.remarks: list[str] = []
        self.dropping = False  # the word that comes is where output goes to

    def read(self) -> ShellText:
        while self.at < len(self.text):
            self.step(self.text[self.at])
        self.end_statement()
        return ShellText(tuple(self.statements), tuple(self.remarks))

    def step(self, char: str) -> None:
        continued = _CONTINUED.match(self.text, self.at) if char == "\\" else None
        if continued:
            self.at = continued.end()
        elif char in " \t":
            self.end_word()
            self.at += 1
        elif char in "\n;|&()":
            self.end_statement()
            self.at += 1
        elif char == "#" and self.word is None:
            self.comment()
        elif char in "<>":
            self.redirection()
        elif char == "'":
            self.single_quoted()
        elif char == '"':
            self.double_quoted()
        elif char in "$`":
            self.put(self.substitution())
        elif char == "\\":
            self.put(self.text[self.at + 1 : self.at + 2])
            self.at += 2
        else:
            self.put(char)
            self.at += 1

    def put(self, text: str) -> None:
        if self.word is None:
            self.word, self.began = [], self.at
        self.word.append(text)

    def end_word(self) -> None:
        if self.word is not None and not self.dropping:
            line, column = self.place(self.began)
            self.words.append(Word("".join(self.word), line, column))
        self.dropping = self.dropping and self.word is None
        self.word = None

    def end_statement(self) -> None:
        self.end_word()
        self.dropping = False
        if self.words:
            self.statements.append(tuple(self.words))
        self.words = []

    def comment(self) -> None:
        """A comment that ends in a backslash, within a command, is meant as one line of it that is switched off."""
        end = self.text.find("\n", self.at)
        end = len(self.text) if end < 0 else end
        if self.words and self.text[self.at : end].rstrip().endswith("\\"):
            line, _column = self.place(self.at)
            self.remarks.append(
                f"{self.source}:{line}: a shell ends the command at this comment; what follows was taken as part of it"
            )
            end = min(end + 1, len(self.text))
        self.at = end

    def redirection(self) -> None:
        if self.word is not None and "".join(self.word).isdigit():
            self.word = None  # the 2 of 2>
        self.end_word()
        while self.at < len(self.text) and self.text[self.at] in "<>&|":
            self.at += 1
        self.dropping = True

    def single_quoted(self) -> None:
        end = self.text.find("'", self.at + 1)
        if end < 0:
            raise self.never_closed(self.at, "'")
        self.put(self.text[self.at + 1 : end])
        self.at = end + 1

    def double_quoted(self) -> None:
        began = self.at
        self.put("")
        self.at += 1
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == '"':
                self.at += 1
                return
            following = self.text[self.at + 1 : self.at + 2]
            if char == "\\" and following and following in _IN_DOUBLE_QUOTES:
                self.put("" if following == "\n" else following)
                self.at += 2
            elif char in "$`":
                self.put(self.substitution())
            else:
                self.put(char)
                self.at += 1
        raise self.never_closed(began, '"')

    def substitution(self) -> str:
        """The mark of a reference; `at` is moved behind it. A `$` that begins nothing is itself."""
        began, rest = self.at, self.text[self.at : self.at + 2]
        if rest == "$(":
            self.at = self.behind_parenthesis(began + 2)
            return reference("(…)")
        if rest == "${":
            end = self.text.find("}", began)
            if end < 0:
                raise self.never_closed(began, "${")
            self.at = end + 1
            found = _BRACED.fullmatch(self.text[began + 2 : end])
            if found is None:
                return reference("{…}")
            name, default = found.groups()
            return reference(name) if default is None else f"{_MARK}{name}{_DEFAULT}{default}{_MARK}"
        if self.text[began] == "`":
            end = self.text.find("`", began + 1)
            if end < 0:
                raise self.never_closed(began, "`")
            self.at = end + 1
            return reference("(…)")
        name = _NAME.match(self.text, began + 1)
        self.at = name.end() if name else began + 1
        return reference(name.group()) if name else "$"

    def behind_parenthesis(self, start: int) -> int:
        depth = 1
        for index in range(start, len(self.text)):
            depth += {"(": 1, ")": -1}.get(self.text[index], 0)
            if depth == 0:
                return index + 1
        raise self.never_closed(start - 2, "$(")

    def place(self, index: int) -> tuple[int, int]:
        before = self.text[:index]
        return before.count("\n") + 1, index - before.rfind("\n")

    def never_closed(self, index: int, sign: str) -> InputError:
        line, column = self.place(index)
        where = self.text[index : index + 30].splitlines()[0]
        return InputError(
            f"{self.source}:{line}:{column}: every quote must be closed, but this {sign} is not: {where}",
            hint="single quotes around the whole command keep the shell from taking its own quotes away",
        )
