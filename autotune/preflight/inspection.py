"""All that is asked before the first launch, in the order of what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from autotune.domain.engine import Engine
from autotune.domain.serving import Serving
from autotune.domain.study import StudySpec
from autotune.domain.trial import EngineVersion, Hardware
from autotune.errors import InputError, ServingEnvironmentError
from autotune.launch import gpu_count, node_facts, node_hardware
from autotune.preflight.drafts import draft_warnings, refuse_misfits
from autotune.preflight.environment import TRY_SIMULATED, Node, installed_versions
from autotune.preflight.models import read_models, require_models
from autotune.preflight.prompts import prompt_warnings, require_prompts
from autotune.preflight.space import refuse_impossible


def inspect(spec: StudySpec, engine: Engine, *, tuner_python: str) -> Node:
    """Raises InputError for whatever would make every trial fail."""
    if faults := engine.check_spec(spec.engine):
        raise InputError("\n".join(f"engine: {fault}" for fault in faults))
    versions = installed_versions(spec, engine, tuner_python=tuner_python)
    if not engine.simulated:
        require_models(spec)
        _require_gpu(spec)
    serving = serving_of(spec, engine, versions, None if engine.simulated else node_hardware())
    refuse_misfits(spec, serving)
    refuse_impossible(spec, serving)
    require_prompts(spec)
    return Node(serving, node_facts(), (*draft_warnings(spec, serving), *prompt_warnings(spec)))


def serving_of(
    spec: StudySpec, engine: Engine, versions: Mapping[str, EngineVersion], hardware: Hardware | None = None
) -> Serving:
    """With what the models' folders say, as far as they can be read; a simulated node's model is in nobody's folder.

    `hardware` is what configurations are checked against; None: not known, and nothing is refused for it.
    """
    level = max(spec.workload.closed, default=None)  # what is in flight at a rate nobody knows yet
    placed = {python: replace(version, hardware=hardware, largest_level=level) for python, version in versions.items()}
    bare = Serving(engine, spec.engine, placed)
    return bare if engine.simulated else replace(bare, models=read_models(spec, bare))


def _require_gpu(spec: StudySpec) -> None:
    if spec.engine.args.get("device", "cuda") == "cuda" and gpu_count() == 0:
        raise ServingEnvironmentError(
            "a GPU must be present, but the driver reports none",
            hint=f"--engine simulated for a simulated node, or `device: cpu` under engine.args; {TRY_SIMULATED}",
        )
