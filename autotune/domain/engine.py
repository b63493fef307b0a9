"""What an engine must know of its server: pure functions from text and data to text and data, no I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from autotune.domain.configuration import Configuration, Value
from autotune.domain.finding import ServerWindow
from autotune.domain.models import Misfit, ModelFiles, Speculation
from autotune.domain.study import EngineSpec
from autotune.domain.trial import Difference, EngineVersion, Failure, LaunchCommand, ResolvedArguments


class Problem(str):
    """One line that speaks against a configuration, with the values. `rule` names what was broken in words that
    hold for every configuration. `bearable`: the owner's own baseline may run so; it is measured, and remarked on."""

    rule: str
    bearable: bool

    def __new__(cls, text: str, rule: str = "", bearable: bool = False) -> Problem:
        made = super().__new__(cls, text)
        made.rule = rule or text
        made.bearable = bearable
        return made


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
    """One event of a streaming answer. Counts are cumulative, as the server reports them; None where it does not.

    `text` is the answer so far, `delta` only what is new: a wire gives one or the other.
    """

    completion_tokens: int | None = None
    prompt_tokens: int | None = None
    verify_count: int | None = None
    finish_reason: str | None = None
    text: str | None = None
    error: str | None = None
    done: bool = False
    delta: str | None = None


class Wire(Protocol):
    """How one request is put on the wire and its stream read back. `headers` are sent with each request."""

    path: str
    headers: Mapping[str, str]

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

    def wire_for(self, endpoint: str, model: str, *, api_key: str | None = None) -> Wire:
        """The wire of a workload's `endpoint`, one of domain.workload.ENDPOINTS. `model`: the name it is served as."""
        ...

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
        """Why this configuration cannot be launched on this version; empty if nothing is known against it.

        Those that are `Problem`s name the rule that was broken."""
        ...

    def remarks(self, spec: EngineSpec, version: EngineVersion, configuration: Configuration) -> tuple[str, ...]:
        """What is worth knowing of a configuration that may be launched (`Problem`s, as those of `problems`)."""
        ...

    def flags_argv(self, spec: EngineSpec) -> tuple[str, ...]:
        """Prints what the installed parser itself takes, for `disproved`; may take a minute. Empty: cannot be asked."""
        ...

    def disproved(
        self, spec: EngineSpec, version: EngineVersion, values: Mapping[str, Sequence[Value]], printed: str
    ) -> tuple[str, ...]:
        """Names of the fixed arguments and of `values` (by parameter) that no version of the engine has; and what the
        installed parser refuses of them though nothing was known against it.

        `printed` empty: the parser was not asked. Raises ServingEnvironmentError where it is not the answer of
        `flags_argv`.
        """
        ...

    def canonical(self, spec: EngineSpec, version: EngineVersion, configuration: Configuration) -> Configuration:
        """Another spelling of the same server, the same for all spellings (draft tokens at topk 1, ...)."""
        ...

    def command(
        self, spec: EngineSpec, version: EngineVersion, configuration: Configuration, site: LaunchSite
    ) -> LaunchCommand:
        """`environment` and `chosen` hold only what the space names; launch adds the allow-list."""
        ...

    def gpus(self, command: LaunchCommand) -> tuple[int, ...] | None:
        """Which of the GPUs visible to it the server takes, counted from 0; None if it takes none of the node's."""
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

    def resolved_identity(self, command: LaunchCommand, resolved: ResolvedArguments) -> str:
        """The same for two launches exactly if their servers run with the same, whatever port and name they have."""
        ...

    def pretences(self, command: LaunchCommand) -> tuple[str, ...]:
        """What the chosen environment makes the server pretend; empty for one whose figures are its own."""
        ...

    def collective_gpus(self, command: LaunchCommand) -> tuple[int, ...]:
        """Positions, among the visible GPUs, of one group that sums tensors over NCCL; empty where none does."""
        ...

    def request_cap(self, resolved: ResolvedArguments) -> int | None:
        """How many requests the server says it runs at once; None if it does not say."""
        ...

    def graph_ceiling(self, resolved: ResolvedArguments) -> int | None:
        """The most requests that it decodes together by a graph; 0 without graphs, None if it does not say."""
        ...

    def server_window(self, log: str) -> ServerWindow | None:
        """What a stretch of the server's log says of its decode steps; None if nothing."""
        ...

    def speculation(self, resolved: ResolvedArguments) -> Speculation | None:
        """How the server says it speculates; None if it does not, or does not say."""
        ...

    def draft_model(self, spec: EngineSpec, version: EngineVersion, configuration: Configuration) -> str | None:
        """Path or name of the draft model that this configuration names; None if it uses none, or names none."""
        ...

    def draft_misfits(
        self,
        spec: EngineSpec,
        version: EngineVersion,
        configuration: Configuration,
        target: ModelFiles,
        draft: ModelFiles,
    ) -> tuple[Misfit, ...]:
        """What is known against this draft model beside this target; what is not known is not held against it."""
        ...

    def diagnose(
        self,
        exit_status: int | None,
        log: str,
        *,
        ready: bool,
        killed_by_kernel: bool | None = None,
        alive: bool = False,
    ) -> Failure:
        """Why the server ended, or, where it is `alive`, why it is stuck. `ready`: it had been serving.
        `killed_by_kernel`: whether the kernel's OOM killer was at work; None if unknown. Never guesses: where the
        log does not say why, the reason is DIED_STARTING or DIED_SERVING, and the last lines are the evidence."""
        ...
