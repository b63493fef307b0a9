"""Wires the rooms: the only module that knows them all, and the Python API.

spec = spacefile.load(Path("search_spaces/eagle3.yaml"))
outcome = pipeline.tune(spec, pipeline.Options(runs=Path("runs"), mlruns=Path("mlruns")))
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autotune import client_test, engines, preflight, recording, reporting, spacefile, study
from autotune.domain.study import StudyResult, StudySpec
from autotune.domain.trial import TrialRequest, TrialResult
from autotune.errors import Interrupted, StudyStopped
from autotune.load import prompt_source
from autotune.recording import Recorder, RunFolder
from autotune.trial_runner import TrialRunner, TrialSite


@dataclass(frozen=True)
class Options:
    """`mlruns` None: no MLflow. `folder`: a run folder to go on with; None makes a new one under `runs`.

    `warm_start`: earlier studies to learn from; one that is gone on with knows what it knew.
    `stop_requested` is asked before each trial: a KeyboardInterrupt that comes while a library writes a file may be
    swallowed there, and the owner must not have to press Ctrl-C twice.
    """

    runs: Path
    mlruns: Path | None
    folder: RunFolder | None = None
    warm_start: tuple[study.EarlierStudy, ...] = ()
    on_event: Callable[[study.StudyEvent], None] = lambda _event: None
    on_phase: Callable[[str], None] = lambda _phase: None
    stop_requested: Callable[[], bool] = lambda: False


@dataclass(frozen=True)
class Outcome:
    """`error` is why the study could not go on; what was measured before it is in `result` all the same."""

    result: StudyResult
    folder: RunFolder
    tracking_uri: str | None
    interrupted: bool = False
    error: StudyStopped | None = None

    def summary(self) -> dict[str, Any]:
        """What `--json` prints; None where there is nothing."""
        return reporting.summary(self.result, run_dir=str(self.folder.path))


def tune(spec: StudySpec, options: Options) -> Outcome:
    """Raises InputError before anything is launched; later failures are in the outcome."""
    engine = engines.get(spec.engine.name)
    study.require_same_engine(spec, options.warm_start)
    node = preflight.inspect(spec, engine, tuner_python=sys.executable)
    client = client_test.for_study(
        spec, engine, tuner_python=sys.executable, note=lambda t: options.on_event(study.StudyEvent("note", text=t))
    )
    spec = _informed(spec, options, node)
    folder = options.folder or RunFolder.create(
        options.runs, spec, spacefile.dump(spec.source), simulated=engine.simulated
    )
    if options.folder is None:
        recording.write_knowledge(folder, spec.earlier)

    def warn(text: str) -> None:
        options.on_event(study.StudyEvent("note", text=f"warning: {text}"))

    mirror, uri = recording.mirror_for(options.mlruns, folder, spec, warn)
    spec, remarks = preflight.confirmation_within(spec, folder.prompts_used(held_out=True))
    for warning in (*node.warnings, *remarks):
        warn(warning)
    with folder.hold():
        session = _Session(spec, replace(node, facts={**node.facts, **client.facts}), folder, mirror, options, client)
        mirror.study_started(spec, folder)
        stopped, error, interrupted = _search(spec, session, options)
        result = conclude(spec, folder, stopped)
        folder.write_report("report.md", reporting.markdown_report(result))
        mirror.study_finished(result, reporting.experiment_note(result))
    return Outcome(result, folder, uri, interrupted, error)


def _informed(spec: StudySpec, options: Options, node: preflight.Node) -> StudySpec:
    """With what earlier studies are good for here."""
    if options.folder is not None:
        return replace(spec, earlier=recording.read_knowledge(options.folder))
    here = study.Here(node.facts, node.serving.version, _validity(spec, node))
    known = study.learn(spec, options.warm_start, here)
    for text in known.notes:
        options.on_event(study.StudyEvent("note", text=text))
    return replace(spec, earlier=known)


def _validity(spec: StudySpec, node: preflight.Node) -> study.Validity:
    return study.Validity(
        problems=functools.partial(preflight.problems_of, spec, node.serving), canonical=node.serving.canonical
    )


def _search(spec: StudySpec, session: _Session, options: Options) -> tuple[str, StudyStopped | None, bool]:
    """Why it ended, the error that ended it if one did, and whether it was interrupted."""
    try:
        stopped = study.run_study(
            spec,
            evaluate=session.evaluate,
            validity=session.validity,
            history=session.folder.trials(),
            storage=session.folder.journal_path,
            on_event=options.on_event,
        )
    except (Interrupted, KeyboardInterrupt):
        return "interrupted", None, True
    except StudyStopped as error:
        return error.message, error, False
    return stopped, None, False


def conclude(spec: StudySpec, folder: RunFolder, stopped: str = "", *, explained: bool = True) -> StudyResult:
    """The study as recorded, with the best compared with the baseline. Writes nothing. Explaining takes a second or
    two: whoever shows no effects need not wait for it."""
    known = replace(spec, earlier=recording.read_knowledge(folder))
    return study.conclude(known, folder.trials(), stopped, explained=explained)


class _Session:
    """Evaluates one request: run it, record it, mirror it."""

    def __init__(
        self,
        spec: StudySpec,
        node: preflight.Node,
        folder: RunFolder,
        mirror: Recorder,
        options: Options,
        client: client_test.ClientTest,
    ) -> None:
        prefix = spec.workload.prefix_tokens if spec.workload.prefix_sharing else None
        prompts, held_out = (
            prompt_source(
                spec.workload.prompts,
                seed=spec.seed,
                skip=folder.prompts_used(held_out=kept_back),
                held_out=kept_back,
                prefix_tokens=prefix,
            )
            for kept_back in (False, True)
        )
        site = TrialSite(
            spec,
            node.serving,
            preflight.provenance(spec, node),
            folder,
            prompts,
            sys.executable,
            held_out=held_out,
            on_phase=options.on_phase,
            client_finding=client.finding_on,
        )
        earlier = StudyResult(spec, folder.trials()).baseline
        self._runner = TrialRunner(site, earlier.measurements if earlier is not None else (), folder.trials())
        self.folder, self._mirror, self._options = folder, mirror, options
        self.validity = _validity(spec, node)

    def evaluate(self, request: TrialRequest) -> TrialResult:
        if self._options.stop_requested():
            raise Interrupted("interrupted between two trials")
        result = self._runner.evaluate(request)
        self.folder.append(result)
        if alarm := reporting.alarm_line(result):
            self._options.on_event(study.StudyEvent("note", text=f"ALARM: {alarm}"))
        self._mirror.trial_finished(result)
        return result
