"""What every engine must do, whichever package it comes from: run over all that are registered."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from autotune import engines
from autotune.domain.configuration import Configuration, Value
from autotune.domain.engine import Engine, LaunchSite
from autotune.domain.study import EngineSpec
from autotune.domain.trial import EngineVersion, Failure
from autotune.errors import ServingEnvironmentError

SITE = LaunchSite("127.0.0.1", 31007, "autotune-t7", "/tuner/bin/python")
VERSIONS = [EngineVersion(f"0.5.{patch}", (0, 5, patch)) for patch in (9, 12, 13, 15, 23)]
CONFIGURATIONS: list[dict[str, Value]] = [
    {},
    {"speculative_algorithm": None, "attention_backend": "triton", "cuda_graph_max_bs": 128},
    {"speculative_algorithm": "EAGLE3", "speculative_num_steps": 3, "speculative_eagle_topk": 1, "spec_v2": True},
    {
        "speculative_algorithm": "EAGLE3",
        "speculative_num_steps": 3,
        "speculative_eagle_topk": 1,
        "speculative_num_draft_tokens": 16,
        "NCCL_PROTO": "LL",
    },
    {
        "speculative_algorithm": "EAGLE3",
        "speculative_num_steps": 2,
        "speculative_eagle_topk": 4,
        "speculative_num_draft_tokens": 8,
        "spec_v2": False,
    },
    {"speculative_algorithm": "NGRAM", "speculative_num_draft_tokens": 8, "speculative_num_steps": 2, "spec_v2": False},
    {"attention_backend": "a b; rm -rf '$HOME' `x` | y > z", "NCCL_ALGO": "allreduce:tree;broadcast:ring"},
]


@pytest.fixture(params=engines.names())
def engine(request: pytest.FixtureRequest) -> Engine:
    return engines.get(request.param)


def spec(engine: Engine, **fields: object) -> EngineSpec:
    given: dict[str, object] = {
        "name": engine.name,
        "python": "/sglang/bin/python",
        "model": "/models/target",
        "args": {"tp-size": 8, "trust-remote-code": True, "speculative-draft-model-path": "/models/draft"},
        "env": {"OMP_NUM_THREADS": "1"},
        **fields,
    }
    return EngineSpec(**given)  # type: ignore[arg-type]


def test_it_is_registered_under_its_own_name(engine: Engine) -> None:
    assert engines.get(engine.name).name == engine.name
    assert isinstance(engine.simulated, bool)


def test_its_version_is_asked_of_an_interpreter_in_words_without_a_shell(engine: Engine) -> None:
    argv = engine.version_argv(spec(engine), SITE.tuner_python)
    assert isinstance(argv, tuple)
    assert all(isinstance(word, str) and word for word in argv)
    assert argv[0] in ("/sglang/bin/python", SITE.tuner_python)


@pytest.mark.parametrize("printed", ["", "garbage", '{"sglang": null}', "{" * 5000])
def test_what_names_no_version_is_refused_with_a_hint(engine: Engine, printed: str) -> None:
    with pytest.raises(ServingEnvironmentError) as caught:
        engine.parse_version(printed)
    assert caught.value.hint


def test_its_clock_never_stands_still_and_a_real_one_is_not_fast(engine: Engine) -> None:
    rate = engine.clock_rate(spec(engine))
    assert rate > 0
    assert engine.simulated or rate == 1.0


def test_an_ordinary_section_has_no_faults_and_reserved_arguments_are_faults(engine: Engine) -> None:
    assert engine.check_spec(spec(engine)) == ()
    assert len(engine.check_spec(spec(engine, args={"port": 1, "host": "::"}))) == 2


@pytest.mark.parametrize("version", VERSIONS, ids=lambda v: v.text)
@pytest.mark.parametrize("values", CONFIGURATIONS, ids=str)
def test_a_command_is_whole_words_and_the_same_for_the_canonical_form(
    engine: Engine, version: EngineVersion, values: Mapping[str, Value]
) -> None:
    configuration = Configuration(values)
    command = engine.command(spec(engine), version, configuration, SITE)
    assert all(isinstance(word, str) for word in command.argv)
    assert str(SITE.port) in command.argv
    assert SITE.served_name in command.argv
    assert "/models/target" in command.argv
    assert command.environment.items() >= command.chosen.items()
    assert all(isinstance(text, str) for pair in command.environment.items() for text in pair)
    for name, value in values.items():
        if name in ("attention_backend", "NCCL_ALGO") and isinstance(value, str):
            assert value in (*command.argv, *command.chosen.values())  # unquoted, unsplit, as it was given

    canonical = engine.canonical(spec(engine), version, configuration)
    assert engine.canonical(spec(engine), version, canonical) == canonical
    assert engine.command(spec(engine), version, canonical, SITE) == command
    assert engine.command(spec(engine), version, configuration, SITE) == command


@pytest.mark.parametrize("version", VERSIONS, ids=lambda v: v.text)
def test_nothing_is_known_against_a_plain_configuration_and_much_against_nonsense(
    engine: Engine, version: EngineVersion
) -> None:
    assert engine.problems(spec(engine), version, Configuration()) == ()
    for nonsense in ({"no_such_flag": 1}, {"attention_backend": "no such backend"}, {"tp_size": "eight"}):
        (problem,) = engine.problems(spec(engine), version, Configuration(nonsense))
        assert next(iter(nonsense)).replace("_", "-") in problem.replace("_", "-")


def test_remarks_are_lines_and_nothing_is_remarked_on_a_plain_configuration(engine: Engine) -> None:
    for version in VERSIONS:
        assert engine.remarks(spec(engine), version, Configuration({"attention_backend": "triton"})) == ()
        for values in CONFIGURATIONS:
            assert all(
                isinstance(line, str) and line for line in engine.remarks(spec(engine), version, Configuration(values))
            )


def test_a_name_that_no_version_has_is_told_without_asking_a_parser(engine: Engine) -> None:
    (told,) = engine.disproved(spec(engine), VERSIONS[0], {"no_such_flag": (1,), "attention_backend": ("triton",)}, "")
    assert "no-such-flag" in told


@pytest.mark.parametrize("printed", ["garbage", "[]", '{"sglang": "1"}', '{"sglang": "1", "version": "1", "flags": 3}'])
def test_what_is_no_answer_of_the_parser_is_refused_with_a_hint(engine: Engine, printed: str) -> None:
    argv = engine.flags_argv(spec(engine))
    assert all(isinstance(word, str) and word for word in argv)
    with pytest.raises(ServingEnvironmentError) as caught:
        engine.disproved(spec(engine), VERSIONS[0], {}, printed)
    assert caught.value.hint


def test_paths_are_paths_and_the_abort_body_is_json(engine: Engine) -> None:
    endpoints = engine.endpoints
    for path in (endpoints.health, endpoints.identity, *endpoints.server_info, endpoints.flush, endpoints.abort):
        assert path.startswith("/")
    assert endpoints.server_info
    assert endpoints.ready_line.strip()
    json.loads(endpoints.abort_body)


def test_a_request_is_json_that_carries_its_prompt_and_limits(engine: Engine) -> None:
    body = engine.wire.body("a \u2028 prompt\n", 17, temperature=0.0, ignore_eos=True, rid="r-1")
    assert isinstance(json.loads(body), dict)
    assert "a \u2028 prompt\\n" in json.dumps(json.loads(body), ensure_ascii=False)
    assert b"17" in body
    assert engine.wire.path.startswith("/")


def test_a_stream_is_read_and_what_cannot_be_read_raises_value_error(engine: Engine) -> None:
    event = engine.wire.event(
        b'{"text": "ab", "meta_info": {"completion_tokens": 2, "prompt_tokens": 5, "finish_reason": null}}'
    )
    assert (event.completion_tokens, event.prompt_tokens, event.text, event.done) == (2, 5, "ab", False)
    assert event.finish_reason is None
    assert event.verify_count is None
    assert engine.wire.event(b"[DONE]").done
    assert engine.wire.event(b'{"error": {"message": "full"}}').error
    with pytest.raises(ValueError):
        engine.wire.event(b"\x00{")


@pytest.mark.parametrize("body", ["", "null", "[]", "<html></html>", '{"message": "no"}', "\x00"])
def test_answers_that_are_no_answers_come_out_empty(engine: Engine, body: str) -> None:
    assert engine.resolved(body) is None
    assert engine.served_names(body) == ()


def test_resolved_arguments_are_compared_with_what_was_asked(engine: Engine) -> None:
    body = json.dumps({"model_path": "/models/target", "tp_size": 4, "max_running_requests": 32, "version": "0.5.9"})
    resolved = engine.resolved(body)
    assert resolved is not None
    command = engine.command(spec(engine), VERSIONS[0], Configuration(), SITE)
    shown = {difference.asked: difference.resolved for difference in engine.differences(command, resolved)}
    assert shown == {"8": "4"}
    assert engine.request_cap(resolved) == 32


@pytest.mark.parametrize("ready", [True, False])
@pytest.mark.parametrize("exit_status", [None, 0, 1, 2, 137, -9, -11, 99_999, -99_999])
@pytest.mark.parametrize(
    "log",
    [
        "",
        "\n\n\n",
        "\x00\xff\ufffd" * 100,
        "Traceback (most recent call last):\n" * 500,
        "Traceback (most recent call last):",
        "During handling of the above exception, another exception occurred:\n" * 10,
    ],
    ids=["empty", "blank", "binary", "tracebacks", "cut", "chain"],
)
def test_a_diagnosis_never_raises(engine: Engine, exit_status: int | None, log: str, ready: bool) -> None:
    failure = engine.diagnose(exit_status, log, ready=ready)
    assert isinstance(failure, Failure)
    assert failure.message
    assert failure.exit_status == exit_status


def test_a_huge_log_is_diagnosed_from_its_ends(engine: Engine) -> None:
    traffic = '[2026-11-29 15:23:05] INFO:     127.0.0.1:1 - "POST /generate HTTP/1.1" 200 OK\n' * 100_000
    died = "Scheduler hit an exception: Traceback (most recent call last):\n  File\nRuntimeError: CUDA out of memory\n"
    failure = engine.diagnose(-9, engine.endpoints.ready_line + "\n" + traffic + died, ready=True)
    assert failure.reason.word == "out_of_memory_serving"
    assert len(failure.evidence) < 2000


@pytest.mark.parametrize("log", ["", "noise", "Decode batch", "\x00\xff" * 5000, "Decode batch, " * 10_000 + "\n"])
def test_a_log_that_says_nothing_of_decode_steps_is_no_window_of_the_server(engine: Engine, log: str) -> None:
    assert engine.server_window(log) is None


def test_a_server_that_does_not_say_how_far_its_graphs_reach_has_no_ceiling(engine: Engine) -> None:
    resolved = engine.resolved('{"model_path": "m", "max_running_requests": 32}')
    assert resolved is not None
    assert engine.graph_ceiling(resolved) is None
