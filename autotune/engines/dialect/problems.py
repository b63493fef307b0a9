"""What is known against a configuration before anything is launched: cheap rules that are certain."""

from __future__ import annotations

import re
from collections.abc import Mapping

from autotune.domain.configuration import Configuration
from autotune.domain.study import EngineSpec
from autotune.domain.trial import EngineVersion
from autotune.engines.dialect import speculation
from autotune.engines.dialect.command import asked_of_server, concept, named
from autotune.engines.dialect.flag_table import Flag, FlagTable, table_for
from autotune.engines.dialect.knobs import KNOB_NAMES, Knob, carrier, is_variable, underscored
from autotune.engines.dialect.nearest import did_you_mean

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
_NUMBERS = {"int": int, "ints": int, "float": float, "floats": float}
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


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
    table = table_for(version.release)
    found = [
        f"{name} may not be a parameter: it {_RESERVED[concept(name, table)]}"
        for name in configuration
        if concept(name, table) in _RESERVED
    ]
    found += _set_twice(version, configuration)
    for _main, (knob, value) in asked_of_server(spec, version, configuration).flags.items():
        found += _flag_problems(knob, table, value, version)
    found += speculation.problems(named(spec, version, configuration), version.release)
    return tuple(found)


def _set_twice(version: EngineVersion, configuration: Mapping[str, object]) -> list[str]:
    table = table_for(version.release)
    first: dict[str, str] = {}
    found = []
    for name in configuration:
        knob = carrier(name, version.release)
        target = knob.variable or table.main(knob.flag)
        if target in first:
            found.append(f"{first[target]} and {name} both set {target} on sglang {version.text}")
        first.setdefault(target, name)
    return found


def _flag_problems(knob: Knob, table: FlagTable, value: object, version: EngineVersion) -> list[str]:
    if value is None:
        return []
    flag = table.flag(knob.flag)
    if flag is None:
        known = [*KNOB_NAMES, *(underscored(name) for name in table.flags)]
        return [f"sglang {version.text} has no {knob.flag}{did_you_mean(underscored(knob.name), known)}"]
    if flag.kind in ("switch", "toggle"):
        if isinstance(value, bool):
            return []
        return [f"{knob.name} must be true or false ({knob.flag} takes no value), but got {value!r}"]
    items = value if isinstance(value, list | tuple) else (value,)
    if flag.kind in ("ints", "floats", "texts") and isinstance(value, str):
        items = tuple(value.split())
    return [problem for item in items for problem in _value_problems(knob, flag, item)]


def _value_problems(knob: Knob, flag: Flag, value: object) -> list[str]:
    number = _NUMBERS.get(flag.kind)
    if number is not None and not _reads_as(number, value):
        what = "a whole number" if number is int else "a number"
        return [f"{knob.name} must be {what} ({flag.name}), but got {value!r}"]
    if flag.choices and str(value) not in flag.choices:
        near = did_you_mean(str(value), flag.choices) or f"; it takes {', '.join(flag.choices)}"
        return [f"{knob.name} may not be {value!r} ({flag.name}){near}"]
    return []


def _reads_as(number: type[int] | type[float], value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return False
    try:
        number(value if isinstance(value, int) else str(value))
    except ValueError:
        return False
    return True
