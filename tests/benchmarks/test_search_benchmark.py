"""The machinery of benchmarks/search: exact tables, priced replay, honest metrics."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from autotune.domain.configuration import Configuration
from autotune.domain.trial import Origin, TrialRequest, TrialState
from autotune.recording import encode_trial
from autotune.simulated_node.latency import StepModel
from autotune.simulated_node.nodes import ONE_CARD_8B, RTX_PRO_6000_X8
from autotune.simulated_node.resolution import resolve
from autotune.simulated_node.truth import closed_loop_throughput
from benchmarks.search import contestants, recorded, replay, report, results, stopping, tables
from benchmarks.search.replay import Node, Run, Truth
from benchmarks.search.steps import count_steps

TREE = "--speculative-algorithm EAGLE3 --speculative-draft-model-path d --speculative-num-steps 3 "
TREE += "--speculative-eagle-topk 4 --speculative-num-draft-tokens 16"


@pytest.fixture(scope="module")
def table() -> tables.Table:
    return tables.load("nvlink-x8")


@pytest.fixture(scope="module")
def truth(table: tables.Table) -> Truth:
    return Truth(table)


@pytest.mark.parametrize("arguments", ["", TREE], ids=["plain", "tree"])
@pytest.mark.parametrize("concurrency", [8, 32])
def test_counted_steps_give_the_throughput_of_the_step_loop_whatever_the_step_times(
    arguments: str, concurrency: int
) -> None:
    base = ["--model-path", "m", "--tp-size", "8", "--max-running-requests", "256", *arguments.split()]
    counted_on = resolve(RTX_PRO_6000_X8, base, {}).plan
    asked_of = resolve(RTX_PRO_6000_X8, [*base, "--cuda-graph-max-bs", "16"], {"NCCL_PROTO": "LL"}).plan
    rounds = 4 if counted_on.tree is None else max(6, -(-3000 // concurrency))
    steps = count_steps(RTX_PRO_6000_X8, counted_on, concurrency, 64, 100, rounds=rounds)
    exact = closed_loop_throughput(RTX_PRO_6000_X8, asked_of, concurrency, 64, 100)
    assert steps.throughput(StepModel(RTX_PRO_6000_X8, asked_of)) == pytest.approx(exact, rel=1e-6)


def test_the_small_node_serves_its_baseline_and_runs_out_of_memory_where_the_space_says_so() -> None:
    fits = resolve(ONE_CARD_8B, ["--model-path", "m", "--mem-fraction-static", "0.85"], {})
    full = resolve(ONE_CARD_8B, ["--model-path", "m", "--mem-fraction-static", "0.97"], {})
    assert fits.failure is None
    assert full.failure is not None
    assert full.failure.stage == "capture"


@pytest.mark.parametrize("name", tables.NAMES)
def test_every_kept_table_holds_its_whole_space_and_a_baseline_that_lives(name: str) -> None:
    kept = tables.load(name)
    assert kept.cell(kept.spec.baseline).death is None
    for configuration in kept.spec.space.configurations():
        assert configuration.canonical in kept.asked
    assert tables.path_of(name).stat().st_size < 2_000_000


def test_a_trial_costs_its_start_and_its_levels_and_a_first_compile_once(table: tables.Table) -> None:
    node, baseline = Node(table, seed=3), table.spec.baseline
    first, second = (node.evaluate(TrialRequest(n, baseline, Origin.SAMPLER)) for n in range(2))
    assert first.state is TrialState.COMPLETE
    assert first.node_seconds - second.node_seconds == pytest.approx(replay.FIRST_COMPILE_S, abs=40)
    rates = [m.output_throughput.value for m in second.measurements if m.output_throughput]
    measuring = replay.measuring_seconds(table, rates)
    assert second.node_seconds == pytest.approx((second.startup_seconds or 0) + measuring + replay.STOP_S)


def test_a_server_that_dies_costs_time_and_gives_no_score(table: tables.Table) -> None:
    doomed = Configuration({**table.spec.baseline, "attention_backend": "fa3"})
    result = Node(table, seed=0).evaluate(TrialRequest(0, doomed, Origin.SAMPLER))
    assert result.state is TrialState.INFEASIBLE
    assert result.score is None
    assert result.node_seconds > 60


def test_replay_is_noisy_and_a_seed_repeats_it(table: tables.Table) -> None:
    def rates(seed: int) -> list[float]:
        result = Node(table, seed).evaluate(TrialRequest(0, table.spec.baseline, Origin.BASELINE))
        return [m.output_throughput.value for m in result.measurements if m.output_throughput]

    assert rates(1) == rates(1)
    assert rates(1) != rates(2)
    exact = table.cell(table.spec.baseline).throughput
    assert all(abs(math.log(a / b)) < 6 * replay.LEVEL_NOISE for a, b in zip(rates(1), exact, strict=True))


def test_regret_is_zero_at_the_best_legal_server_only(table: tables.Table, truth: Truth) -> None:
    regrets = [truth.regret_of(form) for form in truth.legal]
    assert min(regrets) == 0.0
    assert truth.regret(table.spec.baseline) > 0.1


def test_reached_means_within_two_percent_for_good() -> None:
    lucky = Run(((10.0, 0.3), (20.0, 0.01), (30.0, 0.05), (40.0, 0.0)), 0, 0, 0, 1.0)
    assert lucky.reached == 40.0
    assert replace(lucky, path=((10.0, 0.3), (20.0, 0.05))).reached is None


def test_launching_one_server_twice_is_counted_as_a_duplicate(table: tables.Table, truth: Truth) -> None:
    node = Node(table, seed=0)
    for number in range(3):
        node.evaluate(TrialRequest(number, table.spec.baseline, Origin.SAMPLER))
    assert replay.summarise(node, truth, 0.0).duplicates == 2


@pytest.mark.parametrize("strategy", contestants.AVAILABLE)
def test_every_strategy_runs_to_its_budget_or_its_end(table: tables.Table, truth: Truth, strategy: str) -> None:
    run = contestants.run(table, truth, strategy, seed=1, trials=9)
    assert 1 <= len(run.path) <= 9
    if strategy.removesuffix(contestants.SETTLING) in contestants.OWN:
        assert (run.invalid, run.duplicates) == (0, 0)


def test_results_survive_a_torn_line_and_are_found_again(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    run = Run(((10.0, 0.3),), 0, 1, 2, 3.0)
    results.append(path, results.Key("t", "s", 0, 9), run)
    with path.open("a") as file:
        file.write('{"key": {"tab')
    results.append(path, results.Key("t", "s", 1, 9), run)
    assert results.read(path) == {results.Key("t", "s", seed, 9): run for seed in (0, 1)}


def test_quartiles_count_a_run_that_never_got_there_as_the_latest() -> None:
    good, never = Run(((10.0, 0.0),), 0, 0, 0, 1.0), Run(((10.0, 0.5),), 0, 0, 0, 1.0)
    row = results.row("s", [good, never, never], (60.0,))
    assert row.reached == (10.0, None, None)
    assert row.share == pytest.approx(1 / 3)
    assert results.row("s", [good, good, never], (60.0,)).reached[1] == 10.0


def test_the_report_names_every_strategy_and_the_plot_draws_a_line_for_each() -> None:
    run = Run(((10.0, 0.3), (20.0, 0.01)), 0, 0, 0, 1.0)
    text = report.markdown([results.row("mine", [run], report.AT_MINUTES)], (50.0, 100.0, 200.0))
    assert "| mine | 1 | 20 (20–20) | 0.20 | – | 100 % |" in text
    assert report.svg("t", {"a": [run], "b": [run]}, 60.0).count("<polyline") == 2


def test_a_recorded_study_becomes_a_table_whose_holes_are_closed_to_every_strategy(
    table: tables.Table, tmp_path: Path
) -> None:
    node, legal = Node(table, seed=0), [text for text, (_form, problems) in table.asked.items() if not problems]
    asked = [table.spec.baseline, *(Configuration(json.loads(text)) for text in legal[1:400:20])]
    for number, configuration in enumerate(asked):
        node.evaluate(TrialRequest(number, configuration, Origin.SAMPLER))
    trials = tmp_path / "trials.jsonl"
    trials.write_text("".join(json.dumps(encode_trial(result)) + "\n" for result in node.results))
    kept = recorded.load(trials, tables.FOLDER / "spaces" / "nvlink-x8.yaml", tables.VERSION)
    assert len(kept.cells) == len({table.asked[c.canonical][0] for c in asked})
    run = contestants.run(kept, Truth(kept), "greedy_tpe", seed=0, trials=60)
    assert (run.invalid, run.duplicates) == (0, 0)
    assert len(run.path) <= len(asked)


def test_even_who_knows_the_answer_needs_two_trials_and_one_change_at_a_time_needs_more(
    table: tables.Table, truth: Truth
) -> None:
    oracle = contestants.run(table, truth, "oracle", seed=0, trials=60)
    guided = contestants.run(table, truth, "guided_pass", seed=0, trials=60)
    assert oracle.reached == oracle.path[1][0]
    assert guided.reached is not None
    assert guided.reached > oracle.reached
    assert guided.path[-1][1] < replay.WITHIN
    assert (guided.invalid, guided.duplicates) == (0, 0)


def test_a_run_that_ended_by_itself_is_set_beside_the_one_that_went_on() -> None:
    full = Run(((10.0, 0.3), (20.0, 0.01), (30.0, 0.01), (40.0, 0.0)), 0, 0, 0, 1.0)
    early = replace(full, path=full.path[:1])
    good = replace(full, path=full.path[:2])
    done = {results.Key("t", "greybox", seed, 9): full for seed in range(2)}
    done |= {results.Key("t", "greybox+stop", seed, 9): run for seed, run in enumerate((early, good))}
    assert "| greybox+stop | 2 | 2 | 62 % | 1 | 0 | 15.50 % |" in stopping.markdown("t", 9, done)
    assert stopping.markdown("other", 9, done) == ""
