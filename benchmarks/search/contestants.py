"""The strategies that are compared, each as its users run it. Every one evaluates through the same replayed node.

Those of this project know the space's conditions and constraints and the engine's rules. So do random, grid,
one-factor-at-a-time, the stages and the tiers here, which their own users often have not: that flatters them.
`tpe_shipped` is Optuna with its defaults and a define-by-run space: what it draws is launched, twice if drawn twice,
and what fails is told as FAIL, as an objective that raises is.
"""

from __future__ import annotations

import random
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import optuna
from optuna.distributions import CategoricalChoiceType

from autotune.domain.configuration import Configuration, Value
from autotune.domain.space import Parameter
from autotune.domain.study import STRATEGIES, Budget
from autotune.domain.trial import Origin, TrialRequest, TrialResult
from autotune.study import run_study
from autotune.study.ledger import Ledger
from autotune.study.moves import Rules, change, levels
from autotune.study.optuna_space import OptunaSpace
from benchmarks.search.limits import guided_pass, oracle
from benchmarks.search.replay import Node, Run, Truth, summarise
from benchmarks.search.tables import Table

OWN = STRATEGIES
SETTLING = "+stop"
"""Appended to the name of one of this project's: it ends by itself where nothing is left to find."""
Strategy = Callable[[Table, int, "Session"], None]


class Over(Exception):
    """The budget is used up."""


class Session:
    """Evaluates, counts trials, and measures how long the strategy thinks between two of them."""

    def __init__(self, table: Table, seed: int, trials: int, noise: float = 1.0) -> None:
        self.node = Node(table, seed, noise)
        self.trials = trials
        self.thinking: list[float] = []
        self._since = time.perf_counter()
        self.ledger = Ledger(table.spec.space, table.validity())

    def evaluate(self, request: TrialRequest) -> TrialResult:
        self.thinking.append(time.perf_counter() - self._since)
        result = self.node.evaluate(request)
        self._since = time.perf_counter()
        return result

    def run(self, configuration: Configuration) -> float | None:
        """Its score; None if it died. Raises Over when no trial is left."""
        if len(self.node.results) >= self.trials:
            raise Over
        result = self.evaluate(TrialRequest(len(self.node.results), configuration, Origin.SAMPLER))
        self.ledger.add(result)
        return None if result.score is None else result.score.estimate.value

    def once(self, configuration: Configuration) -> float | None:
        """As `run`, but what was settled is not launched again."""
        return self.run(configuration) if self.ledger.is_open(configuration) else self.ledger.score(configuration)


def run(table: Table, truth: Truth, strategy: str, seed: int, trials: int, *, noise: float = 1.0) -> Run:
    """`noise`: so many times that of replay."""
    session = Session(table, seed, trials, noise)
    try:
        if strategy.removesuffix(SETTLING) in OWN:
            _own(table, seed, session, strategy)
        else:
            session.run(table.spec.baseline)
            OTHERS[strategy](table, seed, session)
    except Over:
        pass
    thinking = sorted(session.thinking)
    return summarise(session.node, truth, 1000.0 * thinking[len(thinking) // 2])


def _own(table: Table, seed: int, session: Session, strategy: str) -> None:
    budget = Budget(trials=session.trials, stop_when_settled=strategy.endswith(SETTLING))
    spec = replace(table.spec, strategy=strategy.removesuffix(SETTLING), seed=seed, budget=budget)
    with tempfile.TemporaryDirectory(dir=_memory_folder()) as folder:
        run_study(
            spec,
            evaluate=session.evaluate,
            validity=table.validity(),
            history=(),
            storage=Path(folder) / "journal.log",
        )


def _memory_folder() -> str | None:
    """The journal's flushes to a disk would be timed as thinking."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def random_search(table: Table, seed: int, session: Session) -> None:
    """Valid configurations in a random order, none twice."""
    order = list(_legal(table, session))
    random.Random(seed).shuffle(order)
    for configuration in order:
        session.once(configuration)


def grid(table: Table, seed: int, session: Session) -> None:
    """Every valid configuration in the order of the file."""
    for configuration in _legal(table, session):
        session.once(configuration)


def one_factor(table: Table, seed: int, session: Session) -> None:
    """Each value of each factor against the baseline, then the best value of each together. Then it is over."""
    baseline = session.ledger.point(table.spec.baseline)
    combined = baseline
    for parameter in table.spec.space.parameters:
        value = _best_value(session, parameter, baseline, _rules(session))
        if value is not None:
            combined = change(_rules(session), combined, parameter.name, value[0]) or combined
    session.once(combined)


def stages(table: Table, seed: int, session: Session) -> None:
    """As polyserve: factors in a fixed order of importance, each tuned from the best so far and adopted if 2 % better;
    then each adopted change is undone once; then the best three are measured again."""
    first = ("mem_fraction", "kv_cache", "max_running", "cuda_graph", "attention", "NCCL", "disable", "enable", "spec")
    space = table.spec.space
    order = sorted(space.parameters, key=lambda p: next((i for i, w in enumerate(first) if p.name.startswith(w)), 99))
    best = session.ledger.point(table.spec.baseline)
    adopted: list[str] = []
    for parameter in order:
        if not space.is_active(parameter, best):
            continue
        value = _best_value(session, parameter, best, _rules(session), least=1.02)
        if value is not None:
            best = change(_rules(session), best, parameter.name, value[0]) or best
            adopted.append(parameter.name)
    for name in adopted:
        known = name in table.spec.baseline
        undone = change(_rules(session), best, name, table.spec.baseline[name]) if known else None
        if undone is not None and (session.once(undone) or 0.0) > (session.ledger.score(best) or 0.0):
            best = undone
    scored = [(r.score.estimate.value, r.configuration) for r in session.node.results if r.score is not None]
    for _score, configuration in sorted(scored, key=lambda pair: -pair[0])[:3]:
        session.run(configuration)


def tiers(table: Table, seed: int, session: Session) -> None:
    """As SGLang's removed auto_benchmark: one factor at a time on the base without speculation, then the product of
    the two best values of each, then speculation alone on top of the best base, one factor at a time."""
    space = table.spec.space
    base = session.ledger.point(table.spec.baseline)
    plain = [p for p in space.parameters if not p.name.startswith("spec")]
    best: dict[str, list[Value]] = {}
    for parameter in plain:
        if space.is_active(parameter, base):
            scored = _scores(session, parameter, base, _rules(session))
            best[parameter.name] = [value for _score, value in sorted(scored, key=lambda s: -s[0])[:2]]
    winner = base
    combinations = [base]
    for name, values in best.items():
        combinations = [c.replace(**{name: value}) for c in combinations for value in values]
    for candidate in combinations[:32]:
        if session.ledger.is_legal(candidate):
            value = session.once(candidate)
            if value is not None and value > (session.ledger.score(winner) or 0.0):
                winner = candidate
    for parameter in space.parameters:
        if parameter.name.startswith("spec") and space.is_active(parameter, winner):
            better = _best_value(session, parameter, winner, _rules(session))
            if better is not None:
                winner = change(_rules(session), winner, parameter.name, better[0]) or winner


def tpe_shipped(table: Table, seed: int, session: Session) -> None:
    """optuna.create_study().optimize(objective): nothing set but the seed and the direction."""
    space = OptunaSpace(table.spec.space)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
        while True:
            trial = study.ask()
            value = session.run(space.suggest(trial))
            if value is None:
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
            else:
                study.tell(trial, value)


def gp_shipped(table: Table, seed: int, session: Session) -> None:
    """Optuna's GPSampler with its defaults. It sees every parameter in each trial, since it draws at random those that
    not all trials have; what dies is told as the worst value so far, since it does not look at failed trials at all and
    would propose them for ever. Needs torch and scipy."""
    space = OptunaSpace(table.spec.space)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        study = optuna.create_study(direction="maximize", sampler=optuna.samplers.GPSampler(seed=seed))
        distributions = {name: dimension.distribution for name, dimension in space.dimensions.items()}
        told: list[float] = []
        while True:
            trial = study.ask(distributions)
            value = session.run(_active(space, trial.params))
            if value is None and not told:
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
                continue
            told.append(min(told) if value is None else value)
            study.tell(trial, told[-1])


OTHERS: dict[str, Strategy] = {
    "random": random_search,
    "grid": grid,
    "one_factor": one_factor,
    "stages": stages,
    "tiers": tiers,
    "tpe_shipped": tpe_shipped,
    "gp_shipped": gp_shipped,
    "oracle": oracle,
    "guided_pass": guided_pass,
}
STOPPING = tuple(name + SETTLING for name in ("greedy_tpe", "greybox", "greedy_greybox"))
NEEDS = {"gp_shipped": ("torch", "scipy")}
ALL = (*OTHERS, *OWN, *STOPPING)
AVAILABLE = tuple(name for name in ALL if all(find_spec(module) for module in NEEDS.get(name, ())))
"""Without those for which something is not installed."""
LIMITS = ("oracle", "guided_pass")


def _active(space: OptunaSpace, drawn: Mapping[str, CategoricalChoiceType]) -> Configuration:
    """Of parameters that were all drawn, those whose conditions hold."""
    active: dict[str, Value] = {}
    for parameter in space.space.parameters:
        if space.space.is_active(parameter, active):
            active[parameter.name] = space.dimensions[parameter.name].from_optuna(drawn[parameter.name])
    return Configuration(active)


def _legal(table: Table, session: Session) -> Iterator[Configuration]:
    return filter(session.ledger.is_legal, table.spec.space.configurations())


def _rules(session: Session) -> Rules:
    return Rules(session.ledger.space, session.ledger.is_legal)


def _scores(session: Session, parameter: Parameter, base: Configuration, rules: Rules) -> list[tuple[float, Value]]:
    found: list[tuple[float, Value]] = []
    for value in levels(parameter.domain):
        candidate = change(rules, base, parameter.name, value)
        score = None if candidate is None else session.once(candidate)
        if score is not None:
            found.append((score, value))
    return found


def _best_value(
    session: Session, parameter: Parameter, base: Configuration, rules: Rules, least: float = 1.0
) -> tuple[Value] | None:
    """The best value, in a tuple since None is a value; None if none is `least` times as good as the base."""
    scored: Iterable[tuple[float, Value]] = _scores(session, parameter, base, rules)
    best = max(scored, key=lambda pair: pair[0], default=None)
    if best is None or best[0] <= least * (session.ledger.score(base) or 0.0):
        return None
    return (best[1],)
