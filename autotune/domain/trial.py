"""One configuration's evaluation: the command, what the server made of it, what was measured, or why not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from autotune.domain.configuration import Configuration
from autotune.domain.confirmation import Replicate
from autotune.domain.finding import Finding
from autotune.domain.level import Level
from autotune.domain.measurement import Measurement, Score
from autotune.domain.pruning import Bound, LevelScreen
from autotune.domain.slo import UNSEEN, SloCheck


class Blame(Enum):
    """Whose fault a failure is, hence what is done about it."""

    CONFIGURATION = "configuration"  # would fail again: told to the sampler as infeasible
    CIRCUMSTANCE = "circumstance"  # may pass next time: retried once
    UNKNOWN = "unknown"  # retried once; twice the same is held against the configuration


class FailureReason(Enum):
    """value, whose fault. The words stand in trials.jsonl, MLflow and the report."""

    ARGUMENT_REJECTED = ("argument_rejected", Blame.CONFIGURATION)
    INVALID_COMBINATION = ("invalid_combination", Blame.CONFIGURATION)
    OUT_OF_MEMORY = ("out_of_memory", Blame.CONFIGURATION)  # when is not told; in old records, whenever
    OUT_OF_MEMORY_LOADING = ("out_of_memory_loading", Blame.CONFIGURATION)
    OUT_OF_MEMORY_POOL = ("out_of_memory_pool", Blame.CONFIGURATION)
    OUT_OF_MEMORY_CAPTURE = ("out_of_memory_capture", Blame.CONFIGURATION)
    OUT_OF_MEMORY_SERVING = ("out_of_memory_serving", Blame.CONFIGURATION)
    KV_POOL_TOO_SMALL = ("kv_pool_too_small", Blame.CONFIGURATION)
    MAIN_MEMORY_EXHAUSTED = ("main_memory_exhausted", Blame.UNKNOWN)
    KILLED_BY_KERNEL = ("killed_by_kernel", Blame.UNKNOWN)
    SHARED_MEMORY_FULL = ("shared_memory_full", Blame.CIRCUMSTANCE)
    GRAPH_CAPTURE_FAILED = ("graph_capture_failed", Blame.CONFIGURATION)
    UNSUPPORTED_HARDWARE = ("unsupported_hardware", Blame.CONFIGURATION)
    COMMUNICATION_FAILED = ("communication_failed", Blame.CONFIGURATION)
    COMMUNICATION_HUNG = ("communication_hung", Blame.UNKNOWN)
    RENDEZVOUS_FAILED = ("rendezvous_failed", Blame.CIRCUMSTANCE)
    MODEL_MISMATCH = ("model_mismatch", Blame.CONFIGURATION)
    MODEL_UNREADABLE = ("model_unreadable", Blame.CONFIGURATION)
    MODEL_NOT_FOUND = ("model_not_found", Blame.CONFIGURATION)
    MISSING_DEPENDENCY = ("missing_dependency", Blame.CONFIGURATION)
    KERNEL_BUILD_FAILED = ("kernel_build_failed", Blame.CONFIGURATION)
    ENGINE_BUG = ("engine_bug", Blame.UNKNOWN)
    WATCHDOG_TIMEOUT = ("watchdog_timeout", Blame.UNKNOWN)
    STUCK_STARTING = ("stuck_starting", Blame.UNKNOWN)
    STUCK_SERVING = ("stuck_serving", Blame.UNKNOWN)
    STUCK_BUT_HEALTHY = ("stuck_but_healthy", Blame.UNKNOWN)  # its health check still says that all is well
    DIED_STARTING = ("died_starting", Blame.UNKNOWN)
    DIED_SERVING = ("died_serving", Blame.UNKNOWN)
    REQUESTS_FAILED = ("requests_failed", Blame.UNKNOWN)
    LEVEL_REFUSED = ("level_refused", Blame.CONFIGURATION)
    LEVEL_VOID = ("level_void", Blame.CIRCUMSTANCE)  # what was measured is not this level on this server
    WRONG_ANSWERS = ("wrong_answers", Blame.UNKNOWN)  # other text, or other lengths, than were asked for
    PORT_TAKEN = ("port_taken", Blame.CIRCUMSTANCE)
    WRONG_SERVER = ("wrong_server", Blame.CIRCUMSTANCE)
    LEFTOVERS = ("leftovers", Blame.CIRCUMSTANCE)
    NODE_BUSY = ("node_busy", Blame.CIRCUMSTANCE)
    CLIENT_FAILED = ("client_failed", Blame.CIRCUMSTANCE)

    def __init__(self, word: str, blame: Blame) -> None:
        self.word = word
        self.blame = blame

    @classmethod
    def from_word(cls, word: str) -> FailureReason:
        return next(reason for reason in cls if reason.word == word)


@dataclass(frozen=True)
class Failure:
    """`evidence` is a line of the server's log (or the client's message) that shows the reason."""

    reason: FailureReason
    message: str
    evidence: str = ""
    hint: str = ""
    exit_status: int | None = None


class TrialState(Enum):
    COMPLETE = "complete"
    PRUNED = "pruned"  # stopped after some of its levels: it could not come near the best any more
    INFEASIBLE = "infeasible"  # the configuration's fault; told to Optuna as PRUNED with a violated constraint
    FAILED = "failed"  # circumstances; told to Optuna as FAIL
    INTERRUPTED = "interrupted"  # Ctrl-C; evaluated again on resume


class Origin(Enum):
    """Why the study asked for this configuration."""

    BASELINE = "baseline"
    KNOWN_GOOD = "known_good"
    GREEDY = "greedy"
    SAMPLER = "sampler"
    CONFIRMATION = "confirmation"  # after the search: a finalist or the baseline, on held-out prompts


@dataclass(frozen=True)
class LaunchCommand:
    """argv and environment as data. `environment` is all that the child gets; `dropped` are names (never values)
    of the shell's variables that the child would have read and does not get."""

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    chosen: Mapping[str, str] = field(default_factory=dict)  # the part of the environment that the space names
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True)
class ResolvedArguments:
    """What the server says it runs with (`/server_info`), flat; and the version it says it is."""

    values: Mapping[str, Any]
    version: str | None = None


@dataclass(frozen=True)
class Difference:
    """Asked for one thing, and the server runs with another."""

    argument: str
    asked: str
    resolved: str


@dataclass(frozen=True)
class Hardware:
    """The GPUs of a node, which are taken to be alike. `architecture`: sm90, sm120. `link`: nvlink (GPU to GPU),
    nvswitch, pcie; None where it is not known, or where there is one GPU."""

    architecture: str | None = None
    gpu_count: int = 0
    gpu_name: str | None = None
    gpu_memory_gib: float | None = None
    link: str | None = None


@dataclass(frozen=True)
class EngineVersion:
    """`release` compares: (0, 5, 23). `details`: versions of torch, NCCL, CUDA, kernels where they are known.

    What a configuration is checked against stands beside it: `hardware`, what it is installed on, and
    `largest_level`, the most requests that a study keeps in flight. None: not known, and nothing is refused for it.
    """

    text: str
    release: tuple[int, ...]
    details: Mapping[str, str] = field(default_factory=dict)
    hardware: Hardware | None = None
    largest_level: int | None = None


@dataclass(frozen=True)
class Provenance:
    """Where the figures come from. `clock_rate` is 1 on a real node; on the simulated one, node seconds per second."""

    engine: str
    engine_version: str
    simulated: bool
    clock_rate: float = 1.0
    node: Mapping[str, str] = field(default_factory=dict)  # GPUs, driver, CPU, topology
    tuner: Mapping[str, str] = field(default_factory=dict)  # version, commit


@dataclass(frozen=True)
class TrialRequest:
    number: int
    configuration: Configuration
    origin: Origin
    replicate: Replicate | None = None  # of a confirmation
    screen: LevelScreen | None = field(default=None, compare=False)  # None: every level, in the order of the plan


@dataclass(frozen=True)
class TrialResult:
    """`node_seconds`: from launch to the proof that nothing is left, on the node's clock. Times are ISO 8601, UTC.

    `resolved_identity` is the same for trials whose servers ran with the same; None where the server did not say.
    `duplicate_of`: the trial whose figures these are, as the server turned out to be that one. `proof`: what NCCL
    said of this trial's settings (docs/nccl.md has the keys). `pretences`: what the server was told to pretend.
    """

    number: int
    configuration: Configuration
    origin: Origin
    state: TrialState
    started_at: str
    node_seconds: float
    startup_seconds: float | None = None
    command: LaunchCommand | None = None
    resolved: ResolvedArguments | None = None
    differences: tuple[Difference, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    score: Score | None = None
    failure: Failure | None = None
    attempts: int = 1
    provenance: Provenance | None = None
    remarks: tuple[str, ...] = ()
    resolved_identity: str | None = None
    duplicate_of: int | None = None
    proof: Mapping[str, str] = field(default_factory=dict)
    pretences: tuple[str, ...] = ()
    slo: tuple[SloCheck, ...] = ()  # every bound of the study's SLO, of a complete trial
    findings: tuple[Finding, ...] = ()  # of guards that look at the trial as a whole
    replicate: Replicate | None = None  # of a confirmation
    bound: Bound | None = None  # of a pruned trial

    @property
    def broken(self) -> tuple[SloCheck, ...]:
        return tuple(check for check in self.slo if check.broken)

    @property
    def violation(self) -> float:
        """Sum over the broken bounds; 0 where there is none."""
        return sum(UNSEEN if check.violation is None else check.violation for check in self.broken)

    @property
    def every_finding(self) -> tuple[Finding, ...]:
        """Of each level, then of the trial as a whole."""
        return (*(found for seen in self.measurements for found in seen.findings), *self.findings)

    def at(self, level: Level) -> Measurement | None:
        return next((m for m in self.measurements if m.level == level), None)
