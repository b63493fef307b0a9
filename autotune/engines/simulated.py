"""The simulated node: a program of the tuner's own that speaks SGLang's dialect. Its figures are never real ones."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping

from autotune.domain.engine import Engine, LaunchSite
from autotune.domain.study import EngineSpec
from autotune.engines.dialect.engine import DialectEngine
from autotune.engines.dialect.nearest import did_you_mean

NODE_VARIABLE = "AUTOTUNE_SIMULATED_NODE"
SPEAKS = "0.5.9"
"""The SGLang version whose flags, variables and answers the simulated node has."""

DEFAULTS: dict[str, object] = {"name": "rtx-pro-6000-x8", "speed": 50}
_KEYS = (*DEFAULTS, "seed", "noise", "launch_noise", "drift_per_hour", "drift_epoch_s", "startup_s", "faults")
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
_VERSION_PROGRAM = (
    "import json, platform\n"
    f'print(json.dumps({{"sglang": "{SPEAKS}", "simulated": "yes", "python": platform.python_version()}}))'
)


class SimulatedEngine(DialectEngine):
    name = "simulated"
    simulated = True

    def version_argv(self, spec: EngineSpec, tuner_python: str) -> tuple[str, ...]:
        return (tuner_python, "-c", _VERSION_PROGRAM)

    def clock_rate(self, spec: EngineSpec) -> float:
        """engine.node.speed. `check_spec` has refused what is no positive number."""
        speed = _node(spec)["speed"]
        return float(speed) if isinstance(speed, int | float) else math.nan

    def program(self, spec: EngineSpec, site: LaunchSite) -> tuple[str, ...]:
        return (site.tuner_python, "-m", "autotune.simulated_node")

    def own_environment(self, spec: EngineSpec) -> dict[str, str]:
        return {NODE_VARIABLE: json.dumps(_node(spec), sort_keys=True, separators=(",", ":"))}

    def own_faults(self, spec: EngineSpec) -> tuple[str, ...]:
        node = _node(spec)
        faults = [
            f"engine.node.{key} is no property of a simulated node{did_you_mean(key, _KEYS)}"
            for key in node
            if key not in _KEYS
        ]
        if spec.pythons:
            faults.append("engine.python may not be a list here: a simulated node has one environment, the tuner's own")
        name = node["name"]
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            faults.append(f"engine.node.name must be a lower-case word such as {DEFAULTS['name']}, but got {name!r}")
        if not _is_number(node["speed"], above=0.0):
            faults.append(f"engine.node.speed must be a number above 0, but got {node['speed']!r}")
        faults += [
            f"engine.node.{key} must be a number of at least 0, but got {node[key]!r}"
            for key in ("noise", "launch_noise", "startup_s")
            if key in node and not _is_number(node[key], at_least=0.0)
        ]
        faults += [
            f"engine.node.{key} must be a number, but got {node[key]!r}"
            for key in ("drift_per_hour", "drift_epoch_s")
            if key in node and not _is_number(node[key])
        ]
        seed = node.get("seed", 0)
        if not isinstance(seed, int) or isinstance(seed, bool):
            faults.append(f"engine.node.seed must be a whole number, but got {seed!r}")
        if not isinstance(node.get("faults", {}), Mapping):
            faults.append(f"engine.node.faults must map faults to their settings, but got {node['faults']!r}")
        if NODE_VARIABLE in spec.env:
            faults.append(f"engine.env may not set {NODE_VARIABLE}; describe the node under engine.node")
        return tuple(faults)


def create() -> Engine:
    return SimulatedEngine()


def _node(spec: EngineSpec) -> dict[str, object]:
    return {**DEFAULTS, **{key: value for key, value in spec.node.items() if value is not None}}


def _is_number(value: object, *, above: float | None = None, at_least: float | None = None) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        return False
    return (above is None or value > above) and (at_least is None or value >= at_least)
