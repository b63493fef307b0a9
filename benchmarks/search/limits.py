"""Two that know the answer: what even they need, no strategy can do in less.

`oracle` measures the baseline, as every study must, and then the best configurations in their true order: its time is
that of two trials, and of what the noise of the comparison adds. `guided_pass` knows the best value of every factor and
which to set next, but changes one factor at a time, as whoever wants to see what each change brings: a lower bound for
every factor pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from autotune.domain.configuration import Configuration
from autotune.study.moves import Rules, change
from benchmarks.search.replay import Truth
from benchmarks.search.tables import Table

if TYPE_CHECKING:
    from benchmarks.search.contestants import Session

BEST = 10


def oracle(table: Table, seed: int, session: Session) -> None:
    for configuration in _in_true_order(table)[:BEST]:
        session.once(configuration)


def guided_pass(table: Table, seed: int, session: Session) -> None:
    truth, goal = Truth(table), _in_true_order(table)[0]
    rules = Rules(table.spec.space, session.ledger.is_legal, (goal,))
    current = session.ledger.point(table.spec.baseline)
    while current != goal:
        steps = [change(rules, current, name, goal[name]) for name in goal if current.get(name) != goal[name]]
        legal = [step for step in steps if step is not None and session.ledger.is_open(step)]
        if not legal:
            break
        current = min(legal, key=truth.regret)
        session.once(current)
    session.once(goal)


def _in_true_order(table: Table) -> list[Configuration]:
    """One configuration of each legal server, the best first."""
    truth = Truth(table)
    legal = set(truth.legal)
    asked: dict[str, Configuration] = {}
    for configuration in table.spec.space.configurations():
        known = table.asked.get(configuration.canonical)
        if known is not None and not known[1] and known[0].canonical in legal:
            asked.setdefault(known[0].canonical, configuration)
    legal_ones = [form for form in asked if not table.spec.space.broken(asked[form])]
    return [asked[form] for form in sorted(legal_ones, key=truth.regret_of)]
