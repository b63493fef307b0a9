"""Which configuration to try next, and when to stop. Optuna lives here alone, and is imported by `run_study` only.

    loop        run_study: ask, evaluate, tell, until the budget ends
    search      the order of proposals: baseline, known-good, greedy pass, sampler
    greedy      the factor pass; a pure function of what has been measured
    moves       one configuration made of another, and the random and the exhaustive ones
    ledger      what was tried, what may be tried
    budget      when to stop
    sampler     Optuna's TPE over the space
    journal     Optuna's journal file: the mirror of the study, and its lock

The room knows nothing of servers: it sees `evaluate(TrialRequest) -> TrialResult`.
"""

from autotune.study.events import StudyEvent
from autotune.study.ledger import Validity
from autotune.study.loop import run_study

__all__ = ["StudyEvent", "Validity", "run_study"]
