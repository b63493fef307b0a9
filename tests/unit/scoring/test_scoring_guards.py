"""Each guard on records that provoke it, and on those that just do not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from builders import level_run, measurement, record

from autotune.domain.finding import Effect, Finding, ServerWindow
from autotune.domain.measurement import ClientHealth, LevelRun, RequestRecord
from autotune.domain.trial import FailureReason
from autotune.scoring.guarding.guard_checks import Evidence, findings, guarded, mean_in_flight
from autotune.scoring.guarding.guards import GUARDS, by_circumstance, finding, reason_of, settle

LOOP = "and so on and so forth; " * 40
PROSE = " ".join(f"word{index * 7919 % 1009}" for index in range(120))


def evidence(**overrides: Any) -> Evidence:
    """A level of two slots that nothing speaks against."""
    run = overrides.pop("run", level_run())
    return replace(Evidence(run=run, measurement=measurement(run.concurrency, 98.0)), **overrides)


def log(**overrides: Any) -> ServerWindow:
    return replace(ServerWindow(20, 2.0, 2.0, 0.0, 0.0, None), **overrides)


def names(given: Evidence) -> set[str]:
    return {found.guard for found in guarded(given).findings}


def with_text(*texts: str) -> tuple[RequestRecord, ...]:
    return tuple(record(sent_s=0.1 + index / 100, text=text) for index, text in enumerate(texts))


def test_a_level_that_nothing_speaks_against_has_no_finding() -> None:
    seen = guarded(evidence(server=log(), request_cap=2, graph_ceiling=2))
    assert seen.findings == ()
    assert seen.output_throughput is not None
    assert (seen.server, seen.answer_tokens) == (log(), 50.0)


SAID = {
    "eager_steps": [({"server": log(eager_share=0.06)}, True), ({"server": log(eager_share=0.05)}, False)],
    "queue": [({"server": log(queued=0.3)}, True), ({"server": log(queued=0.2)}, False)],
    "running": [({"server": log(running=0.9)}, True), ({"server": log(running=1.0)}, False)],
    "foreign_requests": [({"server": log(running=2.7)}, True), ({"server": log(running=2.6)}, False)],
    "request_cap": [({"request_cap": 1}, True), ({"request_cap": 2}, False)],
    "graph_ceiling": [({"graph_ceiling": 1}, True), ({"graph_ceiling": 2}, False), ({"graph_ceiling": 0}, False)],
    "node_cpu": [({"others": (("make (7)", 0.6), ("cc (8)", 0.5))}, True), ({"others": (("cc (8)", 0.9),)}, False)],
    "gpu_disturbed": [({"disturbed": ("hardware slowdown on GPU 0",)}, True), ({}, False)],
}


@pytest.mark.parametrize(
    ("guard", "given", "is_found"),
    [(guard, given, is_found) for guard, cases in SAID.items() for given, is_found in cases],
)
def test_what_server_and_node_say_is_found_above_the_threshold_alone(
    guard: str, given: dict[str, Any], is_found: bool
) -> None:
    assert (guard in names(evidence(**given))) is is_found


def test_a_cap_below_the_level_is_what_running_requests_and_graphs_are_held_against() -> None:
    level = level_run(concurrency=8)
    given = evidence(run=level, request_cap=2, graph_ceiling=2, server=log(running=2.0))
    assert names(given) == {"request_cap"}


def test_a_server_without_graphs_has_no_eager_steps_to_speak_of() -> None:
    assert names(evidence(server=log(eager_share=1.0), graph_ceiling=0)) == set()


def test_a_handful_of_lines_says_nothing() -> None:
    assert names(evidence(server=log(lines=2, eager_share=1.0, queued=2.0, running=9.0))) == set()


@pytest.mark.parametrize(
    ("window_s", "queued", "is_found"), [(2.0, 0.17, True), (2.1, 0.17, False), (2.0, 0.16, False), (1.0, 0.17, True)]
)
def test_a_window_shorter_than_two_requests_is_marked_where_requests_waited(
    window_s: float, queued: float, is_found: bool
) -> None:
    whole = level_run(concurrency=8)  # a request takes 1.02 s
    assert whole.window is not None
    opens = whole.window[0] + 2.0
    run = replace(whole, window=(opens, opens + window_s))
    found = {one.guard: one.values for one in findings(evidence(run=run, server=log(running=8.0, queued=queued)))}
    assert ("short_window" in found) is is_found
    assert not is_found or found["short_window"]["request_s"] == pytest.approx(1.02)


@pytest.mark.parametrize(("concurrency", "ended", "is_found"), [(2, 5, True), (2, 6, False), (1, 2, False)])
def test_a_window_in_which_hardly_a_request_ended_is_marked_unless_it_has_one_slot(
    concurrency: int, ended: int, is_found: bool
) -> None:
    answers = [record(sent_s=0.1 + index, identity=str(index)) for index in range(ended)]
    assert ("short_window" in names(evidence(run=level_run(*answers, concurrency=concurrency)))) is is_found


def test_a_slot_that_stood_empty_voids_the_level_where_it_took_more_than_a_fiftieth() -> None:
    window = (0.0, 10.0)
    whole = record(sent_s=0.0, chunks=[(9.99, 8)])
    for end, void in ((9.5, True), (9.8, False)):
        run = level_run(whole, record(sent_s=0.0, chunks=[(end, 8)]), window=window, in_flight_minimum=1)
        assert mean_in_flight(run.records, window) == pytest.approx((9.99 + end) / 10)
        assert ("in_flight" in names(evidence(run=run))) is void
    run = level_run(whole, window=window)  # no slot was empty: the client took its time between two requests
    assert "in_flight" not in names(evidence(run=run))


@pytest.mark.parametrize(
    ("cpu", "lag", "guard"),
    [(0.96, 0.03, "client_slow"), (0.96, 0.001, "client_busy"), (0.1, 0.03, "client_busy"), (0.7, 0.01, "")],
)
def test_a_client_that_is_busy_and_late_is_told_from_one_that_is_either(cpu: float, lag: float, guard: str) -> None:
    run = level_run(client=ClientHealth(lag, cpu))
    assert names(evidence(run=run)) == ({guard} if guard else set())


@pytest.mark.parametrize(("short", "void"), [(2, False), (5, True)])
def test_answers_of_another_length_void_the_level_where_the_end_of_sequence_is_ignored(short: int, void: bool) -> None:
    records = [
        record(sent_s=0.1, tokens=8, requested_tokens=16 if index < short else 8, identity=str(index))
        for index in range(40)
    ]
    run = level_run(*records)
    assert ("answer_length" in names(evidence(run=run))) is void
    assert "answer_length" not in names(evidence(run=run, ignore_eos=False))


@pytest.mark.parametrize(("tokens", "found"), [(50.0, False), (46.0, False), (44.0, True), (None, False)])
def test_answers_that_end_by_themselves_are_held_against_the_baselines(tokens: float | None, found: bool) -> None:
    given = evidence(ignore_eos=False, baseline=measurement(2, answer_tokens=tokens))
    assert ("answer_length_shift" in names(given)) is found


@pytest.mark.parametrize(
    ("loops", "baseline", "found"), [(12, None, True), (1, None, False), (6, 0.45, False), (6, 0.2, True)]
)
def test_loops_are_counted_and_held_against_the_baselines(loops: int, baseline: float | None, found: bool) -> None:
    run = level_run(*with_text(*[LOOP] * loops, *[PROSE] * (12 - loops)))
    base = None if baseline is None else measurement(2, looping_share=baseline)
    seen = guarded(evidence(run=run, baseline=base))
    assert seen.looping_share == pytest.approx(loops / 12)
    assert ("repetition" in {f.guard for f in seen.findings}) is found


def test_a_log_that_counts_acceptance_otherwise_is_marked() -> None:
    seen = measurement(2, 98.0, accept_length=2.0)
    given = evidence()
    assert "acceptance_disagrees" in names(replace(given, measurement=seen, server=log(accept_length=2.4)))
    assert "acceptance_disagrees" not in names(replace(given, measurement=seen, server=log(accept_length=2.2)))


def test_a_rate_that_is_not_sustained_is_a_finding_and_the_levels_guards_say_nothing() -> None:
    run = level_run(rate=2.0, remarks=("the rate is above what the server sustains: in flight grew from 3 to 90",))
    given = evidence(run=run, server=log(running=9.0, queued=9.0))
    assert names(given) == {"rate_not_sustained"}


def steady(*pauses: tuple[int, float], gap_s: float = 0.01, count: int = 400) -> LevelRun:
    """Chunks of two streams by turns, `gap_s` apart; after the n-th, so many seconds more."""
    longer, now, stamps = dict(pauses), 0.0, []
    for index in range(count):
        now += gap_s + longer.get(index, 0.0)
        stamps.append(now)
    streams = (stamps[0::2], stamps[1::2])
    records = [record(sent_s=0.0, chunks=[(stamp, 1) for stamp in stream]) for stream in streams]
    return level_run(*records, window=(0.0, now))


@pytest.mark.parametrize(
    ("run", "paused"),
    [
        (steady(), False),
        (steady((100, 2.0)), True),
        (steady((100, 2.0), (200, 1.5), (300, 2.5)), True),
        (steady((100, 2.0), (150, 2.0), (200, 2.0), (250, 2.0)), False),  # so often is how this server runs
        (steady((100, 0.1), (150, 0.3), (200, 0.9), (250, 2.0)), False),  # gaps of all lengths: prefill
        (steady((100, 0.06)), False),  # apart, and nothing to speak of
        (steady((5, 2.0), count=15), False),  # too few to tell
        (replace(steady((100, 2.0)), rate=2.0), False),  # nobody may have asked for anything
    ],
)
def test_a_server_that_stood_still_is_told_from_one_that_has_long_gaps(run: LevelRun, paused: bool) -> None:
    assert ("pause" in names(evidence(run=run))) is paused


def one_by_one(*first_chunks: tuple[float, int | None]) -> LevelRun:
    """Requests of one slot after each other, each of 50 chunks 5 ms apart; for each the seconds to its first chunk and
    the tokens of its prompt."""
    now, records = 0.0, []
    for ttft_s, prompt_tokens in first_chunks:
        records.append(record(sent_s=now, ttft_s=ttft_s, gap_s=0.005, tokens=50, prompt_tokens=prompt_tokens))
        now = records[-1].chunk_times_s[-1]
    return level_run(*records, concurrency=1, window=(0.0, now))


SHORT_PROMPTS = [(0.05, 200), (0.02, 80), (0.03, 120), (0.04, 150)] * 3


@pytest.mark.parametrize(
    ("first_chunks", "paused"),
    [
        ([*SHORT_PROMPTS, (3.0, 12_000)], False),  # one long prompt, at the pace of the others
        ([*SHORT_PROMPTS, (9.0, 1_720)], True),  # a kernel that was compiled for it
        ([*SHORT_PROMPTS, (3.0, None)], False),  # whatever waited may have been long
        ([*SHORT_PROMPTS, (0.15, 12_000)], False),
    ],
)
def test_the_prefill_of_a_long_prompt_is_not_taken_for_a_pause(
    first_chunks: list[tuple[float, int | None]], paused: bool
) -> None:
    assert ("pause" in names(evidence(run=one_by_one(*first_chunks)))) is paused


def test_what_is_told_of_a_pause_is_how_long_it_was_and_how_long_none_was_else() -> None:
    (seen,) = [found for found in findings(evidence(run=steady((100, 2.0)))) if found.guard == "pause"]
    assert seen.text == "no stream had anything for 2.01 s, and else never for more than 0.01 s"
    assert seen.values == {"pause_s": pytest.approx(2.01), "usual_s": pytest.approx(0.01)}


def test_what_the_clients_own_test_says_is_among_the_findings() -> None:
    said = finding("client_untested", "tested up to 5", 2)
    assert said in findings(evidence(client=said))


def test_a_void_takes_every_figure_away_and_keeps_the_throughput_as_a_value() -> None:
    seen = settle(
        measurement(10, 453.2, accept_length=2.0, good_share=None),
        [finding("queue", "waits", 10), finding("foreign_requests", "others", 10, running=14.0, unknown=None)],
    )
    assert [found.guard for found in seen.findings] == ["foreign_requests", "queue"]  # the order of the table
    assert seen.void[0].values == {"running": 14.0, "output_throughput": 453.2}
    assert seen.findings[1].values == {}
    missing = (seen.output_throughput, seen.ttft_ms, seen.itl_ms, seen.tpot_ms, seen.e2e_s, seen.per_request_rate)
    assert missing == (None,) * 6
    assert (seen.accept_length, seen.completion_tokens, seen.requests_ok) == (None, None, 60)


def test_an_alarm_of_a_guard_stands_beside_those_of_older_records() -> None:
    seen = measurement(1, remarks=("ALARM: an old one",), findings=(finding("acceptance_bounds", "a new one", 1),))
    assert seen.alarms == ("an old one", "a new one")


@pytest.mark.parametrize("guard", GUARDS.values(), ids=lambda guard: guard.name)
def test_every_guard_that_voids_has_a_reason_and_no_other_has_one(guard: Any) -> None:
    assert (guard.reason is not None) is (guard.effect is Effect.VOID)
    assert guard.rule
    assert guard.why


def test_only_what_another_passage_may_be_free_of_counts_as_circumstance() -> None:
    assert by_circumstance(finding("client_slow", "", 1))
    assert by_circumstance(finding("pause", "", 1))
    assert not by_circumstance(finding("answer_length", "", 1))
    assert not by_circumstance(finding("client_busy", "", 1))
    assert reason_of(finding("text", "", None)) is FailureReason.WRONG_ANSWERS
    assert str(Finding("queue", Effect.MARK, "waits", 4)) == "mark queue, level 4: waits"
