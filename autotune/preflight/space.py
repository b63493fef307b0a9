"""The space against the engine: what cannot be launched, and how many servers the space holds."""

from __future__ import annotations

import functools
import itertools
import math
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from autotune.domain.configuration import Configuration, Value
from autotune.domain.engine import Problem
from autotune.domain.serving import Serving
from autotune.domain.space import SearchSpace, SpaceCount, Values
from autotune.domain.study import ENGINE_PYTHON, StudySpec
from autotune.errors import InputError

_LOOKED_THROUGH = 100_000
_SAMPLE = 20_000
"""Random points of a space that is too large to count."""
_SHOWN = 12


def problems_of(spec: StudySpec, serving: Serving, configuration: Configuration) -> tuple[str, ...]:
    """Why it must not be launched. The baseline may be whatever its owner runs: what is bearable is not held against
    it."""
    found = serving.problems(configuration)
    if configuration != spec.baseline:
        return found
    return tuple(problem for problem in found if not (isinstance(problem, Problem) and problem.bearable))


def refuse_impossible(spec: StudySpec, serving: Serving) -> None:
    """The baseline and the known-good configurations must be launchable on the installed version, and the space must
    hold a choice. Raises InputError with every misfit of them."""
    named = [("baseline", spec.baseline), *((f"known_good[{i}]", c) for i, c in enumerate(spec.known_good))]
    places: dict[str, list[str]] = {}
    for name, configuration in named:
        for problem in problems_of(spec, serving, configuration):
            places.setdefault(problem, []).append(name)
    for misfit in _unknown_names(spec, serving):
        if misfit not in places:
            places[misfit] = ["engine.args and parameters"]
    if places:
        found = [f"{', '.join(names)}: {problem}" for problem, names in places.items()]
        raise InputError("\n".join(found), hint="`autotune check --space FILE` shows the space as it is read")
    refuse_idle(spec, serving)


def _unknown_names(spec: StudySpec, serving: Serving) -> list[str]:
    """A slip of the pen in a name would leave all configurations but the unset ones out of the study."""
    grids = parameter_values(spec)
    found: dict[str, None] = {}
    for version in serving.versions.values():
        found.update(dict.fromkeys(serving.engine.disproved(serving.spec, version, grids, "")))
    return list(found)


def parameter_values(spec: StudySpec, python: str | None = None) -> dict[str, tuple[Value, ...]]:
    """The grid of each parameter that is an argument or a variable of the server; of a space with several
    interpreters only those that exist on `python`, since another version's knobs are none of its own."""
    grids = {p.name: p.domain.grid() for p in spec.space.parameters if p.name != ENGINE_PYTHON}
    return grids if python is None else {name: grids[name] for name in grids if name in _existing(spec, python)}


def _existing(spec: StudySpec, python: str) -> set[str]:
    """Names of the parameters that are active in some configuration on this interpreter; all where nobody can tell."""
    names = {parameter.name for parameter in spec.space.parameters}
    if ENGINE_PYTHON not in names:
        return names
    alone = (replace(p, domain=Values((python,))) if p.name == ENGINE_PYTHON else p for p in spec.space.parameters)
    seen: set[str] = set()
    for number, configuration in enumerate(replace(spec.space, parameters=tuple(alone)).configurations()):
        seen |= set(configuration)
        if seen == names or number >= _LOOKED_THROUGH:
            return names
    return seen


def refuse_idle(spec: StudySpec, serving: Serving) -> None:
    """Raises InputError where no configuration may be launched, or all of them start one and the same server."""
    if not any(len(parameter.domain.grid()) > 1 for parameter in spec.space.parameters):
        return  # the space does not ask for a choice
    servers: set[Configuration] = set()
    refused: dict[str, None] = {}
    for number, configuration in enumerate(spec.space.configurations()):
        if number >= _LOOKED_THROUGH or len(servers) > 1:
            return
        if broken := spec.space.broken(configuration):
            refused.setdefault(f"constraint: {broken[0]}")
        elif found := problems_of(spec, serving, configuration):
            refused.setdefault(found[0])
        else:
            servers.add(serving.canonical(configuration))
    if len(servers) > 1:
        return
    if not servers:
        reasons = "\n".join(list(refused)[:_SHOWN])
        raise InputError(
            f"no configuration of the space may be launched:\n{reasons}",
            hint="`autotune check` counts what each of them refuses",
        )
    raise InputError(
        "every configuration of the space starts one and the same server: "
        f"{', '.join(parameter.name for parameter in spec.space.parameters)} change nothing here"
        + ("".join(f"\n{reason}" for reason in list(refused)[:_SHOWN])),
        hint="NCCL and all-reduce parameters need tp-size above 1; `autotune check` shows what is refused",
    )


def count(spec: StudySpec, serving: Serving | None, limit: int = _LOOKED_THROUGH) -> SpaceCount:
    """Counts grid points by what becomes of them; of more than `limit`, some 20,000 at random, and says so.
    `serving` None: no engine was asked.

    What is refused stands under the first rule that refuses it.
    """
    refused: Counter[str] = Counter()
    remarked: Counter[str] = Counter()
    valid, servers, combinations = 0, set[Configuration](), 0
    broken_by = functools.cache(lambda expression: f"constraint {expression}")
    whole = _holds_at_most(spec.space, limit)
    for configuration in spec.space.configurations() if whole else _sampled(spec):
        if combinations == limit:
            break
        combinations += 1
        if broken := spec.space.broken(configuration):
            refused[broken_by(str(broken[0]))] += 1
        elif serving is None:
            valid += 1
            servers.add(configuration)
        elif found := problems_of(spec, serving, configuration):
            refused[f"{serving.engine.name}: {rule_of(found[0])}"] += 1
        else:
            valid += 1
            servers.add(serving.canonical(configuration))
            remarked.update({rule_of(remark) for remark in serving.remarks(configuration)})
    by_number = dict(refused.most_common())
    return SpaceCount(combinations, valid, len(servers), by_number, whole, dict(remarked.most_common()))


def _sampled(spec: StudySpec) -> Iterator[Configuration]:
    """Random grid points, each once: the first ones of the file's order would all lie in one corner of the space."""
    dice, seen = random.Random(spec.seed), set[Configuration]()
    grids = [(parameter, parameter.domain.grid()) for parameter in spec.space.parameters]
    while len(seen) < _SAMPLE:
        values: dict[str, Value] = {}
        for parameter, grid in grids:
            if spec.space.is_active(parameter, values):
                values[parameter.name] = dice.choice(grid)
        configuration = Configuration(values)
        if configuration not in seen:
            seen.add(configuration)
            yield configuration


def _holds_at_most(space: SearchSpace, limit: int) -> bool:
    """Counts without the parameters that no condition speaks of: those only multiply."""
    tied = frozenset[str]().union(*(p.when.words | {p.name} for p in space.parameters if p.when is not None))
    times = math.prod(len(p.domain.grid()) for p in space.parameters if p.name not in tied)
    bound = replace(space, parameters=tuple(p for p in space.parameters if p.name in tied))
    return times * sum(1 for _ in itertools.islice(bound.configurations(), limit + 1)) <= limit


def rule_of(problem: str) -> str:
    """What many configurations have in common; the text itself where an engine names no rule."""
    return problem.rule if isinstance(problem, Problem) else problem
