"""What must hold before anything is launched: the serving interpreter, the model, the GPUs, the prompts.

Everything here ends in exit status 2 with the next thing to type, and costs seconds rather than a model load.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from autotune.domain.engine import Engine
from autotune.domain.space import SpaceCount
from autotune.domain.study import StudySpec
from autotune.domain.trial import EngineVersion
from autotune.errors import InputError, ServingEnvironmentError
from autotune.launch import gpu_count, node_facts, probe
from autotune.load import prompt_source

_TRY_SIMULATED = "with no GPU at hand, `--engine simulated` runs the same study on a simulated node"


@dataclass(frozen=True)
class Node:
    """What the study runs on. `facts`: GPUs, driver, CPU, as read from the machine."""

    version: EngineVersion
    facts: dict[str, str]


def inspect(spec: StudySpec, engine: Engine, *, tuner_python: str) -> Node:
    """Raises InputError for whatever would make every trial fail."""
    if faults := engine.check_spec(spec.engine):
        raise InputError("\n".join(f"engine: {fault}" for fault in faults))
    version = installed_version(spec, engine, tuner_python=tuner_python)
    if not engine.simulated:
        _require_models(spec)
        _require_gpu(spec)
    refuse_impossible(spec, engine, version)
    _require_prompts(spec)
    return Node(version, node_facts())


def installed_version(spec: StudySpec, engine: Engine, *, tuner_python: str) -> EngineVersion:
    """Asks the serving interpreter, without importing the engine here or there."""
    python = spec.engine.python
    if not engine.simulated and python is not None and not Path(python).exists():
        raise ServingEnvironmentError(
            f"engine.python must be the serving environment's interpreter, but there is no file {python}",
            hint=f"--set engine.python=/path/to/serving/venv/bin/python; {_TRY_SIMULATED}",
        )
    return engine.parse_version(probe(engine.version_argv(spec.engine, tuner_python)))


def refuse_impossible(spec: StudySpec, engine: Engine, version: EngineVersion) -> None:
    """The baseline and the known-good configurations must be launchable on the installed version."""
    named = [("baseline", spec.baseline), *((f"known_good[{i}]", c) for i, c in enumerate(spec.known_good))]
    found = [
        f"{name}: {problem}" for name, config in named for problem in engine.problems(spec.engine, version, config)
    ]
    largest = max(spec.workload.levels)
    cap = spec.engine.args.get("max-running-requests")
    if isinstance(cap, int) and not isinstance(cap, bool) and cap < largest:
        found.append(
            f"engine.args.max-running-requests must be at least the largest concurrency level, but {cap} < {largest}: "
            f"the other {largest - cap} requests would wait in the queue, and the level would measure the cap"
        )
    if found:
        raise InputError("\n".join(found), hint="`autotune check --space FILE` shows the space as it is read")


def _require_models(spec: StudySpec) -> None:
    paths = {"engine.model": spec.engine.model}
    draft = spec.engine.args.get("speculative-draft-model-path")
    if isinstance(draft, str):
        paths["engine.args.speculative-draft-model-path"] = draft
    for key, text in paths.items():
        path = Path(text).expanduser()
        if not (path.is_absolute() or text.startswith(("./", "../", "~"))):
            continue  # a hub's name: the server will look it up
        if not (path / "config.json").is_file():
            what = "has no config.json" if path.is_dir() else "does not exist"
            raise ServingEnvironmentError(
                f"{key} must be a model folder with a config.json, but {text} {what}",
                hint=f"--set {key}=/path/to/model; {_TRY_SIMULATED}",
            )


def _require_gpu(spec: StudySpec) -> None:
    if spec.engine.args.get("device", "cuda") == "cuda" and gpu_count() == 0:
        raise ServingEnvironmentError(
            "a GPU must be present, but the driver reports none",
            hint=f"--engine simulated for a simulated node, or `device: cpu` under engine.args; {_TRY_SIMULATED}",
        )


def _require_prompts(spec: StudySpec) -> None:
    """One trial's prompts must exist; whether the whole budget's do is only known to be so with a trial budget."""
    per_trial = spec.plan().prompts
    trials = spec.budget.trials or 1
    capacity = prompt_source(spec.workload.prompts, seed=spec.seed).capacity
    if per_trial * trials > capacity:
        raise InputError(
            f"no prompt is sent twice, so the prompts must suffice for {trials} trials of {per_trial:,} requests "
            f"({per_trial * trials:,}), but `{spec.workload.prompts}` has {capacity:,}",
            hint="more prompts in the JSONL file, fewer trials, or lower concurrency levels",
        )


def assumed_version(text: str) -> EngineVersion:
    """A version that the user names instead of an installed one: `0.5.23`, `0.5.15.post1`."""
    numbers = text.split(".post")[0].split(".")
    if not all(number.isdecimal() for number in numbers):
        raise InputError(f"a version must be numbers with dots, like 0.5.23 or 0.5.15.post1, but got {text}")
    return EngineVersion(text, tuple(int(number) for number in numbers))


def count(spec: StudySpec, engine: Engine, version: EngineVersion | None, limit: int = 100_000) -> SpaceCount:
    """Counts grid points by what becomes of them; stops at `limit` and says so."""
    refused: Counter[str] = Counter()
    seen, servers, combinations, exact = 0, set(), 0, True
    for configuration in spec.space.configurations():
        if combinations == limit:
            exact = False
            break
        combinations += 1
        if broken := spec.space.broken(configuration):
            refused[str(broken[0])] += 1
        elif version is not None and (found := engine.problems(spec.engine, version, configuration)):
            refused[f"{engine.name}: {found[0]}"] += 1
        else:
            seen += 1
            canonical = configuration
            if version is not None:
                canonical = engine.canonical(spec.engine, version, configuration)
            servers.add(canonical.digest)
    return SpaceCount(combinations, seen, len(servers), dict(refused.most_common()), exact)


def tuner_commit() -> dict[str, str]:
    """The commit that the tuner runs from, where it runs from a checkout."""
    folder = Path(__file__).parent
    if not (folder.parent / ".git").exists():
        return {}
    try:
        return {"commit": probe(("git", "-C", str(folder), "rev-parse", "HEAD"), timeout_s=5).strip()}
    except ServingEnvironmentError:
        return {}
