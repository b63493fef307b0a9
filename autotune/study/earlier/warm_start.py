"""What a new study takes from earlier ones: the order of the factor pass, configurations to try first, what not to
launch again, and results for its models to start from. Never a figure of its own. Pure. See docs/warm_start.md.

What carries over depends on what is the same:

    any earlier study of this engine             order, known-good (translated into this space)
    same version, model and fixed arguments      crashes of the command line and of the model (ELSEWHERE_TOO)
    the same on the same node                    crashes for lack of memory or kernels (ON_THE_NODE), survivors
    the same under the same traffic              priors, if this study's baseline was measured there
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from autotune import scoring
from autotune.domain.configuration import Configuration
from autotune.domain.explanation import FASTER, Effect
from autotune.domain.knowledge import Knowledge, KnownCrash, KnownGood, Prior
from autotune.domain.level import Level
from autotune.domain.study import StudyResult, StudySpec
from autotune.domain.trial import EngineVersion, FailureReason, TrialResult, TrialState
from autotune.errors import InputError
from autotune.study.earlier.sameness import same_node, same_service, same_traffic, same_versions
from autotune.study.earlier.translation import Translation, translate
from autotune.study.ledger import Ledger, Validity

BEST_OF_A_RUN, LOOKED_AT = 3, 8
"""Known-good configurations taken from a study, and the best that are looked at for them. Of a study whose results are
no prior here (another node, say) only the best is taken: what ranks its best there says little of their rank here."""
SMALL_GAIN = 1.02
"""A factor is idle where no effect of it can be larger than this, by the interval."""
ELSEWHERE_TOO = frozenset(
    {FailureReason.ARGUMENT_REJECTED, FailureReason.INVALID_COMBINATION, FailureReason.MODEL_MISMATCH}
)
ON_THE_NODE = frozenset(
    {
        FailureReason.OUT_OF_MEMORY,
        FailureReason.OUT_OF_MEMORY_LOADING,
        FailureReason.OUT_OF_MEMORY_POOL,
        FailureReason.OUT_OF_MEMORY_CAPTURE,
        FailureReason.OUT_OF_MEMORY_SERVING,
        FailureReason.KV_POOL_TOO_SMALL,
        FailureReason.GRAPH_CAPTURE_FAILED,
        FailureReason.UNSUPPORTED_HARDWARE,
        FailureReason.COMMUNICATION_FAILED,
    }
)
UNDER_LOAD = frozenset({FailureReason.OUT_OF_MEMORY, FailureReason.OUT_OF_MEMORY_SERVING})
"""These count only where the new study's traffic is no lighter."""


@dataclass(frozen=True)
class EarlierStudy:
    """`run`: the name of its run folder."""

    run: str
    spec: StudySpec
    trials: tuple[TrialResult, ...]


@dataclass(frozen=True)
class Here:
    """What the new study runs on. facts: of the node, as a provenance has them. version: of the engine that would
    serve a configuration."""

    facts: Mapping[str, str]
    version: Callable[[Configuration], EngineVersion]
    validity: Validity


def require_same_engine(spec: StudySpec, earlier: Sequence[EarlierStudy]) -> None:
    """Raises InputError for a study of another engine: its parameters mean other things."""
    for study in earlier:
        if study.spec.engine.name != spec.engine.name:
            raise InputError(
                f"a warm start must be from a study of the engine {spec.engine.name}, "
                f"but {study.run} is one of {study.spec.engine.name}",
                hint="name a run folder of the same engine; `autotune studies` lists what is there",
            )


def learn(spec: StudySpec, earlier: Sequence[EarlierStudy], here: Here) -> Knowledge:
    """Raises InputError for a study of another engine."""
    require_same_engine(spec, earlier)
    ledger = Ledger(spec.space, here.validity)
    readers = [_Reader(spec, study, here, ledger) for study in earlier]
    order, idle = _order(spec, readers)
    crashes = _once(ledger, [crash for reader in readers for crash in reader.crashes()])
    priors = [prior for reader in readers for prior in reader.priors()]
    good = _known_good(spec, ledger, readers)
    made = Knowledge(
        runs=tuple(study.run for study in earlier),
        order=order,
        idle=idle,
        known_good=good,
        crashes=crashes,
        survivors=tuple(dict.fromkeys(c for reader in readers for c in reader.survivors())),
        priors=tuple(priors),
    )
    return replace(made, notes=tuple(note for reader in readers for note in reader.notes(made)))


class _Reader:
    """One earlier study, read for a new one."""

    def __init__(self, spec: StudySpec, study: EarlierStudy, here: Here, ledger: Ledger) -> None:
        self.study, self._spec, self._here, self._ledger = study, spec, here, ledger
        self.result = StudyResult(study.spec, study.trials)
        self.left_out: list[str] = []
        self._service = same_service(study.spec, spec)
        self._traffic = same_traffic(study.spec.workload, spec.workload)
        self._heavier = (
            max(spec.workload.closed, default=0) >= max(study.spec.workload.closed, default=0)
            and max(spec.workload.rates, default=0.0) >= max(study.spec.workload.rates, default=0.0)
            and spec.workload.max_tokens >= study.spec.workload.max_tokens
        )
        self._translations: dict[Configuration, Translation] = {}

    def translated(self, trial: TrialResult) -> Translation:
        known = self._translations
        if trial.configuration not in known:
            known[trial.configuration] = translate(trial.configuration, self.study.spec, self._spec, self._ledger)
        return known[trial.configuration]

    def effects(self) -> tuple[Effect, ...]:
        spec = self.study.spec
        baseline = scoring.settings(spec.space, spec.baseline)
        weights = spec.workload.weights
        return scoring.effects(scoring.evidence(spec.space, self.result.search, baseline, spec.objective, weights))

    def good(self) -> Iterator[KnownGood]:
        """The best that beat their own baseline and fit into this space, the best first; says what does not fit."""
        baseline = self.result.baseline
        own = None if baseline is None or baseline.score is None else baseline.score.estimate.value
        scored = [(t.score.estimate.value, -t.number, t) for t in self.result.candidates if t.score is not None]
        better = [item for item in scored if own is None or item[0] > own]
        for value, _order, trial in sorted(better, key=lambda item: item[:2], reverse=True)[:LOOKED_AT]:
            made = self.translated(trial)
            if made.configuration is None:
                self.left_out.append(f"trial {trial.number} is left out: {made.why}")
                continue
            if made.changed:
                self.left_out.append(f"trial {trial.number} is taken with {', '.join(made.changed)}")
            yield KnownGood(made.configuration, self.study.run, trial.number, value / own if own else None)

    def crashes(self) -> list[KnownCrash]:
        found = []
        for trial in self.result.search:
            made = self.translated(trial)
            if made.configuration is None or not made.exact or trial.failure is None:
                continue
            if trial.state is TrialState.INFEASIBLE and self._carries(trial, trial.failure.reason):
                found.append(KnownCrash(made.configuration, self.study.run, trial.number, trial.failure.reason.word))
        return found

    def survivors(self) -> list[Configuration]:
        complete = [t for t in self.result.complete if self._on_this_node(t) and self._heavier]
        made = [self.translated(trial) for trial in complete]
        return [m.configuration for m in made if m.configuration is not None and m.exact]

    def priors(self) -> list[Prior]:
        """Empty where this study has an SLO: whether a configuration keeps to it is not known from its ratios; and at
        rates, which no model foretells."""
        if not self._traffic or self._spec.slo or self._spec.workload.rates:
            return []
        fitting = [(t, self.translated(t)) for t in self.result.complete if t.duplicate_of is None]
        usable = [
            (t, m.configuration)
            for t, m in fitting
            if m.configuration is not None and m.exact and self._on_this_node(t) and self._rates(t) is not None
        ]
        own = self._ledger.identity(self._spec.baseline)
        basis = [self._rates(t) or {} for t, c in usable if self._ledger.identity(c) == own]
        if not basis:
            return []
        reference = {level: math.exp(sum(math.log(rates[level]) for rates in basis) / len(basis)) for level in basis[0]}
        return [
            Prior(
                configuration,
                self.study.run,
                trial.number,
                {level: rate / reference[level] for level, rate in (self._rates(trial) or {}).items()},
                {m.level: m.accept_length for m in trial.measurements if m.accept_length is not None},
            )
            for trial, configuration in usable
            if self._ledger.identity(configuration) != own
        ]

    def notes(self, made: Knowledge) -> Iterator[str]:
        run = self.study.run
        taken = {
            "known-good configurations": sum(one.run == run for one in made.known_good),
            "crashes": sum(one.run == run for one in made.crashes),
            "results for the models": sum(one.run == run for one in made.priors),
        }
        died = sum(trial.state is TrialState.INFEASIBLE for trial in self.result.search)
        shown = ", ".join(f"{count} {what}" for what, count in taken.items() if count)
        yield f"warm start from {run} ({self._where()}): {shown or 'nothing but the order of factors'}"
        if died > taken["crashes"]:
            yield f"{run}: {died - taken['crashes']} of its {died} crashes do not carry over"
        yield from (f"{run}: {text}" for text in self.left_out)

    def _where(self) -> str:
        """What is the same, as far as its complete trials tell."""
        first = next(iter(self.result.complete), None)
        if first is None:
            return "no complete trial"
        same = [
            ("same node", same_node(self.study.spec, self._spec, first, self._here.facts)),
            ("same versions", self._versions(first)),
            ("same model and arguments", self._service),
            ("same traffic", self._traffic),
        ]
        words = [word if holds else word.replace("same", "other", 1) for word, holds in same]
        return ", ".join(words)

    def _carries(self, trial: TrialResult, reason: FailureReason) -> bool:
        if reason in UNDER_LOAD and not self._heavier:
            return False
        if reason in ELSEWHERE_TOO:
            return self._service and self._versions(trial)
        return reason in ON_THE_NODE and self._on_this_node(trial)

    def _on_this_node(self, trial: TrialResult) -> bool:
        here = same_node(self.study.spec, self._spec, trial, self._here.facts)
        return here and self._service and self._versions(trial)

    def _versions(self, trial: TrialResult) -> bool:
        made = self.translated(trial)
        try:
            version = self._here.version(made.configuration or self._spec.baseline)
        except KeyError:  # an interpreter that this study does not have
            return False
        return same_versions(trial, version)

    def _rates(self, trial: TrialResult) -> dict[Level, float] | None:
        """None unless each level of this study has one."""
        seen = {m.level: m.output_throughput for m in trial.measurements}
        rates = {level: e.value for level in self._spec.workload.levels if (e := seen.get(level)) and e.value > 0}
        return rates if len(rates) == len(self._spec.workload.levels) else None


def _known_good(spec: StudySpec, ledger: Ledger, readers: Sequence[_Reader]) -> tuple[KnownGood, ...]:
    """Each study's best first, then each study's second, each server once, without what this study tries anyway."""
    seen = {ledger.identity(configuration) for configuration in (spec.baseline, *spec.known_good)}
    ranks: list[list[KnownGood]] = [[] for _ in range(BEST_OF_A_RUN)]
    for reader in readers:
        rank, most = 0, BEST_OF_A_RUN if reader.priors() else 1
        for one in reader.good():
            identity = ledger.identity(one.configuration)
            if identity in seen:
                continue
            seen.add(identity)
            ranks[rank].append(one)
            rank += 1
            if rank == most:
                break
    return tuple(one for rank_ in ranks for one in rank_)


def _once(ledger: Ledger, crashes: Sequence[KnownCrash]) -> tuple[KnownCrash, ...]:
    found: dict[Configuration, KnownCrash] = {}
    for crash in crashes:
        found.setdefault(ledger.identity(crash.configuration), crash)
    return tuple(found.values())


def _order(spec: StudySpec, readers: Sequence[_Reader]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Factors that gained, by the mean of their largest clear gain over the studies that saw them; and those that
    nowhere can have gained more than a little."""
    gains: dict[str, list[float]] = {}
    open_still: set[str] = set()
    for reader in readers:
        by_name: dict[str, list[Effect]] = {}
        for effect in reader.effects():
            by_name.setdefault(effect.parameter, []).append(effect)
        for name, effects in by_name.items():
            clear = [math.log(effect.ratio.value) for effect in effects if effect.verdict == FASTER]
            gains.setdefault(name, []).append(max(clear, default=0.0))
            if any(effect.ratio.high is None or effect.ratio.high > SMALL_GAIN for effect in effects):
                open_still.add(name)
    names = [parameter.name for parameter in spec.space.parameters]
    means = {name: sum(gains[name]) / len(gains[name]) for name in names if name in gains}
    order = sorted((name for name, gain in means.items() if gain > 0), key=lambda name: -means[name])
    idle = [name for name, gain in means.items() if gain <= 0 and name not in open_still]
    return tuple(order), tuple(idle)
