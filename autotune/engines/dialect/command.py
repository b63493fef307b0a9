"""From a configuration to argv and environment, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from autotune.domain.configuration import Configuration
from autotune.domain.engine import LaunchSite
from autotune.domain.study import EngineSpec
from autotune.domain.trial import EngineVersion
from autotune.engines.dialect import speculation
from autotune.engines.dialect.flag_table import FlagTable, table_for
from autotune.engines.dialect.knobs import Knob, carrier, flag_words, underscored, variable_text


@dataclass(frozen=True)
class Asked:
    """What is asked of the server: `flags` by the flag's main name, in the order of the command line."""

    flags: Mapping[str, tuple[Knob, object]] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)


def named(spec: EngineSpec, version: EngineVersion, configuration: Mapping[str, object]) -> dict[str, object]:
    """Fixed and chosen arguments by the names of the space file, the chosen ones over the fixed ones.

    An alias (speculative-draft-model) stands under the name of its flag.
    """
    table = table_for(version.release)
    merged: dict[str, object] = {}
    for name, value in (*spec.args.items(), *configuration.items()):
        merged[concept(name, table)] = value
    return merged


def canonical(spec: EngineSpec, version: EngineVersion, configuration: Configuration) -> Configuration:
    """Without what has no effect beside the rest, so that all spellings of one server come out the same.

    What is unset stays (None): it may stand against a fixed argument.
    """
    table = table_for(version.release)
    is_dead = speculation.dead(named(spec, version, configuration), version.release)
    return configuration.without(*(name for name in configuration if is_dead(concept(name, table))))


def asked_of_server(spec: EngineSpec, version: EngineVersion, configuration: Configuration) -> Asked:
    """The fixed arguments, the configuration over them, without the dead ones and with the derived ones."""
    table, release = table_for(version.release), version.release
    everything = named(spec, version, configuration)
    is_dead = speculation.dead(everything, release)
    flags: dict[str, tuple[Knob, object]] = {}
    variables: dict[str, str] = dict(spec.env)
    for name, value in (*spec.args.items(), *configuration.items()):
        if is_dead(concept(name, table)):
            continue
        knob = carrier(name, release)
        if knob.variable:
            text = variable_text(knob, value)
            variables.pop(knob.variable, None)
            if text is not None:
                variables[knob.variable] = text
        else:
            flags[table.main(knob.flag)] = (knob, value)
    derived = speculation.derived_draft_tokens(everything)
    if derived is not None:
        knob = carrier(speculation.DRAFT_TOKENS, release)
        flags[table.main(knob.flag)] = (knob, derived)
    return Asked(flags, variables)


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


def concept(name: str, table: FlagTable) -> str:
    """The name of the space file for any spelling of one argument."""
    plain = underscored(name)
    flag = table.flag("--" + plain.replace("_", "-"))
    return underscored(flag.name) if flag is not None else plain
