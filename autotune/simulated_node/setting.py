"""The environment variable AUTOTUNE_SIMULATED_NODE: which node, how fast its clock runs, its noise and its faults."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from autotune.simulated_node.nodes import NodeDescription, node_named

VARIABLE = "AUTOTUNE_SIMULATED_NODE"
DEATHS_AT_START = ("oom", "exception")


@dataclass(frozen=True)
class Faults:
    """Switches for tests. Counts are of /generate requests: the fault strikes when one more than that arrives."""

    die_after_requests: int | None = None
    hang_after_requests: int | None = None  # /health stays 200, no token comes any more
    pause_after_requests: int | None = None  # the node's clock stands still once, for `pause_s`
    pause_s: float = 10.0  # as the clock would count them
    hang_at_start: bool = False
    die_at_start: str | None = None  # one of DEATHS_AT_START
    serve_as: str | None = None  # the name it claims, whatever --served-model-name says
    serve_as_after_requests: int = 0  # from when on it does
    error_rate: float = 0.0  # share of requests that end in an error inside the stream, with HTTP 200
    ignore_sigterm: bool = False
    orphan: bool = False  # leaves a child in its session that ignores SIGTERM
    foreign_requests: int = 0  # so many requests of nobody's run all the time
    broken_verification: bool = False  # while it speculates its text is another one
    looping_rate: float = 0.0  # share of the prompts whose answer is one line over and over
    short_rate: float = 0.0  # share of the prompts whose answer stops at half of what was asked for


@dataclass(frozen=True)
class NodeSetting:
    """`speed`: node seconds per wall second. `noise`, `launch_noise`, `drift_per_hour`: relative, see NoiseLaw.

    `drift_epoch_s` is the wall time (Unix) at which drift was zero, the same for all launches of a study; without it
    drift starts with the process. `startup_s`: node seconds from start to readiness.
    """

    name: str = "rtx-pro-6000-x8"
    speed: float = 50.0
    seed: int = 1
    noise: float = 0.01
    launch_noise: float = 0.0
    drift_per_hour: float = 0.0
    drift_epoch_s: float | None = None
    startup_s: float = 60.0
    faults: Faults = Faults()

    @property
    def node(self) -> NodeDescription:
        return node_named(self.name)


def read_setting(environment: Mapping[str, str]) -> NodeSetting:
    """Raises ValueError, with the name of the variable, on anything that is not understood."""
    text = environment.get(VARIABLE, "").strip()
    if not text:
        return NodeSetting()
    try:
        given = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{VARIABLE} is not JSON: {error}") from error
    if not isinstance(given, dict):
        raise ValueError(f"{VARIABLE} must be a JSON object, but is {text}")
    faults = Faults(**_checked("faults", given.pop("faults", {}), Faults))
    setting = NodeSetting(**_checked("it", given, NodeSetting), faults=faults)
    _check_values(setting)
    return setting


def _checked(where: str, given: Any, kind: type) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise ValueError(f"{VARIABLE}: {where} must be a JSON object, but is {given!r}")
    known = {field.name: str(field.type) for field in fields(kind)} | {"faults": "object"}
    for key, value in given.items():
        if key not in known:
            raise ValueError(f"{VARIABLE}: {where} has no key {key!r}; it has {', '.join(sorted(known))}")
        if not _fits(value, known[key]):
            raise ValueError(f"{VARIABLE}: {key} must be {known[key]}, but is {value!r}")
    return given


def _fits(value: Any, wanted: str) -> bool:
    if value is None:
        return "None" in wanted
    if isinstance(value, bool) or "bool" in wanted:
        return isinstance(value, bool) and "bool" in wanted
    if "str" in wanted:
        return isinstance(value, str)
    return isinstance(value, int) or (isinstance(value, float) and "float" in wanted)


def _check_values(setting: NodeSetting) -> None:
    node_named(setting.name)
    faults = setting.faults
    rules = {
        "speed must be above 0": setting.speed > 0,
        "startup_s must not be below 0": setting.startup_s >= 0,
        "noise must be in [0, 0.5]": 0 <= setting.noise <= 0.5,
        "launch_noise must be in [0, 0.5]": 0 <= setting.launch_noise <= 0.5,
        **{
            f"{name} must be in [0, 1]": 0 <= getattr(faults, name) <= 1
            for name in ("error_rate", "looping_rate", "short_rate")
        },
        "foreign_requests must not be below 0": faults.foreign_requests >= 0,
        "pause_s must not be below 0": faults.pause_s >= 0,
        f"die_at_start must be one of {', '.join(DEATHS_AT_START)}": faults.die_at_start in (None, *DEATHS_AT_START),
    }
    for rule, holds in rules.items():
        if not holds:
            raise ValueError(f"{VARIABLE}: {rule}")
