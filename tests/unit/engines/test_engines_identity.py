"""When two servers are one: what they run with, without what every start has of its own."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autotune.domain.trial import LaunchCommand, ResolvedArguments
from autotune.engines.dialect import info

SAMPLES = Path(__file__).parent / "samples"
PROGRAM = ("/opt/sglang/bin/python", "-m", "sglang.launch_server")


def answer(name: str = "server_info_eagle3_0_5_15", **changes: Any) -> ResolvedArguments:
    found = info.resolved((SAMPLES / f"{name}.json").read_text())
    assert found is not None
    return replace(found, values={**found.values, **changes})


def command(*words: str, python: str = PROGRAM[0], **chosen: str) -> LaunchCommand:
    argv = (python, *PROGRAM[1:], "--port", "31000", "--served-model-name", "t0", *words)
    return LaunchCommand(argv, {"PATH": "/bin", **chosen}, chosen)


FIRST = info.resolved_identity(command(), answer())


def test_another_start_of_the_same_server_is_the_same() -> None:
    started_again = answer(
        port=1,
        host="::",
        served_model_name="t7",
        random_seed=5,
        nccl_port=9,
        max_total_num_tokens=77,
        max_req_input_len=76,
        **{"internal.last_gen_throughput": 1.0, "internal.memory_usage.graph": 0.1, "startup_time.load_weight": 3.2},
    )
    other = LaunchCommand((*PROGRAM, "--port", "32000", "--served-model-name", "t7"), {"PATH": "/other"})
    assert info.resolved_identity(other, started_again) == FIRST


@pytest.mark.parametrize(
    "changed",
    [
        {"attention_backend": "another"},
        {"max_running_requests": 7},
        {"speculative_num_steps": 9},
        {"mem_fraction_static": 0.5},
        {"log_level": "debug"},
    ],
    ids=str,
)
def test_another_resolved_value_is_another_server(changed: dict[str, Any]) -> None:
    assert info.resolved_identity(command(), answer(**changed)) != FIRST


def test_another_environment_interpreter_or_version_is_another_server() -> None:
    others = [
        info.resolved_identity(command(NCCL_PROTO="LL"), answer()),
        info.resolved_identity(command(NCCL_PROTO="Simple"), answer()),
        info.resolved_identity(command(SGLANG_SET_CPU_AFFINITY="1"), answer()),
        info.resolved_identity(command(python="/opt/other/bin/python"), answer()),
        info.resolved_identity(command(), replace(answer(), version="0.5.99")),
    ]
    assert len({FIRST, *others}) == 6


def test_asked_two_ways_and_resolved_to_one_is_the_same_server() -> None:
    """A graph ceiling that was asked and the same one by default differ only in the argument as it was given."""
    asked = command("--cuda-graph-max-bs-decode", "128")
    config = {"cuda_graph_config.decode.max_bs": 128}
    given = info.resolved_identity(asked, answer(**config, cuda_graph_max_bs_decode=128))
    default = info.resolved_identity(command(), answer(**config, cuda_graph_max_bs_decode=None))
    assert given == default


def test_an_argument_that_the_server_does_not_report_counts_as_it_was_asked() -> None:
    one = info.resolved_identity(command("--some-new-flag", "1"), answer())
    assert one != FIRST
    assert one != info.resolved_identity(command("--some-new-flag", "2"), answer())


def test_a_seed_counts_only_where_it_was_asked() -> None:
    seeded = [info.resolved_identity(command("--random-seed", seed), answer(random_seed=int(seed))) for seed in "12"]
    assert len({*seeded, FIRST}) == 3


def test_the_drafts_arguments_are_nothing_where_nothing_is_drafted() -> None:
    plain = answer("server_info_plain_0_5_15", speculative_algorithm=None)
    drafted = replace(plain, values={**plain.values, "speculative_draft_model_path": "/models/draft"})
    fixed = command("--speculative-draft-model-path", "/models/draft")
    assert info.resolved_identity(fixed, drafted) == info.resolved_identity(command(), plain)


def test_secrets_do_not_enter_the_digest() -> None:
    one, other = (command("--api-key", key, HF_TOKEN=key) for key in ("hf_abcdef", "hf_uvwxyz"))
    assert info.resolved_identity(one, answer()) == info.resolved_identity(other, answer())


def test_an_answer_of_odd_values_has_an_identity_all_the_same() -> None:
    odd = ResolvedArguments(json.loads('{"model_path": "m", "x": [1, {"y": null}], "z": 1e309}'))
    assert len(info.resolved_identity(command(), odd)) == 16


def test_what_a_server_was_told_to_pretend_is_named() -> None:
    pretending = command(SGLANG_SIMULATE_ACC_LEN="2.0", NCCL_PROTO="LL")
    assert info.pretences(pretending) == ("SGLANG_SIMULATE_ACC_LEN=2.0",)
    assert info.pretences(command(NCCL_PROTO="LL")) == ()
