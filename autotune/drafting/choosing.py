"""Which dimensions a command is worth searching over on a node, and what of it the space file cannot hold."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from autotune.domain.configuration import Value
from autotune.domain.expression import Expression, parse
from autotune.domain.secrets import is_secret, names_secret
from autotune.domain.study import EngineSpec
from autotune.domain.trial import Hardware
from autotune.drafting import facts
from autotune.drafting.arguments import Arguments
from autotune.drafting.dimensions import DIMENSIONS, HINTS, UNFIT, Dimension, Unfit
from autotune.drafting.invocation import Invocation, Left
from autotune.engines import get
from autotune.engines.dialect.flag_table import FlagTable
from autotune.engines.dialect.knobs import carrier, stable_name, underscored

LEVELS = (1, 4, 16, 64, 128)
RUNNING = 256
"""max-running-requests where the command leaves it to the server, which lowers it to 48 under speculation."""

_HIDDEN = re.compile(r"(?:token|secret|passw(?:or)?d|api_?key)\"?\s*[:=]|://[^/@\s:]+:[^/@\s]+@", re.IGNORECASE)
_EXPERTS = re.compile(r"moe|expert|deepep|^--ep")
_BOTH_SWITCHES = (0, 5, 13)  # reads the variable and the flag; the flag is what is searched
_OVERLAP_SINCE = (0, 5, 11)  # the default of the variable that spec_v2 is to 0.5.12


@dataclass(frozen=True)
class Searched:
    """A dimension as it is written: `values` without the command's own where that is out of the question, and the
    baseline's `own`. `remark` says how the two differ. `active`: its condition holds in the baseline."""

    dimension: Dimension
    values: tuple[Value, ...]
    own: Value
    remark: str = ""
    active: bool = True


@dataclass
class Choice:
    """`args` and `env`: what stays fixed. `baseline`: by the names of the parameters."""

    args: dict[str, Value] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    model: str = ""
    searched: list[Searched] = field(default_factory=list)
    levels: tuple[int, ...] = LEVELS
    own_cap: bool = False
    hints: tuple[Unfit, ...] = ()
    left: list[Left] = field(default_factory=list)
    facts: Mapping[str, Value] = field(default_factory=dict)


def choose(
    call: Invocation, arguments: Arguments, table: FlagTable, release: tuple[int, ...], hardware: Hardware | None
) -> Choice:
    """Everything that the file says of the engine and of the space."""
    made = Choice(left=[*call.left, *arguments.left])
    known = _facts(arguments, release, hardware, made)
    made.facts = known
    given: dict[str, Value] = {}
    for name, placed in arguments.placed.items():
        why = _not_held(name, placed.spelled, placed.value, known)
        if name == table.main("--model-path"):
            made.model = str(placed.value)
        elif why:
            hide = why.startswith("a secret")
            made.left.append(Left(f"--{placed.spelled}" + ("" if hide else _shown(placed.value)), why))
        else:
            made.args[placed.spelled] = placed.value
            given[name] = placed.value
    _environment(call, known, made)
    rows = [(dimension, _own(dimension, made, table, release)) for dimension in _dimensions(known)]
    own = {dimension.name: value for dimension, value in rows}
    for dimension, value in rows:
        active = not dimension.when or _parsed(dimension.when).evaluate(own, frozenset(own)) is True
        made.searched.append(_searched(dimension, value if active else None, made, active=active))
    made.hints = tuple(hint for hint in HINTS if _holds(hint.condition, known))
    if not made.own_cap:
        made.args["max-running-requests"] = RUNNING
    return made


def _facts(arguments: Arguments, release: tuple[int, ...], hardware: Hardware | None, made: Choice) -> dict[str, Value]:
    cap = facts.number(arguments.value("--max-running-requests"))
    if cap is not None and cap >= 1:
        made.own_cap = True
        inside = [level for level in LEVELS if level <= cap]
        made.levels = tuple(inside if inside and (cap >= LEVELS[-1] or cap in inside) else [*inside, cap])
    tp = facts.number(arguments.value("--tp-size", "--tensor-parallel-size")) or 1
    algorithm = arguments.value("--speculative-algorithm")
    quantization = arguments.value("--quantization")
    own = arguments.value("--attention-backend")
    split = arguments.value("--prefill-attention-backend", "--decode-attention-backend") is not None
    no_graphs = arguments.value("--disable-cuda-graph") is True or any(
        name.startswith(("--cuda-graph-bs", "--disable-decode-cuda-graph", "--cuda-graph-config"))
        for name in arguments.placed
    )
    ranks = facts.number(arguments.value("--attn-dp-size")) or 1
    return facts.named(
        {
            "release": facts.release_number(release),
            "sm": facts.compute_capability(hardware),
            "gpus": hardware.gpu_count if hardware else None,
            "link": hardware.link if hardware else None,
            "tp": tp,
            "largest": made.levels[-1],
            "algorithm": algorithm.upper() if isinstance(algorithm, str) else None,
            "draft": arguments.value("--speculative-draft-model-path") is not None,
            "page": facts.number(arguments.value("--page-size")) or 1,
            "moe": any(_EXPERTS.search(name) for name in arguments.placed),
            "quantization": quantization,
            "split_attention": split,
            "dp_attention": arguments.value("--enable-dp-attention") is True or ranks > 1,
            "graphs": not no_graphs,
            "own_backend": own,
        }
    )


def _not_held(name: str, spelled: str, value: Value, known: Mapping[str, Value]) -> str:
    """Why the space file may not hold it; empty if it may."""
    text = "" if isinstance(value, bool) or value is None else str(value)
    if is_secret(name, text) or _HIDDEN.search(text):
        return "a secret does not belong into a file that is copied into every run folder"
    bare = EngineSpec("sglang", "python3", "model", {spelled: value})
    faults = get("sglang").check_spec(bare)
    if faults:
        return faults[0].partition(": ")[2] or faults[0]
    if names_secret(spelled):
        return "a secret by its name, which a space file may not hold"
    unfit = next((row for row in UNFIT if row.name == name and _holds(row.condition, known)), None)
    return unfit.why if unfit else ""


def _environment(call: Invocation, known: Mapping[str, Value], made: Choice) -> None:
    for name, word in call.environment.items():
        unfit = next((row for row in UNFIT if row.name == name and _holds(row.condition, known)), None)
        if is_secret(name, word.text) or names_secret(name) or _HIDDEN.search(word.text):
            made.left.append(Left(name, "a secret does not belong into a file that is copied into every run folder"))
        elif word.unknown:
            made.left.append(Left(f"{name}={word.shown}", f"nothing in the text says what ${word.unknown[0]} is"))
        elif unfit is not None:
            made.left.append(Left(f"{name}={word.text}", unfit.why))
        elif not word.text:
            made.left.append(Left(f"{name}=", "is empty; a space file holds what is set"))
        else:
            made.env[name] = word.text


def _searched(dimension: Dimension, own: Value, made: Choice, *, active: bool) -> Searched:
    """`own` is the command's own value."""
    floor = made.levels[-1] if dimension.least else 0
    values = [value for value in dimension.values if not dimension.least or (facts.number(value) or 0) >= floor]
    remark = ""
    fits = own is not None and (not dimension.least or (facts.number(own) or 0) >= floor)
    if dimension.name == "ep_size":
        values.append(facts.number(made.facts["tp"]) or 1)
    if dimension.own and fits and not any(own == value and type(own) is type(value) for value in values):
        values.append(own)
        if all(isinstance(value, int) and not isinstance(value, bool) for value in values):
            values.sort(key=lambda value: facts.number(value) or 0)
    elif dimension.least and own is not None and not fits:
        remark = f"levels above {own} run without a graph in it; the searched values do not have that"
    elif not dimension.own and own is not None and own not in values:
        remark = "as the command has it; what is searched is in the form that NCCL takes without surprises"
    return Searched(dimension, tuple(values), own, remark, active)


def _own(dimension: Dimension, made: Choice, table: FlagTable, release: tuple[int, ...]) -> Value:
    """The command's value, taken out of what is fixed."""
    if dimension.env:
        return made.env.pop(dimension.name, None)
    knob = carrier(dimension.name, release)
    if knob.variable:
        text = made.env.pop(knob.variable, None)
        if text is None:
            return release >= _OVERLAP_SINCE if dimension.name == "spec_v2" else dimension.absent
        return _is_true(text)
    found: Value = None
    if dimension.name == "spec_v2" and release[:3] == _BOTH_SWITCHES:
        text = made.env.pop("SGLANG_ENABLE_SPEC_V2", None)
        found = None if text is None or _is_true(text) else False
    for spelled in list(made.args):
        concept, opposite = stable_name(underscored(spelled))
        same_flag = table.main(f"--{spelled}") == table.main(knob.flag)
        if same_flag or concept == dimension.name:
            value = made.args.pop(spelled)
            negated = knob.negated if same_flag else opposite
            found = not value if negated and isinstance(value, bool) else value
            found = True if knob.on and found == knob.on else found
    if found is None:
        return True if knob.negated else dimension.absent
    return found


def _is_true(text: str) -> bool:
    return text.strip().lower() in ("1", "true", "yes", "y")


def _dimensions(known: Mapping[str, Value]) -> list[Dimension]:
    taken: dict[str, Dimension] = {}
    for dimension in DIMENSIONS:
        if dimension.name not in taken and _holds(dimension.condition, known):
            taken[dimension.name] = dimension
    return list(taken.values())


def _holds(condition: str, known: Mapping[str, Value]) -> bool:
    return _parsed(condition).evaluate(known, facts.NAMES) is True


@cache
def _parsed(condition: str) -> Expression:
    return parse(condition)


def _shown(value: Value) -> str:
    return "" if isinstance(value, bool) else f" {value}"
