"""Which configuration to try next, and when to stop. Optuna lives here alone, and is imported by `run_study` only.

    loop        run_study: ask, evaluate, tell, until the budget ends
    search      the order of proposals: baseline, known-good, greedy pass, sampler
    greedy      the factor pass; a pure function of what has been measured
    moves       one configuration made of another, and the random and the exhaustive ones
    ledger      what was tried, what may be tried
    budget      when to stop
    sampler     Optuna's TPE over the space
    strategies, improvement, candidates  what proposes by name; the model's proposals, and what it is asked about
    greybox, accept_length, serving_law  the grey-box model, and what is known of a server beforehand
    likeness, goal, trust                how alike configurations are; the objective; whether a model foretells it
    feasibility, node_time               what will not start, and what a trial costs: learnt
    settling, outlook                    whether another node hour is worth it
    corrections, baseline_schedule   the node's drift: what is made of it, and when the baseline is measured again
    confirmation, conclusion         finalists on fresh servers; what the study comes to
    warm_start, warmth, prior        what earlier studies are good for
    explanation, importance, untried     what the trials say of the factors
    modelled, answers, surroundings      what the model says of them; averaged: under all plausible scales
    journal     Optuna's journal file: the mirror of the study, and its lock

The room knows nothing of servers: it sees `evaluate(TrialRequest) -> TrialResult`.
"""

from autotune.study.comparing.conclusion import conclude
from autotune.study.earlier.warm_start import EarlierStudy, Here, learn, require_same_engine
from autotune.study.events import StudyEvent
from autotune.study.ledger import Validity
from autotune.study.loop import run_study

__all__ = ["EarlierStudy", "Here", "StudyEvent", "Validity", "conclude", "learn", "require_same_engine", "run_study"]
