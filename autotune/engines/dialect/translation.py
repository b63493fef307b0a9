"""One engine section read for one version: every name looked up once, so that a hundred thousand configurations are
checked in seconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from autotune.domain.configuration import Configuration
from autotune.domain.study import EngineSpec
from autotune.domain.trial import EngineVersion
from autotune.engines.dialect import communication, speculation
from autotune.engines.dialect.flag_table import FlagTable, table_for
from autotune.engines.dialect.knobs import Knob, carrier, is_variable, stable_name, underscored

_KEPT = 8


@dataclass(frozen=True)
class Name:
    """A name as it is written, and what it stands for. `concept` is what rules call it, on every version; `opposite`:
    its yes is the concept's no. `target`: the variable, or the main name of the flag, that carries it."""

    written: str
    concept: str
    opposite: bool
    knob: Knob
    target: str

    def meant(self, value: object) -> object:
        return (not value) if self.opposite and isinstance(value, bool) else value


@dataclass(frozen=True)
class Dead:
    """What has no effect in one situation: names of a configuration, and concepts, fixed ones among them."""

    names: frozenset[str]
    concepts: tuple[str, ...]


class Translation:
    """`spec` on `version`. Keeps what it has looked up; holds no state that changes an answer."""

    def __init__(self, spec: EngineSpec, version: EngineVersion) -> None:
        self.spec = spec
        self.version = version
        self.table: FlagTable = table_for(version.release)
        self._names: dict[str, Name] = {}
        self._dead: dict[object, Dead] = {}
        self._may_die: dict[str, bool] = {}
        fixed: dict[str, object] = {self.name(key).concept: value for key, value in spec.env.items()}
        fixed.update({self.name(key).concept: self.name(key).meant(value) for key, value in spec.args.items()})
        self.fixed: Mapping[str, object] = fixed
        """Fixed arguments by concept, and fixed variables by their names."""

    def name(self, written: str) -> Name:
        found = self._names.get(written)
        if found is None:
            found = self._names[written] = self._read(written)
        return found

    def _read(self, written: str) -> Name:
        knob = carrier(written, self.version.release)
        if is_variable(written):
            return Name(written, stable_name(written)[0], False, knob, written)
        plain = underscored(written)
        concept, opposite = stable_name(plain)
        if concept == plain and knob.flag == "--" + plain.replace("_", "-"):  # no knob: by the flag's main name
            flag = self.table.flag(knob.flag)
            concept, opposite = stable_name(underscored(flag.name)) if flag is not None else (plain, False)
        return Name(
            written, concept, opposite, knob, knob.variable or (self.table.main(knob.flag) if knob.flag else plain)
        )

    def asked(self, configuration: Mapping[str, object]) -> dict[str, object]:
        """Fixed and chosen arguments by concept, variables by name; the chosen ones over the fixed ones."""
        asked = dict(self.fixed)
        names = self._names
        for written, value in configuration.items():
            name = names.get(written) or self.name(written)
            asked[name.concept] = name.meant(value) if name.opposite else value
        return asked

    def dead(self, asked: Mapping[str, object], configuration: Mapping[str, object]) -> Dead:
        """What of `configuration` and of the fixed arguments has no effect beside the rest."""
        signed = speculation.signature(asked)
        alone = communication.is_alone(asked)
        key = (signed, alone, tuple(configuration))
        found = self._dead.get(key)
        if found is None:
            is_dead = self._predicate(signed, alone)
            names = frozenset(name for name in configuration if is_dead(self.name(name).concept))
            concepts = tuple(concept for concept in asked if is_dead(concept))
            found = self._dead[key] = Dead(names, concepts)
        return found

    def _predicate(self, signed: speculation.Signature, alone: bool) -> Callable[[str], bool]:
        without_effect = speculation.dead(signed, self.version.release)
        if not alone:
            return without_effect
        return lambda concept: without_effect(concept) or communication.is_communication(concept)

    def dead_fixed(self, asked: Mapping[str, object]) -> Callable[[str], bool]:
        """Fixed arguments that are left out. A fixed all-reduce flag stays on one GPU: it is the owner's, and harms
        nothing."""
        return speculation.dead(speculation.signature(asked), self.version.release)

    def canonical(self, configuration: Configuration) -> Configuration:
        dead = self.dead(self.asked(configuration), configuration).names
        return configuration.without(*dead) if dead else configuration


_recent: list[Translation] = []


def translation(spec: EngineSpec, version: EngineVersion) -> Translation:
    """The same one for the same two objects, so that what it has looked up is there again."""
    for known in _recent:
        if known.spec is spec and known.version is version:
            return known
    made = Translation(spec, version)
    _recent.insert(0, made)
    del _recent[_KEPT:]
    return made
