"""Whether a version has a flag, and whether the flag takes a value."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.domain.engine import Problem
from autotune.domain.trial import EngineVersion
from autotune.engines.dialect.flag_table import Flag, FlagTable, lifetime
from autotune.engines.dialect.knobs import KNOB_NAMES, NEAREST, Knob, underscored
from autotune.engines.dialect.nearest import did_you_mean

UNKNOWN_FLAG = "unknown-flag: some version of SGLang has the flag"
_NUMBERS: dict[str, type[int] | type[float]] = {"int": int, "ints": int, "float": float, "floats": float}


def flag_problems(knob: Knob, table: FlagTable, value: object, version: EngineVersion) -> Sequence[str]:
    """Every reason why `knob` cannot carry `value` here; none for what is unset, or stands in the environment."""
    if value is None or knob.variable:
        return ()
    if knob.lacking:
        return (f"sglang {version.text} has no {knob.name}: {knob.lacking}",) if value is not False else ()
    if knob.off and value is False:
        return ()
    if knob.on and value is True:
        value = knob.on
    flag = table.flag(knob.flag)
    if flag is None:
        return (_missing(knob, table, version),)
    if flag.kind in ("switch", "toggle"):
        if isinstance(value, bool):
            return ()
        return (f"{knob.name} must be true or false ({knob.flag} takes no value), but got {value!r}",)
    items = value if isinstance(value, list | tuple) else (value,)
    if flag.kind in ("ints", "floats", "texts") and isinstance(value, str):
        items = tuple(value.split())
    return [problem for item in items for problem in _value_problems(knob, flag, item)]


def _missing(knob: Knob, table: FlagTable, version: EngineVersion) -> str:
    """Why there is no such flag, and what comes nearest: another version's flag is told from a slip of the pen."""
    name, lived = underscored(knob.name), lifetime(knob.flag)
    text = f"sglang {version.text} has no {knob.flag}"
    if lived is None:
        known = [*KNOB_NAMES, *(underscored(spelling) for spelling in table.flags)]
        return Problem(text + did_you_mean(name, known), UNKNOWN_FLAG)
    first, last = lived
    span = f"it is in {first} only" if first == last else f"it is in {first} to {last}"
    nearest = NEAREST.get(name)
    if nearest is not None:
        return f"{text}: {span}; nearest: {nearest}"
    return f"{text}: {span}" + did_you_mean(name, (underscored(spelling) for spelling in table.flags))


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
