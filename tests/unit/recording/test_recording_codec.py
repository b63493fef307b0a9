"""A trial's result as data and back: every field, strictly."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from builders import (
    command,
    configuration,
    eagle,
    estimate,
    failure,
    measurement,
    percentiles,
    provenance,
    score,
    trial,
)

from autotune.domain.confirmation import Replicate
from autotune.domain.finding import Effect, Finding, ServerWindow
from autotune.domain.measurement import ClientHealth
from autotune.domain.pruning import Bound
from autotune.domain.slo import SloCheck
from autotune.domain.trial import (
    Difference,
    FailureReason,
    Origin,
    ResolvedArguments,
    TrialResult,
    TrialState,
)
from autotune.errors import RunFolderError
from autotune.recording import decode_trial, encode_trial


def through_json(result: TrialResult) -> TrialResult:
    return decode_trial(json.loads(json.dumps(encode_trial(result), allow_nan=False)))


def full_trial() -> TrialResult:
    """No field of it, at any depth, has its default."""
    seen = measurement(
        10,
        accept_length=2.31,
        client=ClientHealth(lag_p99_s=0.0004, cpu_share=0.21),
        ttft_ms=percentiles(81.25, count=59, p95_interval=(80.5, None)),
        good_share=estimate(0.95, 0.03),
        goodput=estimate(0.9, 0.05),
        remarks=("the client lagged",),
        findings=(Finding("eager_steps", Effect.MARK, "31% ran eager", 10, {"eager_share": 0.31}),),
        server=ServerWindow(17, 9.5, 10.0, 0.25, 0.31, 2.3),
        looping_share=0.125,
        answer_tokens=64.0,
    )
    return trial(
        7,
        configuration=eagle(NCCL_PROTO=None, fraction=0.875, spec_v2=False),
        origin=Origin.SAMPLER,
        state=TrialState.INFEASIBLE,
        command=command("--mem-fraction-static", "0.8"),
        resolved=ResolvedArguments({"tp_size": 8, "nested": {"a": [1, 2.5, None, "x"]}, "flag": True}, "0.5.23"),
        differences=(Difference("max_running_requests", "256", "48"),),
        measurements=(seen, measurement(30, None)),
        score=score(340.25, 1.5),
        failure=failure(exit_status=-9),
        attempts=2,
        provenance=provenance(simulated=True, clock_rate=60.0),
        remarks=("retried once",),
        resolved_identity="0123456789abcdef",
        duplicate_of=3,
        proof={"set.NCCL_PROTO": "LL", "allreduce_us.8192": "9.10"},
        pretences=("SGLANG_SIMULATE_ACC_LEN=2.0",),
        findings=(Finding("text", Effect.VOID, "other text", None, {"early_share": 1.0}),),
        slo=(SloCheck("ttft_p95_ms", 10, 80.0, 82.5, 0.03125, 59, 81.0, None),),
        replicate=Replicate(None, 2, 6, (7, 9)),
        bound=Bound("weighted_speedup", 0.81, estimate(1.12, 0.02), 5, (64, 16), {1: 92.5}),
    )


def test_a_trial_survives_the_round_trip_with_every_field() -> None:
    assert through_json(full_trial()) == full_trial()


def test_the_round_trip_of_the_full_trial_covers_every_field_of_a_trial() -> None:
    defaults = {
        field.name: field.default
        for field in dataclasses.fields(TrialResult)
        if field.default is not dataclasses.MISSING
    }
    assert [name for name, default in defaults.items() if getattr(full_trial(), name) == default] == []


def test_a_trial_that_failed_before_launch_survives_with_its_nones() -> None:
    bare = TrialResult(
        number=3,
        configuration=configuration(),
        origin=Origin.GREEDY,
        state=TrialState.FAILED,
        started_at="2026-01-01T00:00:00Z",
        node_seconds=0.25,
    )
    assert through_json(bare) == bare


def test_types_inside_a_configuration_survive() -> None:
    values = {"a": 1, "b": 1.0, "c": True, "d": "1", "e": None}
    restored = through_json(trial(configuration=configuration().replace(**values))).configuration
    assert {name: (type(restored[name]), restored[name]) for name in values} == {
        name: (type(value), value) for name, value in values.items()
    }


def test_weights_by_level_come_back_with_whole_numbers_as_keys() -> None:
    restored = through_json(trial(0))
    assert restored.score is not None
    assert list(restored.score.per_level) == [1, 10]


@pytest.mark.parametrize("reason", FailureReason)
def test_every_failure_reason_is_written_by_its_word(reason: FailureReason) -> None:
    data = encode_trial(trial(1, None, failure=failure(reason=reason)))
    assert data["failure"]["reason"] == reason.word
    assert decode_trial(data).failure == failure(reason=reason)


def test_states_and_origins_are_written_by_their_words() -> None:
    data = encode_trial(trial(1, origin=Origin.KNOWN_GOOD, state=TrialState.INTERRUPTED))
    assert (data["origin"], data["state"], data["schema_version"]) == ("known_good", "interrupted", 1)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_a_figure_that_is_not_finite_is_refused_with_its_place(number: float) -> None:
    with pytest.raises(ValueError, match=r"trial\.measurements\[1\]\.per_request_rate must be a finite number"):
        encode_trial(trial(1, measurements=(measurement(1), measurement(10, per_request_rate=number))))


def test_a_number_of_the_servers_own_that_is_not_finite_is_kept_as_text() -> None:
    data = encode_trial(trial(1, resolved=ResolvedArguments({"limits": [float("inf"), 1.5]})))
    assert data["resolved"]["values"] == {"limits": ["inf", 1.5]}


def test_a_newer_schema_is_refused_and_says_so() -> None:
    with pytest.raises(RunFolderError, match="reads trials of schema 1, but got schema 2") as caught:
        decode_trial({**encode_trial(trial()), "schema_version": 2})
    assert "newer autotune" in caught.value.hint


def test_a_field_that_an_older_record_lacks_takes_its_default() -> None:
    data = encode_trial(trial(0))
    del data["attempts"]
    assert decode_trial(data).attempts == 1


def broken(**changes: Any) -> dict[str, Any]:
    return {**encode_trial(trial(0)), **changes}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (broken(schema_version=None), "must state its schema_version"),
        (broken(surprise=1), "no other fields than a TrialResult, but got surprise"),
        (broken(state="done"), r"trial\.state must be one of complete, pruned, infeasible, failed, interrupted"),
        (broken(number="0"), r"trial\.number must be int, but got '0'"),
        (broken(node_seconds=True), r"trial\.node_seconds must be int or float, but got True"),
        (broken(measurements={}), r"trial\.measurements must be list"),
        (broken(configuration={"a": [1]}), r"trial\.configuration\.a must be"),
        (broken(score={"metric": "m"}), r"trial\.score must have estimate"),
        (
            broken(score={"metric": "m", "estimate": {"value": 1.0}, "per_level": {"ten": 1.0}}),
            r"trial\.score\.per_level must be a level, such as 16 or 4 req/s, but got 'ten'",
        ),
        ({"schema_version": 1}, "must have configuration, node_seconds, number, origin, started_at, state"),
    ],
)
def test_data_that_no_trial_can_have_written_is_refused_with_its_place(data: dict[str, Any], message: str) -> None:
    with pytest.raises(RunFolderError, match=message):
        decode_trial(data)
