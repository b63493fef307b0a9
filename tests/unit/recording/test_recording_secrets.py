"""What is a secret, and that none is written."""

from __future__ import annotations

import json

import pytest
from builders import command, failure, trial

from autotune.domain.secrets import is_secret
from autotune.domain.trial import Difference, LaunchCommand, ResolvedArguments
from autotune.recording import MASK, encode_trial
from autotune.recording.secrets import mask_argv, mask_text, mask_yaml


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HF_TOKEN", "hf_abc"),
        ("AWS_SECRET_ACCESS_KEY", "abc"),
        ("DB_PASSWORD", "1234"),
        ("OPENAI_API_KEY", "sk-1"),
        ("--api-key", "abc"),
        ("--admin-api-key", "abc"),
        ("--ssl-keyfile-password", "abc"),
        ("--hf-token", "abc"),
        ("api_key", "abc"),
    ],
)
def test_names_that_make_their_value_a_secret(name: str, value: str) -> None:
    assert is_secret(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SGLANG_INIT_NEW_TOKEN_RATIO", "0.7"),
        ("TOKENIZERS_PARALLELISM", "false"),
        ("SGLANG_TOKENIZER", "/models/kimi"),
        ("speculative_num_draft_tokens", "4"),
        ("--speculative-token-map", "/maps/hot.pt"),
        ("--max-total-tokens", "auto"),
        ("NCCL_PROTO", "LL"),
        ("api_key", "None"),
        ("HF_TOKEN", ""),
    ],
)
def test_settings_that_only_sound_like_secrets_are_kept(name: str, value: str) -> None:
    assert not is_secret(name, value)


def test_both_spellings_of_an_argument_are_masked_and_the_rest_is_kept() -> None:
    argv = ("python", "--api-key", "abc", "--admin-api-key=def", "--port", "4", "--speculative-num-draft-tokens", "4")
    assert mask_argv(argv) == (
        *("python", "--api-key", MASK, f"--admin-api-key={MASK}", "--port", "4", "--speculative-num-draft-tokens", "4"),
    )


def test_an_option_without_a_value_does_not_mask_the_next_one() -> None:
    assert mask_argv(("--api-key", "--port", "4"))[-1] == "4"


def test_no_secret_of_a_trial_is_encoded_wherever_it_stands() -> None:
    key = "s3cr3t-value"
    result = trial(
        1,
        None,
        command=command(
            "--api-key",
            key,
            environment={"HF_TOKEN": key, "PATH": "/bin"},
            chosen={"HF_TOKEN": key},
        ),
        resolved=ResolvedArguments({"api_key": key, "inner": [{"admin_api_key": key}], "line": f"api_key='{key}'"}),
        differences=(Difference("api_key", key, "None"),),
        failure=failure(message=f"--api-key {key} was refused", evidence=f"ServerArgs(api_key='{key}', port=1)"),
        remarks=(f"HF_TOKEN={key} was given",),
    )
    text = json.dumps(encode_trial(result))
    assert key not in text
    assert text.count(MASK) == 10


def test_a_command_without_secrets_is_kept_as_it_ran() -> None:
    plain = command("--speculative-num-draft-tokens", "4")
    data = encode_trial(trial(0, command=plain))["command"]
    assert LaunchCommand(tuple(data["argv"]), data["environment"], data["chosen"], tuple(data["dropped"])) == plain


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("server_args=ServerArgs(api_key='k-1', port=3)", "server_args=ServerArgs(api_key='***', port=3)"),
        ('{"admin_api_key": "k \\" 1", "port": 3}', '{"admin_api_key": "***", "port": 3}'),
        ("started with --api-key k-1 --port 3", "started with --api-key *** --port 3"),
        ("HF_TOKEN=hf_1 python", "HF_TOKEN=*** python"),
    ],
)
def test_secrets_in_text_are_masked(text: str, masked: str) -> None:
    assert mask_text(text) == masked


@pytest.mark.parametrize(
    "text",
    [
        "api_key=None, admin_api_key=None, ssl_keyfile_password=None",
        '"api_key": null, "speculative_token_map": null',
        "Decode batch, #running-req: 1, #token: 109, token usage: 0.01, gen throughput (token/s): 79.1",
        "max_total_num_tokens=637129, num_tokens_per_bs=8, skip_tokenizer_init=False",
    ],
)
def test_lines_of_a_healthy_log_are_kept(text: str) -> None:
    assert mask_text(text) == text


def test_a_study_file_is_masked_and_stays_the_same_document_otherwise() -> None:
    before = (
        "engine:\n"
        "  args: {tp-size: 8, api-key: abc, admin-api-key: 'd e'}\n"
        "  env:\n"
        "    HF_TOKEN: hf_1\n"
        "parameters:\n"
        "  speculative_num_draft_tokens: [2, 4]\n"
        "  SGLANG_INIT_NEW_TOKEN_RATIO: {env: true, values: [0.5, 0.7]}\n"
    )
    after = before.replace("abc", "'***'").replace("'d e'", "'***'").replace("hf_1", "'***'")
    assert mask_yaml(before) == after
