"""Rules: what is known against a configuration before anything is launched. Cheap, and certain.

A rule looks at a few arguments by their concepts and says what is wrong with their values. Its answer depends on
nothing but those values and the site, so it is asked once for each combination of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from autotune.domain.engine import Problem
from autotune.domain.trial import Hardware
from autotune.engines.dialect.flag_table import Release
from autotune.engines.dialect.hardware import generation

ALWAYS = ("*",)
_EVER: Release = (9999,)


@dataclass(frozen=True)
class Site:
    """What stays the same over a whole space. `fixed`: fixed arguments and variables, by concept."""

    release: Release
    hardware: Hardware | None = None
    largest_level: int | None = None
    fixed: Mapping[str, object] = field(default_factory=dict)

    @property
    def generation(self) -> int | None:
        """90 for sm90; None where it is not known."""
        return generation(self.hardware)

    def chose(self, name: str, asked: Mapping[str, object]) -> bool:
        """The space sets `name`, and not merely a fixed argument that a working command brought along."""
        return asked.get(name) is not None and self.fixed.get(name) != asked[name]


Check = Callable[[Mapping[str, object], Site], str | None]


@dataclass(frozen=True)
class Rule:
    """`check` says what is wrong, with the values, or None. `reads` are all concepts and variables that it looks at; it
    is passed over where none of `about` (else of `reads`) is asked for at all; `about` ALWAYS: never.

    `text`: the rule in words that hold for every configuration. `source`: where SGLang, NCCL or a public thread says
    so. Holds on the releases since..until, both included; where `hardware` is given, only on such hardware, and never
    where the hardware is not known. `bearable`: a baseline may run so. `refuses` False: it is only remarked on.
    """

    id: str
    text: str
    source: str
    reads: tuple[str, ...]
    check: Check
    since: Release = (0,)
    until: Release = _EVER
    hardware: Callable[[Hardware], bool] | None = None
    about: tuple[str, ...] = ()
    bearable: bool = False
    refuses: bool = True

    @property
    def label(self) -> str:
        return f"{self.id}: {self.text}"

    def holds_at(self, site: Site) -> bool:
        if not self.since <= site.release[:3] <= self.until:
            return False
        return self.hardware is None or (site.hardware is not None and self.hardware(site.hardware))


class RuleSet:
    """The rules that hold at a site. Keeps each rule's answers."""

    def __init__(self, rules: Sequence[Rule], site: Site) -> None:
        self._site = site
        self._rules = tuple(_Asked(rule, site) for rule in rules if rule.holds_at(site))
        self._blank: dict[str, object] = dict.fromkeys(name for asked in self._rules for name in asked.rule.reads)
        self._about: dict[frozenset[str], tuple[_Asked, ...]] = {}

    def problems(self, asked: Mapping[str, object]) -> list[Problem]:
        """In the order of the rules."""
        everything = {**self._blank, **asked}
        names = frozenset(asked)
        rules = self._about.get(names)
        if rules is None:
            rules = tuple(entry for entry in self._rules if entry.concerns(names))
            self._about[names] = rules
        return [problem for entry in rules if (problem := entry.answer(everything)) is not None]


_UNASKED: Any = object()


class _Asked:
    def __init__(self, rule: Rule, site: Site) -> None:
        self.rule = rule
        self._site = site
        self._values = itemgetter(*rule.reads)
        self._answers: dict[object, Problem | None] = {}

    def concerns(self, names: frozenset[str]) -> bool:
        about = self.rule.about or self.rule.reads
        return about == ALWAYS or not names.isdisjoint(about)

    def answer(self, asked: Mapping[str, object]) -> Problem | None:
        key = self._values(asked)
        found = self._answers.get(key, _UNASKED)
        if found is _UNASKED:
            text = self.rule.check(asked, self._site)
            found = None if text is None else Problem(f"{text} [{self.rule.id}]", self.rule.label, self.rule.bearable)
            self._answers[key] = found
        answer: Problem | None = found
        return answer
