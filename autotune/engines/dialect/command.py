"""From a configuration to argv and environment, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from autotune.domain.configuration import Configuration
from autotune.domain.engine import LaunchSite
from autotune.domain.study import EngineSpec
from autotune.domain.trial import EngineVersion
from autotune.engines.dialect import speculation
from autotune.engines.dialect.flag_table import table_for
from autotune.engines.dialect.knobs import Knob, flag_words, variable_text
from autotune.engines.dialect.translation import Name, Translation, translation


@dataclass(frozen=True)
class Asked:
    """What is asked of the server: `flags` by the flag's main name, in the order of the command line."""

    flags: Mapping[str, tuple[Knob, object]] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)


def canonical(spec: EngineSpec, version: EngineVersion, configuration: Configuration) -> Configuration:
    """Without what has no effect beside the rest, so that all spellings of one server come out the same.

    What is unset stays (None): it may stand against a fixed argument.
    """
    return translation(spec, version).canonical(configuration)


def asked_of_server(spec: EngineSpec, version: EngineVersion, configuration: Configuration) -> Asked:
    """The fixed arguments, the configuration over them, without the dead ones and with the derived ones."""
    read = translation(spec, version)
    everything = read.asked(configuration)
    dead, is_dead_fixed = read.dead(everything, configuration).names, read.dead_fixed(everything)
    collected = _Collected(read)
    for written, value in spec.args.items():
        if not is_dead_fixed(read.name(written).concept):
            collected.put(read.name(written), value)
    for written, value in configuration.items():
        if written not in dead:
            collected.put(read.name(written), value)
    derived = speculation.derived_draft_tokens(everything)
    if derived is not None:
        collected.put(read.name(speculation.DRAFT_TOKENS), derived)
    return Asked(collected.flags, collected.variables)


class _Collected:
    """Later entries take the place of earlier ones of the same flag, or of another flag for the same concept."""

    def __init__(self, read: Translation) -> None:
        self.flags: dict[str, tuple[Knob, object]] = {}
        self.variables: dict[str, str] = dict(read.spec.env)
        self._concepts: dict[str, str] = {}

    def put(self, name: Name, value: object) -> None:
        if name.knob.lacking:
            return  # refused before any launch
        if name.knob.variable:
            text = variable_text(name.knob, value)
            self.variables.pop(name.knob.variable, None)
            if text is not None:
                self.variables[name.knob.variable] = text
            return
        for other in [t for t, c in self._concepts.items() if c == name.concept and t != name.target]:
            del self.flags[other], self._concepts[other]
        self.flags[name.target] = (name.knob, value)
        self._concepts[name.target] = name.concept


def arguments(asked: Asked, spec: EngineSpec, version: EngineVersion, site: LaunchSite) -> tuple[str, ...]:
    """Everything behind the program's name; what identifies the launch stands first, and is always explicit."""
    table = table_for(version.release)
    words = [
        *("--model-path", spec.model),
        *("--host", site.host),
        *("--port", str(site.port)),
        *("--served-model-name", site.served_name),
    ]
    for main, (knob, value) in asked.flags.items():
        words += flag_words(knob, table.flag(main), value)
    return tuple(words)
