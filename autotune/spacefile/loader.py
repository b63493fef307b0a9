"""A space file, or a study.yaml, becomes a StudySpec, or every fault of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from autotune.domain.configuration import Value
from autotune.domain.space import Constraint, SearchSpace
from autotune.domain.study import ENGINE_PYTHON, EngineSpec, StudySpec
from autotune.spacefile import (
    configurations,
    confirming,
    core_yaml,
    fields,
    interpreters,
    levels,
    parameters,
    sections,
    slo,
)
from autotune.spacefile.conditions import Names, check, expression
from autotune.spacefile.overrides import apply, switch_engine
from autotune.spacefile.tree import Entry, Faults, Node, Place, Scalar, Table, shown

CheckEngine = Callable[[EngineSpec], tuple[str, ...]]
KEYS = (
    "study",
    "seed",
    "engine",
    "parameters",
    "constraints",
    "baseline",
    "known_good",
    "workload",
    "objective",
    "slo",
    "budget",
    "limits",
    "search",
)


def load(
    path: Path,
    overrides: Sequence[str] = (),
    *,
    engine: str | None = None,
    check_engine: CheckEngine | None = None,
) -> StudySpec:
    """Reads a space file. Raises SpaceFileError with all that is wrong.

    overrides: `path=value`, the value in YAML (`workload.concurrency={1: 1, 4: 2}`); a later one wins.
    engine: takes the place of engine.name; `simulated` also clears engine.python.
    check_engine: what the engine itself says against its section.
    """
    whole = Place(0, 0, 0, str(path))
    faults = Faults()
    text = _text(path, whole, faults)
    faults.raise_if_any()
    return load_text(text, str(path), overrides, engine=engine, check_engine=check_engine)


def load_text(
    text: str,
    name: str,
    overrides: Sequence[str] = (),
    *,
    engine: str | None = None,
    check_engine: CheckEngine | None = None,
) -> StudySpec:
    """As `load`, for a text in memory. `name` stands for the file in faults."""
    whole = Place(0, 0, 0, name)
    faults = Faults()
    root = _tree(text, whole, faults)
    if root is None:
        raise faults.error()
    apply(root, tuple(overrides), faults)
    if engine is not None:
        switch_engine(root, engine, len(overrides) + 1, faults)
    spec = _Reading(root, whole, faults).spec(check_engine)
    faults.raise_if_any()
    return spec


def dump(source: Mapping[str, Any]) -> str:
    """YAML of a StudySpec's `source`; `load_text` of it gives an equal StudySpec."""
    return core_yaml.write(source)


def _text(path: Path, whole: Place, faults: Faults) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(core_yaml.MAX_BYTES + 1)
    except FileNotFoundError:
        faults.add(whole, "there is no such file")
        return ""
    except OSError as error:
        faults.add(whole, f"cannot be read: {error.strerror or error}")
        return ""
    if len(data) > core_yaml.MAX_BYTES:
        _too_large(whole, faults)
        return ""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        column = len(before[before.rfind(b"\n") + 1 :].decode("utf-8", "replace")) + 1
        place = Place(0, before.count(b"\n") + 1, column, whole.file)
        faults.add(place, "a space file is UTF-8 text", f"the byte 0x{data[error.start]:02X}")
        return ""


def _too_large(whole: Place, faults: Faults) -> None:
    faults.add(whole, f"a space file may hold {core_yaml.MAX_BYTES} bytes at most", hint="is it the right file?")


def _tree(text: str, whole: Place, faults: Faults) -> Table | None:
    if len(text) > core_yaml.MAX_BYTES:
        _too_large(whole, faults)
        return None
    root = core_yaml.compose(text, whole, "", faults)
    if root is None or isinstance(root, Table):
        return root
    faults.add(root.place, "a space file must be a mapping", shown(root), "docs/space_file.md shows one")
    return None


class _Reading:
    """One pass over the tree, section by section; every section is read, whatever the others are like."""

    def __init__(self, root: Table, whole: Place, faults: Faults) -> None:
        self.root = root
        self.whole = whole
        self.faults = faults

    def spec(self, check_engine: CheckEngine | None) -> StudySpec:
        root, whole, faults = self.root, self.whole, self.faults
        fields.unknown_keys(root, frozenset(KEYS), faults)
        name = self.scalar("study", sections.study_name, "")
        if root.get("study") is None:
            faults.add(whole, "study is missing", hint="it names the run folder: `study: my-model`")
        engine = self.engine(check_engine)
        interpreters.complete(root, engine, faults)
        space, names = self.space(engine)
        baseline = configurations.read_baseline(root.get("baseline"), names, faults)
        good_nodes = fields.items_of(root.get("known_good"), "known_good", faults)
        good = configurations.read_known_good(good_nodes, names, faults)
        workload, min_requests = sections.workload(root.get("workload"), whole, faults)
        objective = sections.objective(root.get("objective"), whole, faults)
        bounds = slo.read(root.get("slo"), workload.levels, objective, whole, faults)
        levels.check(workload, objective, root.get("workload"), faults)
        budget = sections.budget(root.get("budget"), whole, faults)
        limits = sections.limits(root.get("limits"), whole, faults)
        strategy = sections.strategy(root.get("search"), whole, faults)
        seed = self.scalar("seed", fields.natural, StudySpec.seed)
        made = StudySpec(
            name=name,
            engine=engine,
            space=space or SearchSpace(()),
            baseline=configurations.completed(space or SearchSpace(()), baseline)[0],
            workload=workload,
            objective=objective,
            budget=budget,
            known_good=configurations.check_known_good(good_nodes, good, space, faults) if space else (),
            limits=limits,
            min_requests=min_requests,
            seed=seed,
            strategy=strategy,
            slo=bounds,
        )
        return _with_source(made)

    def scalar(self, key: str, reader: Callable[[Node], Any], otherwise: Any) -> Any:
        node = self.root.get(key)
        return otherwise if node is None else self.faults.attempt(reader, node, otherwise)

    def engine(self, check_engine: CheckEngine | None) -> EngineSpec:
        before = len(self.faults)
        node = self.root.entry("engine")
        spec = sections.engine(node.node if node else None, self.whole, self.faults)
        if node and check_engine is not None and len(self.faults) == before:
            for told in check_engine(spec):
                self.faults.add(_place_of(told, node), told)
        return spec

    def space(self, engine: EngineSpec) -> tuple[SearchSpace | None, Names]:
        """The space; None where its parameters or constraints have faults."""
        before = len(self.faults)
        chosen = interpreters.draft(engine, self.root, self.faults)
        drafts = [*([chosen] if chosen else []), *parameters.read(self.root.get("parameters"), self.faults)]
        fixed = {sections.underscored(name): value for name, value in engine.args.items()}
        fixed.update(interpreters.fixed(engine))
        names = Names({draft.name: draft.domain for draft in drafts}, fixed)
        for draft in drafts:
            self.clash(draft, engine, fixed)
        parameters.check_conditions(drafts, names, self.faults)
        ordered = parameters.ordered(drafts, self.faults)
        constraints = self.constraints(names)
        if len(self.faults) != before:
            return None, names
        return SearchSpace(ordered, constraints, fixed), names

    def clash(self, draft: parameters.Draft, engine: EngineSpec, fixed: Mapping[str, Value]) -> None:
        """A name cannot be searched and fixed at once."""
        section = "args" if not draft.env and draft.name in fixed else ""
        section = "env" if draft.env and draft.name in engine.env else section
        if section:
            rule = f"`{draft.name}` is a parameter, and also fixed in engine.{section}"
            self.faults.add(draft.key.place, rule, hint="keep one of them; the baseline can pin a parameter's value")

    def constraints(self, names: Names) -> tuple[Constraint, ...]:
        found: list[Constraint] = []
        for node in fields.items_of(self.root.get("constraints"), "constraints", self.faults):
            parsed = self.faults.attempt(expression, node, None)
            if parsed is not None and isinstance(node, Scalar):
                check(parsed, node, names, self.faults, takes=False)
                found.append(Constraint(parsed))
        return tuple(found)


def _place_of(told: str, engine: Entry) -> Place:
    """Where the key stands by whose dotted path an engine's message begins; its nearest section if it is not there."""
    place, holder = engine.key.place, engine.node
    for part in told.split(" ", 1)[0].split(".")[1:]:
        entry = holder.entry(part) if isinstance(holder, Table) else None
        if entry is None:
            break
        place, holder = entry.key.place, entry.node
    return place


def _with_source(spec: StudySpec) -> StudySpec:
    """Every key of the file, defaults too, so that study.yaml says all that was decided."""
    source: dict[str, Any] = {
        "study": spec.name,
        "seed": spec.seed,
        "engine": sections.engine_plain(spec.engine),
        "parameters": {p.name: parameters.plain(p) for p in spec.space.parameters if p.name != ENGINE_PYTHON},
        "constraints": [str(constraint) for constraint in spec.space.constraints],
        "baseline": fields.plain(spec.baseline),
        "known_good": [fields.plain(good) for good in spec.known_good],
        "workload": sections.workload_plain(spec.workload, spec.min_requests),
        "objective": {"metric": spec.objective.metric},
        "slo": slo.plain(spec.slo),
        "budget": {
            **{name: fields.plain(value) for name, value in asdict(spec.budget).items()},
            "confirm": confirming.plain(spec.budget.confirm),
        },
        "limits": asdict(spec.limits),
        "search": {"strategy": spec.strategy},
    }
    return replace(spec, source=source)
