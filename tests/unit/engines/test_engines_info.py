from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from autotune.domain.trial import Difference, LaunchCommand, ResolvedArguments
from autotune.engines.dialect.info import differences, request_cap, resolved, served_names


def read(body: str) -> ResolvedArguments:
    answer = resolved(body)
    assert answer is not None
    return answer


def asked(words: str, chosen: Mapping[str, str] | None = None) -> LaunchCommand:
    return LaunchCommand(("/sglang/bin/python", "-m", "sglang.launch_server", *words.split()), {}, chosen or {})


def answer(**values: Any) -> ResolvedArguments:
    return ResolvedArguments(values, "0.5.23")


def test_the_served_name_of_a_real_answer(sample: Callable[[str], str]) -> None:
    assert served_names(sample("models_0_5_23.json")) == ("autotune-t7",)


@pytest.mark.parametrize("body", ["", "<html>", "[]", "{}", '{"data": 3}', '{"data": [3, {"name": "x"}]}'])
def test_names_that_cannot_be_read_are_none_at_all(body: str) -> None:
    assert served_names(body) == ()


def test_a_real_answer_comes_out_flat_with_the_schedulers_own_figures(sample: Callable[[str], str]) -> None:
    answer = read(sample("server_info_eagle3_0_5_15.json"))
    assert answer.version == "0.5.15.post1"
    assert answer.values["speculative_algorithm"] == "EAGLE3"
    assert answer.values["attention_backend"] == "fa3"
    assert answer.values["cuda_graph_config.decode.max_bs"] == 128
    assert answer.values["internal.avg_spec_accept_length"] == pytest.approx(2.93881453)
    assert answer.values["internal.memory_usage.token_capacity"] == 627697
    assert "internal_states" not in answer.values


def test_an_accept_length_that_is_not_reported_is_absent(sample: Callable[[str], str]) -> None:
    assert "internal.avg_spec_accept_length" not in read(sample("server_info_plain_0_5_15.json")).values


def test_no_secret_is_kept_not_even_inside_the_launch_command(sample: Callable[[str], str]) -> None:
    body = sample("server_info_cpu_0_5_23.json")
    assert body.count("not-a-real-key") == 3  # as api_key, of the scheduler too, and in launch_command
    kept = read(body).values
    assert "not-a-real-key" not in json.dumps(dict(kept))
    assert {"tokenizer_path", "ssl_keyfile", "max_total_tokens"} <= set(kept)
    assert not {"api_key", "admin_api_key", "watermark_key", "ssl_keyfile_password"} & set(kept)


@pytest.mark.parametrize("body", ["", "nonsense", "[]", "null", '{"detail": "Not Found"}', "[" * 100_000])
def test_what_is_no_answer_of_server_info_is_none(body: str) -> None:
    assert resolved(body) is None


def test_the_request_cap_is_the_smaller_of_asked_and_effective(sample: Callable[[str], str]) -> None:
    assert request_cap(read(sample("server_info_eagle3_0_5_15.json"))) == 128
    assert request_cap(read(sample("server_info_cpu_0_5_23.json"))) == 48
    effective = {"internal.effective_max_running_requests_per_dp": 20}
    assert request_cap(ResolvedArguments({"max_running_requests": 128, "dp_size": 4, **effective})) == 80
    assert request_cap(ResolvedArguments({"max_running_requests": 64, "dp_size": 4, **effective})) == 64
    assert request_cap(ResolvedArguments(effective)) == 20
    assert request_cap(ResolvedArguments({"max_running_requests": None})) is None


def test_a_server_that_runs_what_was_asked_differs_in_nothing(sample: Callable[[str], str]) -> None:
    command = asked(
        "--model-path /other --host 0.0.0.0 --port 1 --served-model-name n --mem-fraction-static 0.30 "
        "--max-running-requests 128 --cuda-graph-max-bs-decode 128 --speculative-algorithm EAGLE3 "
        "--speculative-draft-model /models/draft --speculative-num-steps 3 --speculative-eagle-topk 1 "
        "--speculative-num-draft-tokens 4"
    )
    assert differences(command, read(sample("server_info_eagle3_0_5_15.json"))) == ()


def test_real_rewrites_are_shown(sample: Callable[[str], str]) -> None:
    """A CPU server: no graphs, no overlap, and the cap that speculation brings."""
    command = asked(
        "--speculative-algorithm EAGLE3 --speculative-num-steps 2 --speculative-eagle-topk 2 "
        "--speculative-num-draft-tokens 4 --cuda-graph-max-bs-decode 16"
    )
    assert differences(command, read(sample("server_info_cpu_0_5_23.json"))) == (
        Difference("cuda_graph_max_bs_decode", "16", "graphs disabled"),
        Difference("max_running_requests", "unset", "48"),
        Difference("disable_overlap_schedule", "unset", "true"),
    )


@pytest.mark.parametrize(
    ("words", "values", "expected"),
    [
        ("--page-size 1", {"page_size": 64}, [("page_size", "1", "64")]),
        ("--tensor-parallel-size 8", {"tp_size": 4}, [("tp_size", "8", "4")]),
        ("--trust-remote-code", {"trust_remote_code": True}, []),
        ("--trust-remote-code", {"trust_remote_code": False}, [("trust_remote_code", "true", "false")]),
        ("--kv-cache-dtype auto", {"kv_cache_dtype": None}, [("kv_cache_dtype", "auto", "unset")]),
        ("--context-length 8k", {"context_length": 8000}, []),
        ("--context-length 8Ki", {"context_length": 8192}, []),
        ("--chunked-prefill-size -1", {"chunked_prefill_size": -1}, []),
        ("--cuda-graph-bs-decode 1 2", {"cuda_graph_config.decode.bs": [1, 2]}, []),
        (
            "--cuda-graph-bs-decode 1 2",
            {"cuda_graph_config.decode.bs": [1, 2, 4]},
            [("cuda_graph_bs_decode", "1 2", "1 2 4")],
        ),
        ("--fp8-gemm-backend auto", {"fp8_gemm_runner_backend": "triton"}, [("fp8_gemm_backend", "auto", "triton")]),
        ("--speculative-algorithm eagle3", {"speculative_algorithm": "EAGLE3"}, []),
        ("--page-size 1", {}, []),
    ],
)  # fmt: skip
def test_each_kind_of_value_is_compared_as_what_it_is(
    words: str, values: Mapping[str, Any], expected: list[tuple[str, str, str]]
) -> None:
    assert differences(asked(words), answer(**values)) == tuple(Difference(*item) for item in expected)


def test_the_cap_of_48_is_shown_only_where_speculation_brought_it() -> None:
    capped = {"max_running_requests": 48, "speculative_algorithm": "EAGLE3"}
    assert [d.argument for d in differences(asked(""), answer(**capped))] == ["max_running_requests"]
    assert differences(asked("--max-running-requests 48"), answer(**capped)) == ()
    assert differences(asked(""), answer(max_running_requests=48, speculative_algorithm=None)) == ()


def test_spec_v2_that_did_not_come_about_is_shown() -> None:
    values = {"speculative_algorithm": "EAGLE3", "disable_overlap_schedule": True, "max_running_requests": 64}
    old = ResolvedArguments(values, "0.5.9")
    assert differences(asked(""), old) == ()  # off is the default there
    assert differences(asked("", {"SGLANG_ENABLE_SPEC_V2": "False"}), old) == ()
    (shown,) = differences(asked("", {"SGLANG_ENABLE_SPEC_V2": "True"}), old)
    assert shown == Difference("disable_overlap_schedule", "unset", "true")
