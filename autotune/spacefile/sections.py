"""The flat sections: engine, workload, objective, budget, limits. Defaults come from the domain's own types."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from autotune.domain.configuration import Value
from autotune.domain.confirmation import Confirm
from autotune.domain.measurement import Objective
from autotune.domain.secrets import names_secret
from autotune.domain.study import STRATEGIES, Budget, EngineSpec, Limits, StudySpec
from autotune.domain.workload import ENDPOINTS, Workload
from autotune.spacefile import confirming, fields, interpreters, levels, precision
from autotune.spacefile.fields import UNSET, Key
from autotune.spacefile.tree import Faults, Node, Place, Scalar, Table, nearest

_STUDY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_ARGUMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def study_name(node: Node) -> str:
    name = fields.text(node)
    if not _STUDY.fullmatch(name) or len(name) > 100:
        hint = "it names the run folder and the MLflow experiment: letters, digits, - _ and ."
        raise fields.refuse(node, "a plain name of at most 100 characters", hint)
    return name


def _whole(node: Node) -> Node:
    return node


def _metric(node: Node) -> str:
    metric = fields.text(node)
    if metric not in Objective.METRICS:
        raise fields.refuse(node, " or ".join(Objective.METRICS), nearest(metric, Objective.METRICS))
    return metric


def _strategy(node: Node) -> str:
    name = fields.text(node)
    if name not in STRATEGIES:
        raise fields.refuse(node, " or ".join(STRATEGIES), nearest(name, STRATEGIES))
    return name


def _endpoint(node: Node) -> str:
    endpoint = fields.text(node)
    if endpoint not in ENDPOINTS:
        raise fields.refuse(node, " or ".join(ENDPOINTS), nearest(endpoint, ENDPOINTS))
    return endpoint


ENGINE: Mapping[str, Key] = {
    "name": Key(fields.text),
    "python": Key(interpreters.read, None),
    "model": Key(fields.text),
    "args": Key(_whole, None),
    "env": Key(_whole, None),
    "node": Key(_whole, None),
}
WORKLOAD: Mapping[str, Key] = {
    "prompts": Key(fields.text, Workload.prompts),
    "max_tokens": Key(fields.count, Workload.max_tokens),
    "concurrency": Key(_whole, None),
    "rates": Key(_whole, None),
    "temperature": Key(fields.not_negative, Workload.temperature),
    "ignore_eos": Key(fields.boolean, Workload.ignore_eos),
    "min_requests": Key(fields.count, StudySpec.min_requests),
    "endpoint": Key(_endpoint, Workload.endpoint),
    "prefix_sharing": Key(fields.boolean, Workload.prefix_sharing),
    "prefix_tokens": Key(fields.count, Workload.prefix_tokens),
    "precision": Key(fields.optional(precision.read), Workload.precision),
    "level_seconds": Key(fields.optional(fields.positive), Workload.level_seconds),
}
OBJECTIVE: Mapping[str, Key] = {"metric": Key(_metric, Objective.metric)}
BUDGET: Mapping[str, Key] = {
    "trials": Key(fields.optional(fields.count), None),
    "hours": Key(fields.optional(fields.positive), None),
    "baseline_every": Key(confirming.baseline_every, "auto"),
    "confirm": Key(confirming.read, Confirm()),
    "stop_when_settled": Key(fields.boolean, True),
    "early_stopping": Key(fields.boolean, True),
}
SEARCH: Mapping[str, Key] = {"strategy": Key(_strategy, StudySpec.strategy)}
LIMITS: Mapping[str, Key] = {
    "silence_s": Key(fields.positive, Limits.silence_s),
    "start_s": Key(fields.positive, Limits.start_s),
    "request_patience_s": Key(fields.positive, Limits.request_patience_s),
    "stop_grace_s": Key(fields.positive, Limits.stop_grace_s),
}


def engine(node: Node | None, whole: Place, faults: Faults) -> EngineSpec:
    keys = fields.section(node, "engine", ENGINE, whole, faults)
    python = keys["python"]
    pythons = python if isinstance(python, tuple) else ()
    return EngineSpec(
        name=keys["name"] or "",
        python=pythons[0] if pythons else python,
        pythons=pythons,
        model=keys["model"] or "",
        args=_arguments(fields.table_of(keys["args"], "engine.args", faults), faults),
        env=_environment(fields.table_of(keys["env"], "engine.env", faults), faults),
        node={
            entry.key.text: faults.attempt(fields.data, entry.node, None)
            for entry in fields.table_of(keys["node"], "engine.node", faults) or ()
        },
    )


def _arguments(table: Table | None, faults: Faults) -> dict[str, Value]:
    read: dict[str, Value] = {}
    spellings: dict[str, str] = {}
    for entry in table or ():
        name = entry.key.text
        bare = name.lstrip("-")
        if bare != name:
            faults.add(entry.key.place, "an argument is written without leading dashes", f"`{name}`", f"write `{bare}`")
        elif not _ARGUMENT.fullmatch(name):
            faults.add(entry.key.place, "an argument's name holds letters, digits, - and _", f"`{name}`")
        elif names_secret(name):
            fields.secret(entry.key, faults)
        elif spellings.setdefault(underscored(name), name) != name:
            other = spellings[underscored(name)]
            faults.add(entry.key.place, f"`{other}` and `{name}` are one argument", hint="keep one of them")
        read[name] = faults.attempt(fields.value, entry.node, None)
    return read


def _environment(table: Table | None, faults: Faults) -> dict[str, str]:
    read: dict[str, str] = {}
    for entry in table or ():
        name = entry.key.text
        if not _VARIABLE.fullmatch(name):
            faults.add(entry.key.place, "a variable's name holds letters, digits and _", f"`{name}`")
        elif names_secret(name):
            fields.secret(entry.key, faults)
            continue
        read[name] = faults.attempt(_variable, entry.node, "")
    return read


def _variable(node: Node) -> str:
    """The text as the file writes it: `1e3` stays `1e3`."""
    if not isinstance(node, Scalar):
        raise fields.refuse(node, "one value")
    if node.text == UNSET or (node.value is None):
        raise fields.refuse(node, "a value", "leave the variable out: the server gets none of the shell's")
    return node.text


def underscored(argument: str) -> str:
    """The name by which expressions know an argument."""
    return argument.replace("-", "_")


def workload(node: Node | None, whole: Place, faults: Faults) -> tuple[Workload, int]:
    """The workload, and how few requests a level may have."""
    keys = fields.section(node, "workload", WORKLOAD, whole, faults)
    at = node.place if node is not None else whole
    closed, rates = levels.read(keys["concurrency"], keys["rates"], at, faults)
    made = Workload(
        closed,
        keys["prompts"],
        keys["max_tokens"],
        float(keys["temperature"]),
        keys["ignore_eos"],
        keys["endpoint"],
        keys["prefix_sharing"],
        keys["prefix_tokens"],
        precision=keys["precision"],
        level_seconds=None if keys["level_seconds"] is None else float(keys["level_seconds"]),
        rates=rates,
    )
    return made, keys["min_requests"]


def objective(node: Node | None, whole: Place, faults: Faults) -> Objective:
    slo = node.entry("slo") if isinstance(node, Table) else None
    if slo is not None and isinstance(node, Table):
        faults.add(slo.key.place, "slo is a section of its own", hint="write `slo:` beside `objective:`, not in it")
        node = Table(node.place, node.path, [entry for entry in node if entry is not slo])
    return Objective(fields.section(node, "objective", OBJECTIVE, whole, faults)["metric"])


def budget(node: Node | None, whole: Place, faults: Faults) -> Budget:
    before = len(faults)
    keys = fields.section(node, "budget", BUDGET, whole, faults)
    if len(faults) == before and keys["trials"] is None and keys["hours"] is None:
        place = node.place if node is not None else whole
        faults.add(place, "budget must say when the study ends", hint="write `budget: {trials: 60, hours: 10}`, or one")
    hours = keys["hours"]
    hours = None if hours is None else float(hours)
    return Budget(
        keys["trials"],
        hours,
        keys["baseline_every"],
        keys["confirm"],
        keys["stop_when_settled"],
        early_stopping=keys["early_stopping"],
    )


def limits(node: Node | None, whole: Place, faults: Faults) -> Limits:
    keys = fields.section(node, "limits", LIMITS, whole, faults)
    return Limits(**{name: float(seconds) for name, seconds in keys.items()})


def strategy(node: Node | None, whole: Place, faults: Faults) -> str:
    return str(fields.section(node, "search", SEARCH, whole, faults)["strategy"])


def engine_plain(spec: EngineSpec) -> dict[str, Any]:
    return {
        "name": spec.name,
        "python": list(spec.pythons) or fields.plain(spec.python),
        "model": spec.model,
        "args": fields.plain(spec.args),
        "env": dict(spec.env),
        "node": fields.plain(spec.node),
    }


def workload_plain(made: Workload, min_requests: int) -> dict[str, Any]:
    levels = {"concurrency": dict(made.concurrency), "rates": dict(made.rates)}
    return {
        "prompts": made.prompts,
        "max_tokens": made.max_tokens,
        **{name: weights for name, weights in levels.items() if weights},
        "temperature": made.temperature,
        "ignore_eos": made.ignore_eos,
        "min_requests": min_requests,
        "endpoint": made.endpoint,
        "prefix_sharing": made.prefix_sharing,
        "prefix_tokens": made.prefix_tokens,
        "precision": fields.plain(made.precision),
        "level_seconds": fields.plain(made.level_seconds),
    }
