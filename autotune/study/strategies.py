"""Strategies by name.

greedy_tpe        a greedy factor pass, then TPE
tpe               TPE from the first trial on
greybox           the grey-box model from the first trial on, TPE where it cannot be trusted
greedy_greybox    a greedy factor pass, then the grey-box model
surrogate         as greybox, but fits throughput as a whole: for the benchmark, to show what the grey box is worth
"""

from __future__ import annotations

from autotune.domain.study import STRATEGIES, StudySpec
from autotune.study.ledger import Ledger
from autotune.study.proposer import Proposer

GREEDY_FIRST = frozenset({"greedy_tpe", "greedy_greybox"})
MODELS = frozenset({"greybox", "greedy_greybox", "surrogate"})


def proposer(spec: StudySpec, ledger: Ledger, tpe: Proposer, strategy: str) -> Proposer:
    """What proposes once baseline, known-good and greedy pass are over. Raises ValueError for an unknown name."""
    if strategy not in STRATEGIES:
        raise ValueError(f"a strategy is one of {', '.join(STRATEGIES)}, but got {strategy!r}")
    if strategy in MODELS and spec.ranks_by_throughput:  # the models foretell throughput
        from autotune.study.model.improvement import GreyBoxProposer  # here, so that no other strategy waits for numpy

        return GreyBoxProposer(spec, ledger, tpe, decompose=strategy != "surrogate")
    return tpe
