"""NCCL's settings, proven and timed before a model is loaded: once for each assignment of a study."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autotune.domain.engine import Engine
from autotune.domain.study import StudySpec
from autotune.domain.trial import Failure, FailureReason, LaunchCommand
from autotune.engines.dialect import nccl
from autotune.launch import complete_environment
from autotune.launch.collectives import AllReduceAnswer, AllReduceProbe, time_allreduce
from autotune.recording.files import stopping_the_study, write_whole

SCHEMA_VERSION = 1
FOLDER = "nccl"


@dataclass(frozen=True)
class Proven:
    """`proof` goes on the trial (docs/nccl.md has its keys). `failure`: the setting must not be launched with."""

    proof: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    failure: Failure | None = None


class Prover:
    """Asks the serving interpreter's own NCCL, on the trial's GPUs and in the trial's environment."""

    def __init__(
        self,
        spec: StudySpec,
        engine: Engine,
        folder: Path,
        ask: Callable[[AllReduceProbe], AllReduceAnswer] = time_allreduce,
    ) -> None:
        """`folder` is the study's run folder: a study that goes on finds there what was proven before."""
        self._engine, self._folder, self._ask = engine, folder / FOLDER, ask
        names = (*(parameter.name for parameter in spec.space.parameters), *spec.engine.env, *spec.baseline)
        self._asked_for = any(name.startswith(nccl.PREFIX) for name in names)
        self._known: dict[str, Proven] = {}

    def is_due(self, asked: LaunchCommand) -> bool:
        """Nothing is proven on a simulated node, of a single GPU, or in a study that leaves NCCL alone."""
        return self._asked_for and not self._engine.simulated and len(self._engine.collective_gpus(asked)) > 1

    def prove(self, asked: LaunchCommand, shell: Mapping[str, str]) -> Proven:
        """From the memory of this run, the run folder, or a probe, in this order. Raises StudyStopped if the folder
        cannot be written."""
        with tempfile.TemporaryDirectory(prefix="autotune-nccl-") as tmpdir:
            completed = complete_environment(asked, shell, tmpdir=Path(tmpdir))
            environment = {**nccl.SERVER_DEFAULTS, **completed.environment}
            key = self._key(completed)
            digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:12]
            if digest not in self._known:
                self._known[digest] = self._recorded(digest) or self._probed(digest, key, environment)
            return self._known[digest]

    def _key(self, command: LaunchCommand) -> dict[str, Any]:
        """Whatever the answer depends on."""
        return {
            "assignment": nccl.assignment(command.environment),
            "python": command.argv[0],
            "gpus": list(self._engine.collective_gpus(command)),
            "visible": command.environment.get("CUDA_VISIBLE_DEVICES"),
        }

    def _recorded(self, digest: str) -> Proven | None:
        """None also for a record that cannot be read: it is made again."""
        try:
            data = json.loads((self._folder / f"{digest}.json").read_bytes())
            if data["schema_version"] != SCHEMA_VERSION:
                return None
            failure = data["failure"]
            refused = None if failure is None else _failure(failure["message"], failure["evidence"], data["key"])
            return Proven(dict(data["proof"]), tuple(data["remarks"]), refused)
        except (OSError, ValueError, LookupError, TypeError):
            return None

    def _probed(self, digest: str, key: Mapping[str, Any], environment: Mapping[str, str]) -> Proven:
        log_path = self._folder / f"{digest}.log"
        with stopping_the_study(self._folder, lambda: "nothing was launched for this trial"):
            self._folder.mkdir(exist_ok=True)
            answer = self._ask(AllReduceProbe(key["python"], environment, tuple(key["gpus"]), log_path))
            log = log_path.read_text(errors="replace") if log_path.exists() else ""
        proven = judge(answer, log, key, where=f"{FOLDER}/{digest}")
        if answer.outcome == "unavailable":
            return proven  # nothing was learnt: the next start of the study asks again
        failure = proven.failure
        record = {
            "schema_version": SCHEMA_VERSION,
            "key": dict(key),
            "proof": dict(proven.proof),
            "remarks": list(proven.remarks),
            "failure": None if failure is None else {"message": failure.message, "evidence": failure.evidence},
        }
        with stopping_the_study(self._folder, lambda: "nothing was launched for this trial"):
            write_whole(self._folder / f"{digest}.json", (json.dumps(record, indent=2) + "\n").encode())
        return proven


def judge(answer: AllReduceAnswer, log: str, key: Mapping[str, Any], *, where: str) -> Proven:
    """What an answer and NCCL's log come to. `where` names the record, relative to the run folder."""
    if answer.outcome == "unavailable":
        return Proven(remarks=(f"NCCL's settings could not be proven: {answer.message}",))
    if answer.outcome == "communication":
        return Proven(failure=_failure(answer.message, nccl.evidence(log) or answer.message, key))
    said = nccl.parse(log)
    assignment: Mapping[str, str] = key["assignment"]
    proof = {"record": where, "gpus": ",".join(map(str, key["gpus"])), **answer.versions}
    if said.version is not None:
        proof["nccl"] = said.version
    if said.channels is not None:
        proof["channels"] = str(said.channels)
    if said.transports:
        proof["via"] = ", ".join(said.transports)
    for name, value in assignment.items():
        proof[f"set.{name}"] = value
        if name in said.settings:
            proof[f"read.{name}"] = said.settings[name]
    for time in answer.times:
        figures = {"": time.median_us, ".p10": time.p10_us, ".p90": time.p90_us}
        proof |= {f"allreduce_us.{time.size}{suffix}": f"{us:.2f}" for suffix, us in figures.items()}
        if time.size in said.choices:
            proof[f"chosen.{time.size}"] = str(said.choices[time.size])
    return Proven(proof, nccl.unconfirmed(assignment, said))


def _failure(message: str, evidence: str, key: Mapping[str, Any]) -> Failure:
    assignment = ", ".join(f"{name}={value}" for name, value in key["assignment"].items())
    if assignment:
        hint = "take this value out of the space; no model was loaded for it"
    else:
        hint = "no NCCL_* is set: the node's own communication fails; NCCL_P2P_DISABLE=1 helps on some PCIe nodes"
    before = f"the all-reduce of {len(key['gpus'])} GPUs with {assignment or 'no NCCL_* set'} failed: "
    text = message if message.startswith("the all-reduce of") else before + message
    return Failure(FailureReason.COMMUNICATION_FAILED, text, evidence, hint)
