"""SGLang, in a Python environment of its own: `python -m sglang.launch_server`."""

from __future__ import annotations

from autotune.domain.engine import Engine, LaunchSite
from autotune.domain.study import EngineSpec
from autotune.engines.dialect.engine import DialectEngine
from autotune.engines.dialect.installed import FLAGS_PROGRAM, VERSION_PROGRAM


class SglangEngine(DialectEngine):
    name = "sglang"
    simulated = False

    def version_argv(self, spec: EngineSpec, tuner_python: str) -> tuple[str, ...]:
        return (spec.python or "python3", "-c", VERSION_PROGRAM)

    def flags_argv(self, spec: EngineSpec) -> tuple[str, ...]:
        return (spec.python or "python3", "-c", FLAGS_PROGRAM)

    def clock_rate(self, spec: EngineSpec) -> float:
        return 1.0

    def program(self, spec: EngineSpec, site: LaunchSite) -> tuple[str, ...]:
        return (spec.python or "python3", "-m", "sglang.launch_server")

    def own_environment(self, spec: EngineSpec) -> dict[str, str]:
        return {}

    def own_faults(self, spec: EngineSpec) -> tuple[str, ...]:
        """`engine.node` is not looked at: a file may describe a simulated node beside the real one."""
        faults = []
        if not spec.python:
            faults.append("engine.python must be the interpreter that has sglang, but none is given")
        if not spec.model:
            faults.append("engine.model must be a model folder or a hub's name, but none is given")
        return tuple(faults)


def create() -> Engine:
    return SglangEngine()
