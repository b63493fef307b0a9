"""Optuna's TPE over a space with conditions and constraints.

TPE thinks in a study of its own, in memory, that is filled from the recorded results: what it proposes depends on
trials.jsonl and the seed alone, never on the state of a file that a kill may have torn, and a draw that is thrown
away costs no write to disk. The journal file (journal.py) mirrors the trials that were launched.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import optuna
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import TPESampler
from optuna.trial import TrialState

from autotune.domain.configuration import Configuration
from autotune.domain.trial import TrialResult
from autotune.study.ledger import Ledger
from autotune.study.optuna_space import OptunaSpace

STARTUP_TRIALS = 5
"""Random until so many trials are in. Five did better than Optuna's ten on synthetic nodes, and after a greedy pass
none is random."""

DRAWS = 20
"""Draws thrown away for one proposal, before the search falls back to neighbours of the best."""

VALID = "valid"
"""Name of the constraint that a draw violates which would not be legal to launch."""


def quiet() -> None:
    """Optuna's own log lines would stand between those of the study."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)


class Sampler:
    """Proposes configurations that may be launched and that have not been settled."""

    def __init__(self, ledger: Ledger, seed: int, prior: Callable[[], Sequence[TrialResult]] = tuple) -> None:
        """`ledger` may hold results; those that come later are to be given to `add`. `prior`: what a warm start has
        the sampler learn from besides."""
        self._ledger = ledger
        self._prior = prior
        self._space = OptunaSpace(ledger.space)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=r"Argument ``group``", category=ExperimentalWarning)
            # All explicit: the defaults of these changed between Optuna 4 and 5.
            sampler = TPESampler(
                n_startup_trials=STARTUP_TRIALS, multivariate=True, group=True, constant_liar=False, seed=seed
            )
        self._sampler = sampler
        self.learn_anew()

    def learn_anew(self) -> None:
        """From the ledger's results (and the prior's), with the sampler's random state as it is."""
        self.study = optuna.create_study(direction="maximize", sampler=self._sampler)
        for result in (*self._prior(), *self._ledger.results):
            self.add(result)

    def add(self, result: TrialResult) -> None:
        """A result that the space cannot express (a baseline with a value that it does not list) is left out."""
        point = self._ledger.point(result.configuration)
        if self._space.parameters(point) is not None:
            self.study.add_trial(self._space.frozen(point, result))

    def propose(self) -> Configuration | None:
        """None if `DRAWS` draws gave nothing that may be launched and is new.

        An illegal draw is told as PRUNED with a violated constraint, so that TPE learns where the law ends; one that
        was seen before is told as FAIL, which TPE does not read: it has learned from it already.
        """
        for _ in range(DRAWS):
            trial = self.study.ask()
            drawn = self._space.suggest(trial)
            if not self._ledger.is_legal(drawn):
                trial.set_constraint(VALID, 1.0)
                self.study.tell(trial, state=TrialState.PRUNED)
                continue
            self.study.tell(trial, state=TrialState.FAIL)
            if self._ledger.is_open(drawn):
                return drawn
        return None
