"""What is known against a configuration before anything is launched."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from autotune.domain.configuration import Configuration, Value
from autotune.domain.engine import Problem
from autotune.domain.study import EngineSpec
from autotune.domain.trial import EngineVersion
from autotune.engines.dialect import (
    communication,
    rules_communication,
    rules_dead,
    rules_hardware,
    rules_load,
    rules_speculation,
    speculation,
)
from autotune.engines.dialect.flag_problems import UNKNOWN_FLAG, flag_problems
from autotune.engines.dialect.flag_table import FlagTable
from autotune.engines.dialect.knobs import is_variable, underscored
from autotune.engines.dialect.known_bugs import known_bugs
from autotune.engines.dialect.rules import Rule, RuleSet, Site
from autotune.engines.dialect.translation import Name, Translation, translation
from autotune.engines.dialect.variables import unread

_RESERVED = {
    "model_path": "is engine.model",
    "model": "is engine.model",
    "host": "is chosen for each launch",
    "port": "is chosen for each launch",
    "served_model_name": "is chosen for each launch, to prove which server answers",
    "api_key": "would make the server refuse the tuner's own requests",
    "admin_api_key": "would make the server refuse the tuner's own requests",
    "config": "would set arguments that no record shows",
    "incremental_streaming_output": "changes what the stream holds",
    "stream_output": "changes what the stream holds",
}
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEPT = 8

_RESERVED_RULE = "reserved: the tuner sets it for each launch"
_TWICE_RULE = "set-twice: one flag has one parameter"


def all_rules() -> tuple[Rule, ...]:
    """Every rule of every version, remarks among them, in the order in which they are asked; known bugs last."""
    return (
        *rules_speculation.RULES,
        *rules_load.RULES,
        *rules_hardware.RULES,
        *rules_communication.RULES,
        *rules_dead.RULES,
        *rules_dead.REMARKS,
        *known_bugs(),
    )


def spec_faults(spec: EngineSpec) -> tuple[str, ...]:
    """Faults of engine.args and engine.env that show without knowing the version."""
    faults = []
    for key in spec.args:
        if is_variable(key):
            faults.append(f"engine.args.{key} looks like an environment variable; those stand under engine.env")
        elif key.startswith("-"):
            faults.append(f"engine.args.{key} must be written without leading dashes: {key.lstrip('-')}")
        elif underscored(key) in _RESERVED:
            faults.append(f"engine.args.{key} may not be set: it {_RESERVED[underscored(key)]}")
    faults += [
        f"engine.env.{name} is no name of an environment variable" for name in spec.env if not _VARIABLE.fullmatch(name)
    ]
    return tuple(faults)


def configuration_problems(spec: EngineSpec, version: EngineVersion, configuration: Configuration) -> tuple[str, ...]:
    """Each problem is one line with the values; empty if nothing is known against the configuration."""
    return _checked(spec, version).problems(configuration)


def configuration_remarks(spec: EngineSpec, version: EngineVersion, configuration: Configuration) -> tuple[str, ...]:
    """Known bugs that only warn, what makes figures unreal, and variables that nothing reads."""
    return _checked(spec, version).remarks(configuration)


def disproved(
    spec: EngineSpec, version: EngineVersion, values: Mapping[str, Sequence[Value]], table: FlagTable | None
) -> tuple[str, ...]:
    """Names of the fixed arguments and of the space that no version has; and what `table`, read off the installed
    parser, refuses though the version's own table takes it."""
    read = translation(spec, version)
    found: dict[str, None] = {}
    for name, choices in [*((key, [value]) for key, value in spec.args.items()), *values.items()]:
        for value in choices:
            knob = read.name(name).knob
            known = flag_problems(knob, read.table, value, version)
            found.update(dict.fromkeys(p for p in known if isinstance(p, Problem) and p.rule == UNKNOWN_FLAG))
            if table is not None and not known:
                refused = flag_problems(knob, table, value, version)
                found.update({f"{problem} (says the installed parser itself)": None for problem in refused})
    return tuple(found)


class _Checked:
    """One engine section on one version, with what was found so far."""

    def __init__(self, spec: EngineSpec, version: EngineVersion) -> None:
        self.read: Translation = translation(spec, version)
        site = Site(version.release, version.hardware, version.largest_level, self.read.fixed)
        self._refusals = RuleSet([rule for rule in all_rules() if rule.refuses], site)
        self._warnings = RuleSet([rule for rule in all_rules() if not rule.refuses], site)
        self._values: dict[object, tuple[Problem, ...]] = {}
        self._shapes: dict[tuple[str, ...], tuple[Problem, ...]] = {}

    def problems(self, configuration: Configuration) -> tuple[str, ...]:
        asked = self.read.asked(configuration)
        dead = self.read.dead(asked, configuration)
        found = [*self._shape(tuple(configuration))]
        for name, value in configuration.items():
            if name not in dead.names:
                found += self._value(name, value)
        found += self._fixed_problems(asked, configuration)
        self._without_dead(asked, dead.concepts)
        return (*found, *self._refusals.problems(asked))

    def remarks(self, configuration: Configuration) -> tuple[str, ...]:
        asked = self.read.asked(configuration)
        self._without_dead(asked, self.read.dead(asked, configuration).concepts)
        found = self._warnings.problems(asked)
        version = self.read.version.text
        for name in (*self.read.spec.env, *configuration):
            if is_variable(name) and (remark := unread(name, self.read.table, version)) is not None:
                found.append(remark)
        return tuple(found)

    def _without_dead(self, asked: dict[str, object], dead: Sequence[str]) -> None:
        """Rules speak of what the server will see."""
        derived = speculation.derived_draft_tokens(asked)
        for concept in dead:
            asked[concept] = None
        if derived is not None:
            asked[speculation.DRAFT_TOKENS] = derived

    def _shape(self, names: tuple[str, ...]) -> tuple[Problem, ...]:
        """What is wrong with these names whatever their values are."""
        found = self._shapes.get(names)
        if found is None:
            read = [self.read.name(name) for name in names]
            reserved = [name for name in read if name.concept in _RESERVED]
            found = self._shapes[names] = (
                *(
                    Problem(f"{name.written} may not be a parameter: it {_RESERVED[name.concept]}", _RESERVED_RULE)
                    for name in reserved
                ),
                *self._set_twice(read),
            )
        return found

    def _set_twice(self, names: Sequence[Name]) -> list[Problem]:
        first: dict[str, str] = {}
        found = []
        for name in names:
            for target in dict.fromkeys((name.target, name.concept)):
                if target in first and first[target] != name.written:
                    text = f"{first[target]} and {name.written} both set {target} on sglang {self.read.version.text}"
                    found.append(Problem(text, _TWICE_RULE))
                    break
            for target in (name.target, name.concept):
                first.setdefault(target, name.written)
        return found

    def _fixed_problems(self, asked: Mapping[str, object], configuration: Mapping[str, object]) -> list[Problem]:
        """Of fixed arguments that are neither dead nor overridden."""
        if not self.read.spec.args:
            return []
        key = (speculation.signature(asked), communication.is_alone(asked), tuple(configuration))
        found = self._values.get(key)
        if found is None:
            chosen = {entry for name in configuration for entry in self._marks(name)}
            is_dead = self.read.dead_fixed(asked)
            found = self._values[key] = tuple(
                problem
                for name, value in self.read.spec.args.items()
                if chosen.isdisjoint(self._marks(name)) and not is_dead(self.read.name(name).concept)
                for problem in self._value(name, value)
            )
        return list(found)

    def _marks(self, written: str) -> tuple[str, str]:
        name = self.read.name(written)
        return name.target, name.concept

    def _value(self, name: str, value: object) -> tuple[Problem, ...]:
        key = (name, value, value.__class__)
        found = self._values.get(key)
        if found is None:
            knob = self.read.name(name).knob
            texts = () if knob.variable else flag_problems(knob, self.read.table, value, self.read.version)
            found = self._values[key] = tuple(
                text if isinstance(text, Problem) else Problem(text, f"flag: {text}") for text in texts
            )
        return found


_recent: list[_Checked] = []


def _checked(spec: EngineSpec, version: EngineVersion) -> _Checked:
    read = translation(spec, version)
    for known in _recent:
        if known.read is read:
            return known
    made = _Checked(spec, version)
    _recent.insert(0, made)
    del _recent[_KEPT:]
    return made
