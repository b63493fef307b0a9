"""How alike an earlier study's circumstances are to a new one's. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.domain.configuration import Value, show_value
from autotune.domain.study import StudySpec
from autotune.domain.trial import EngineVersion, TrialResult
from autotune.domain.workload import Workload

FINGERPRINT = (
    "cpu",
    "cpu_cores",
    "gpu_count",
    "gpu_names",
    "gpu_memory_gib",
    "gpu_links",
    "driver",
    "cuda_driver",
)
"""Facts of a provenance that say which node it is. The kernel's release and the free memory are none of them."""


def same_node(earlier: StudySpec, spec: StudySpec, trial: TrialResult, facts: Mapping[str, str]) -> bool:
    """By its fingerprint, and for a simulated one by its description. False where the record has no fingerprint."""
    if trial.provenance is None or dict(earlier.engine.node) != dict(spec.engine.node):
        return False
    then = [trial.provenance.node.get(name) for name in FINGERPRINT]
    return any(then) and then == [facts.get(name) for name in FINGERPRINT]


def same_versions(trial: TrialResult, version: EngineVersion) -> bool:
    """Of the engine, and of whatever under it both know."""
    if trial.provenance is None or trial.provenance.engine_version != version.text:
        return False
    then = trial.provenance.node
    return all(then.get(name, value) == value for name, value in version.details.items())


def same_service(earlier: StudySpec, spec: StudySpec) -> bool:
    """The same model under the same fixed arguments and variables. What either study searches is not compared: it
    stands in the configurations."""
    if earlier.engine.model != spec.engine.model:
        return False
    searched = {parameter.name for parameter in (*earlier.space.parameters, *spec.space.parameters)}
    return _fixed(earlier, searched) == _fixed(spec, searched)


def same_traffic(earlier: Workload, workload: Workload) -> bool:
    """Levels apart: those are compared one by one."""

    def of(one: Workload) -> tuple[object, ...]:
        prefix = one.prefix_tokens if one.prefix_sharing else None
        return one.prompts, one.max_tokens, one.temperature, one.ignore_eos, one.endpoint, prefix

    return of(earlier) == of(workload)


def _fixed(spec: StudySpec, searched: set[str]) -> dict[str, str]:
    values: dict[str, Value] = {**spec.engine.args, **spec.engine.env}
    named = {name.replace("-", "_"): show_value(value) for name, value in values.items()}
    return {name: value for name, value in named.items() if name not in searched}
