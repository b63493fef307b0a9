"""What a trial is expected to cost, by what it changes."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.domain.configuration import Configuration
from autotune.domain.space import Parameter, SearchSpace, Values
from autotune.domain.trial import Origin, TrialResult, TrialState
from autotune.study.model.node_time import NodeTime

SPACE = SearchSpace(
    (
        Parameter("attention_backend", Values(("a", "b", "c"))),
        Parameter("cuda_graph_max_bs", Values((16, 160, 320))),
        Parameter("NCCL_PROTO", Values((None, "LL"))),
        Parameter("speculative_algorithm", Values((None, "E"))),
    )
)
PLAIN = Configuration(
    {"attention_backend": "a", "cuda_graph_max_bs": 16, "NCCL_PROTO": None, "speculative_algorithm": None}
)


def started(configuration: Configuration, start: float | None, measuring: float = 60.0) -> TrialResult:
    state = TrialState.INFEASIBLE if start is None else TrialState.COMPLETE
    seconds = 25.0 if start is None else start + measuring
    return TrialResult(0, configuration, Origin.SAMPLER, state, "", seconds, startup_seconds=start)


def learnt(results: list[TrialResult], expected: float | None = 60.0) -> NodeTime:
    node_time = NodeTime(SPACE)
    node_time.learn(results, [expected] * len(results))
    return node_time


def start_of(node_time: NodeTime, **changes: object) -> float:
    return float(node_time.start([PLAIN.replace(**changes)])[0])  # type: ignore[arg-type]


def true_start(configuration: Configuration, first: bool, new_backend: bool) -> float:
    graphs = int(str(configuration["cuda_graph_max_bs"])) / 8
    draft = 40.0 if configuration["speculative_algorithm"] is not None else 0.0
    return 100.0 + 2.0 * graphs + draft + 30.0 * first + 200.0 * new_backend


def study() -> list[TrialResult]:
    changes = [
        {},
        {"NCCL_PROTO": "LL"},
        {"cuda_graph_max_bs": 160},
        {"attention_backend": "b"},
        {},
        {"attention_backend": "b"},
    ]
    changes += [{"speculative_algorithm": "E"}, {"cuda_graph_max_bs": 320}, {"speculative_algorithm": "E"}]
    seen: set[object] = set()
    results = []
    for index, change in enumerate(changes):
        configuration = PLAIN.replace(**change)  # type: ignore[arg-type]
        new = index > 0 and configuration["attention_backend"] not in seen
        seen.add(configuration["attention_backend"])
        results.append(started(configuration, true_start(configuration, index == 0, new)))
    return results


def test_before_anything_ran_a_first_compile_costs_more_than_a_warm_start() -> None:
    node_time = learnt([])
    assert start_of(node_time) > 0
    node_time = learnt([started(PLAIN, 100.0)])
    assert start_of(node_time, attention_backend="b") > start_of(node_time) + 20
    assert start_of(node_time, NCCL_PROTO="LL") == pytest.approx(start_of(node_time))


def test_each_kind_of_change_has_the_price_that_was_seen() -> None:
    node_time = learnt(study())
    assert start_of(node_time) == pytest.approx(104.0, abs=8)
    assert start_of(node_time, attention_backend="c") - start_of(node_time) == pytest.approx(200.0, rel=0.15)
    assert start_of(node_time, cuda_graph_max_bs=320) - start_of(node_time) == pytest.approx(76.0, rel=0.15)
    assert start_of(node_time, speculative_algorithm="E") - start_of(node_time) == pytest.approx(40.0, rel=0.25)


def test_a_value_that_has_started_once_is_warm() -> None:
    node_time = learnt(study())
    assert start_of(node_time, attention_backend="b") == pytest.approx(start_of(node_time))


def test_a_start_that_failed_leaves_the_cache_cold_and_prices_a_death() -> None:
    node_time = learnt([started(PLAIN, 100.0), started(PLAIN.replace(attention_backend="b"), None)])
    assert start_of(node_time, attention_backend="b") > start_of(node_time) + 20
    dying = node_time.trial([PLAIN], np.array([60.0]), np.array([0.0]))
    assert dying[0] == 25.0


def test_measuring_is_stretched_to_what_it_was_seen_to_take() -> None:
    node_time = learnt([started(PLAIN, 100.0, measuring=180.0)] * 3, expected=60.0)
    alone = node_time.trial([PLAIN], np.array([10.0]), np.array([1.0]))[0]
    assert alone - start_of(node_time) == pytest.approx(30.0)


def test_trials_without_a_start_or_without_their_levels_teach_nothing_and_break_nothing() -> None:
    node_time = learnt([started(PLAIN, None), started(PLAIN, 100.0)], expected=None)
    assert np.isfinite(node_time.trial([PLAIN], np.array([10.0]), np.array([0.5]))).all()
