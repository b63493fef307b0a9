"""From a name of the space file to the flag or the variable that carries it on a given version.

A name in UPPER_CASE is an environment variable. A name in the table of knobs is a concept whose flag changed from
version to version. Any other name is SGLang's own flag with underscores for dashes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from autotune.engines.dialect.flag_table import Flag, Release

_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
_EVER: Release = (9999,)


@dataclass(frozen=True)
class Knob:
    """What carries `name` on the releases since..until, both included: a flag, or a variable.

    `negated`: the flag switches the concept off. `words`: how a variable spells true and false.
    """

    name: str
    flag: str = ""
    variable: str = ""
    since: Release = (0,)
    until: Release = _EVER
    negated: bool = False
    words: tuple[str, str] = ("1", "0")


KNOBS = (
    Knob("spec_v2", variable="SGLANG_ENABLE_SPEC_V2", until=(0, 5, 12), words=("True", "False")),
    Knob("spec_v2", flag="--disable-overlap-schedule", since=(0, 5, 13), negated=True),
    Knob("cuda_graph_max_bs", flag="--cuda-graph-max-bs", until=(0, 5, 13)),
    Knob("cuda_graph_max_bs", flag="--cuda-graph-max-bs-decode", since=(0, 5, 14)),
    Knob("cuda_graph_bs", flag="--cuda-graph-bs", until=(0, 5, 13)),
    Knob("cuda_graph_bs", flag="--cuda-graph-bs-decode", since=(0, 5, 14)),
)
"""One row for each name and range of releases. A row with neither flag nor variable would mean: no such thing there."""

KNOB_NAMES = tuple(sorted({knob.name for knob in KNOBS}))


def is_variable(name: str) -> bool:
    return _VARIABLE.fullmatch(name) is not None


def underscored(name: str) -> str:
    """The name of the space file for a name as engine.args or a command line writes it."""
    return name.removeprefix("--").replace("-", "_")


def carrier(name: str, release: Release) -> Knob:
    """`name` as the space file or engine.args writes it. An unknown name is taken for a flag of its own."""
    if is_variable(name):
        return Knob(name, variable=name)
    name = underscored(name)
    row = next((knob for knob in KNOBS if knob.name == name and knob.since <= release[:3] <= knob.until), None)
    return row or Knob(name, flag="--" + name.replace("_", "-"))


def variable_text(knob: Knob, value: object) -> str | None:
    """None: the variable is not set."""
    if value is None:
        return None
    if isinstance(value, bool):
        return knob.words[0] if value else knob.words[1]
    return _text(value)


def flag_words(knob: Knob, flag: Flag | None, value: object) -> tuple[str, ...]:
    """The words of the command line for `value`; none where the flag is to be left out. `flag` None: not known."""
    if knob.negated and isinstance(value, bool):
        value = not value
    if value is None:
        return ()
    kind = flag.kind if flag is not None else "switch" if isinstance(value, bool) else "text"
    if kind in ("switch", "toggle") and isinstance(value, bool):
        if value:
            return (knob.flag,)
        return (f"--no-{knob.flag.removeprefix('--')}",) if kind == "toggle" else ()
    if isinstance(value, list | tuple):
        return (knob.flag, *(_text(item) for item in value))
    if kind in ("ints", "floats", "texts") and isinstance(value, str):
        return (knob.flag, *value.split())
    return (knob.flag, _text(value))


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)
