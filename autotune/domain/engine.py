"""What an engine must know of its server: pure functions from text and data to text and data, no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from autotune.domain.configuration import Configuration
from autotune.domain.study import EngineSpec
from autotune.domain.trial import Difference, EngineVersion, Failure, LaunchCommand, ResolvedArguments


@dataclass(frozen=True)
class LaunchSite:
    """Where one launch lives: its port, a served-model-name that no other launch has, and the tuner's own
    interpreter (for engines whose server ships with the tuner)."""

    host: str
    port: int
    served_name: str
    tuner_python: str


@dataclass(frozen=True)
class Endpoints:
    """Paths of the server. `ready_line` is a substring of the log that says warm-up is over."""

    ready_line: str
    health: str
    identity: str
    server_info: tuple[str, ...]  # tried in this order
    flush: str
    abort: str
    abort_body: bytes


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One event of a streaming answer. Counts are cumulative, as the server reports them; None where it does not."""

    completion_tokens: int | None = None
    prompt_tokens: int | None = None
    verify_count: int | None = None
    finish_reason: str | None = None
    text: str | None = None  # cumulative
    error: str | None = None
    done: bool = False


class Wire(Protocol):
    """How one request is put on the wire and its stream read back."""

    path: str

    def body(self, prompt: str, max_tokens: int, *, temperature: float, ignore_eos: bool, rid: str) -> bytes: ...

    def event(self, data: bytes) -> StreamEvent:
        """`data` is what follows `data: ` in one server-sent event. Raises ValueError if it cannot be read."""
        ...


class Engine(Protocol):
    """Done when tests/contracts/test_engine_contract.py passes."""

    name: str
    simulated: bool
    endpoints: Endpoints
    wire: Wire

    def version_argv(self, spec: EngineSpec, tuner_python: str) -> tuple[str, ...]:
        """Prints one line of JSON on stdout that `parse_version` reads; imports nothing heavy."""
        ...

    def parse_version(self, stdout: str) -> EngineVersion:
        """Raises ServingEnvironmentError where the engine is not installed, or not a version that is known."""
        ...

    def clock_rate(self, spec: EngineSpec) -> float:
        """Node seconds per second of the wall clock: 1 for anything real."""
        ...

    def check_spec(self, spec: EngineSpec) -> tuple[str, ...]:
        """Faults of the engine's section that need no node to see (unknown node name, reserved arguments)."""
        ...

    def problems(self, spec: EngineSpec, version: EngineVersion, configuration: Configuration) -> tuple[str, ...]:
        """Why this configuration cannot be launched on this version; empty if nothing is known against it."""
        ...

    def canonical(self, spec: EngineSpec, version: EngineVersion, configuration: Configuration) -> Configuration:
        """Another spelling of the same server, the same for all spellings (draft tokens at topk 1, ...)."""
        ...

    def command(
        self, spec: EngineSpec, version: EngineVersion, configuration: Configuration, site: LaunchSite
    ) -> LaunchCommand:
        """`environment` and `chosen` hold only what the space names; launch adds the allow-list."""
        ...

    def served_names(self, body: str) -> tuple[str, ...]:
        """From the answer of `endpoints.identity`; empty if it cannot be read."""
        ...

    def resolved(self, body: str) -> ResolvedArguments | None:
        """From the answer of a `server_info` endpoint; None if it is not one."""
        ...

    def differences(self, command: LaunchCommand, resolved: ResolvedArguments) -> tuple[Difference, ...]:
        """What was asked for against what the server runs with."""
        ...

    def request_cap(self, resolved: ResolvedArguments) -> int | None:
        """How many requests the server says it runs at once; None if it does not say."""
        ...

    def diagnose(self, exit_status: int | None, log: str, *, ready: bool) -> Failure:
        """Why the server ended. `ready`: it had been serving. Never guesses: the last lines are the evidence."""
        ...
