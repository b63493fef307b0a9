"""The server's words placed on a version's flags, as argparse would: abbreviations, `=`, values of several words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from autotune.domain.configuration import Value
from autotune.drafting.invocation import Left
from autotune.drafting.shell_text import Word
from autotune.engines.dialect.flag_table import Flag, FlagTable
from autotune.engines.dialect.nearest import did_you_mean
from autotune.errors import InputError

_NUMBER = re.compile(r"-?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_SEVERAL = ("ints", "floats", "texts")
_READERS: dict[str, tuple[type[int] | type[float], str]] = {
    "int": (int, "a whole number"),
    "ints": (int, "whole numbers"),
    "float": (float, "a number"),
    "floats": (float, "numbers"),
}


@dataclass(frozen=True)
class Placed:
    """`spelled`: without its dashes, abbreviations completed. `flag`: its entry of the version's table."""

    flag: Flag
    spelled: str
    value: Value


@dataclass(frozen=True)
class Arguments:
    """`placed` by the flag's main name with its dashes, in the order of the command."""

    placed: dict[str, Placed] = field(default_factory=dict)
    left: tuple[Left, ...] = ()

    def value(self, *spellings: str) -> Value:
        """Of the first of these flags that the command has; None where it has none."""
        for name, found in self.placed.items():
            if any(spelling == name or spelling in found.flag.aliases for spelling in spellings):
                return found.value
        return None


def place(words: Sequence[Word], table: FlagTable, *, positional_model: bool = False) -> Arguments:
    """Raises InputError with every fault: unknown and ambiguous flags, missing and unreadable values."""
    reading = _Reading(table)
    rest = list(words)
    if positional_model and rest and not rest[0].text.startswith("-"):
        rest.insert(0, Word("--model-path", rest[0].line, rest[0].column))
    while rest:
        rest = reading.take(rest, serve=positional_model)
    if reading.faults:
        older = "or --engine-version, if it is another version that the command is for"
        raise InputError(
            f"the command does not fit sglang {table.version}:\n" + "\n".join(f"  {f}" for f in reading.faults),
            hint=f"correct the command, {older}",
        )
    return Arguments(reading.placed, tuple(reading.left))


class _Reading:
    def __init__(self, table: FlagTable) -> None:
        self.table = table
        self.placed: dict[str, Placed] = {}
        self.left: list[Left] = []
        self.faults: list[str] = []

    def take(self, rest: list[Word], *, serve: bool) -> list[Word]:
        """Places what `rest` begins with, and gives the words behind it."""
        word = rest[0]
        if not _is_option(word.text):
            self.left.append(Left(word.shown, "stands where a flag is due"))
            return rest[1:]
        name, equals, attached = word.text.partition("=")
        if serve and name == "--model-type":
            self.left.append(Left(word.shown, "chooses the kind of server; a language model's is tuned"))
            return rest[1:] if equals else rest[2:]
        found = self.flag(name, word)
        if found is None:
            return _behind_values(rest[1:])
        flag, spelled = found
        negative = spelled == "--no-" + flag.name.removeprefix("--")
        if flag.kind in ("switch", "toggle"):
            if equals:
                self.fault(word, f"{spelled} takes no value, but got {attached}")
            self.keep(flag, flag.name if negative else spelled, not negative)
            return rest[1:]
        if equals:
            self.valued(flag, spelled, [Word(attached, word.line, word.column)], word)
            return rest[1:]
        behind = rest[1:]
        several = flag.kind in _SEVERAL
        end = next((i for i, w in enumerate(behind) if _is_option(w.text)), len(behind))
        end = end if several else min(end, 1)
        self.valued(flag, spelled, behind[:end], word)
        return behind[end:]

    def flag(self, name: str, word: Word) -> tuple[Flag, str] | None:
        """The flag and its whole spelling: exact, else the only one that begins so."""
        spellings = dict(self.table.flags)
        spellings |= {
            "--no-" + flag.name.removeprefix("--"): flag for flag in self.table.flags.values() if flag.kind == "toggle"
        }
        if name in spellings:
            return spellings[name], name
        near = sorted(spelling for spelling in spellings if name.startswith("--") and spelling.startswith(name))
        if len({spellings[spelling].name for spelling in near}) == 1:
            return spellings[near[0]], near[0]
        if near:
            self.fault(word, f"{name} could be {' or '.join(near)}; write it in full")
        else:
            self.fault(word, f"{name} is no flag of this version{did_you_mean(name, spellings)}")
        return None

    def valued(self, flag: Flag, spelled: str, values: list[Word], word: Word) -> None:
        unknown = [name for value in values for name in value.unknown]
        if not values:
            self.fault(word, f"{spelled} takes a value, but none follows")
        elif unknown:
            shown = " ".join(value.shown for value in values)
            self.left.append(Left(f"{spelled} {shown}", f"nothing in the text says what ${unknown[0]} is"))
        else:
            texts = [value.text for value in values]
            read = [self.read(flag, spelled, text, word) for text in texts]
            self.keep(flag, spelled, " ".join(texts) if flag.kind in _SEVERAL and len(texts) > 1 else read[0])

    def read(self, flag: Flag, spelled: str, text: str, word: Word) -> Value:
        reader = _READERS.get(flag.kind)
        if reader is not None:
            try:
                return reader[0](text)
            except ValueError:
                self.fault(word, f"{spelled} takes {reader[1]}, but got {text}")
        elif flag.choices and text not in flag.choices:
            near = did_you_mean(text, flag.choices) or f"; it takes {', '.join(flag.choices)}"
            self.fault(word, f"{spelled} does not take {text} on this version{near}")
        return text

    def keep(self, flag: Flag, spelled: str, value: Value) -> None:
        earlier = self.placed.pop(flag.name, None)
        if earlier is not None and earlier.value != value:
            self.left.append(Left(f"--{earlier.spelled}, the first of two", "the last one holds"))
        self.placed[flag.name] = Placed(flag, spelled.removeprefix("--"), value)

    def fault(self, word: Word, what: str) -> None:
        self.faults.append(f"{word.line}:{word.column}: {what}" if word.line else what)


def _is_option(text: str) -> bool:
    """As argparse tells: a negative number is a value, and so is a single dash."""
    return text.startswith("-") and text != "-" and _NUMBER.fullmatch(text) is None


def _behind_values(words: list[Word]) -> list[Word]:
    """Without the values of a flag that is not known."""
    end = next((index for index, word in enumerate(words) if _is_option(word.text)), len(words))
    return words[end:]
