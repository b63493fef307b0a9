"""What stays the same from trial to trial, and what one launch has shown so far."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from autotune.domain.engine import Engine
from autotune.domain.finding import Finding
from autotune.domain.measurement import LevelRun, Measurement
from autotune.domain.pruning import Bound
from autotune.domain.serving import Serving
from autotune.domain.study import StudySpec
from autotune.domain.trial import Difference, Failure, LaunchCommand, Provenance, ResolvedArguments, TrialResult
from autotune.domain.workload import PromptSource
from autotune.launch import GpuChoice, GpuWatch
from autotune.launch.collectives import AllReduceAnswer, AllReduceProbe, time_allreduce
from autotune.recording import RunFolder

HOST = "127.0.0.1"


@dataclass(frozen=True)
class TrialSite:
    """All that stays the same from trial to trial."""

    spec: StudySpec
    serving: Serving
    provenance: Provenance  # its version and the version's details are those of each trial's own interpreter
    folder: RunFolder
    prompts: PromptSource
    tuner_python: str
    shell: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    on_phase: Callable[[str], None] = lambda _phase: None
    gpu_watch: Callable[[GpuChoice, Callable[[str], None]], GpuWatch] = GpuWatch
    ask_allreduce: Callable[[AllReduceProbe], AllReduceAnswer] = time_allreduce
    client_finding: Callable[[LevelRun], Finding | None] = lambda _run: None  # what its own test says
    held_out: PromptSource | None = None  # for the runs of a confirmation: prompts that no other trial gets

    @property
    def engine(self) -> Engine:
        return self.serving.engine


@dataclass
class Attempt:
    """What one launch has shown so far; filled as it goes, so that a failure keeps what came before it."""

    served_name: str = ""
    command: LaunchCommand | None = None
    startup_seconds: float | None = None
    resolved: ResolvedArguments | None = None
    differences: tuple[Difference, ...] = ()
    measurements: list[Measurement] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)  # of the trial as a whole
    failure: Failure | None = None
    interrupted: bool = False
    gpus: GpuWatch | None = None  # None where the server takes no GPU of the node
    repeats_hopeless: bool = False
    identity: str | None = None  # of what the server runs with
    original: TrialResult | None = None  # the trial that measured this very server before
    bound: Bound | None = None  # why the levels that are missing were not measured
    proof: Mapping[str, str] = field(default_factory=dict)

    def note(self, remark: str) -> None:
        if remark not in self.remarks:
            self.remarks.append(remark)

    @property
    def ready(self) -> bool:
        return self.startup_seconds is not None
