"""Which names make what stands under them a secret."""

from __future__ import annotations

import pytest

from autotune.domain.secrets import is_secret, names_secret


@pytest.mark.parametrize(
    "name",
    [
        *("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_2", "GITHUB_TOKEN_OF_CI", "accessToken", "--hf-token"),
        *("OPENAI_API_KEY", "api-key", "--admin-api-key", "admin_api_key", "apiKey"),
        *("DB_PASSWORD", "db_password", "MYSQL_PASSWD", "ssl-keyfile-password"),
        *("AWS_SECRET_ACCESS_KEY", "CLIENT_SECRET", "secret"),
    ],
)
def test_a_name_that_makes_a_secret(name: str) -> None:
    assert names_secret(name)
    assert is_secret(name, "s3cret")


@pytest.mark.parametrize(
    "name",
    [
        *("max-total-tokens", "speculative_num_draft_tokens", "SOME_MAX_TOKENS"),
        *("TOKENIZERS_PARALLELISM", "tokenizer-path", "SGLANG_PATCH_TOKENIZER"),
        *("SGLANG_INIT_NEW_TOKEN_RATIO", "NEW_TOKEN_RATIO", "MY_TOKEN_LIMIT"),
        *("speculative-token-map", "bucket-time-to-first-token", "SGLANG_USE_AITER_FP8_PER_TOKEN", "eos_token"),
        *("SGLANG_SIMULATE_ACC_TOKEN_MODE", "HF_TOKEN_PATH", "PGPASSFILE", "DB_PASSWORD_FILE", "ssl-keyfile"),
        *("CUDA_VISIBLE_DEVICES", "AWS_ACCESS_KEY_ID", ""),
    ],
)
def test_a_name_that_only_sounds_like_a_secret(name: str) -> None:
    assert not names_secret(name)
    assert not is_secret(name, "word")


@pytest.mark.parametrize("value", ["", " ", "None", "null", "unset", "***"])
def test_nothing_under_a_secret_name_is_no_secret(value: str) -> None:
    assert not is_secret("api_key", value)


def test_a_number_under_a_token_name_is_a_setting_but_under_a_password_s_it_is_one() -> None:
    assert not is_secret("TOKEN_FACTOR", "0.7")
    assert not is_secret("SEND_TOKEN", "true")
    assert is_secret("TOKEN_FACTOR", "0.7a")
    assert is_secret("DB_PASSWORD", "1234")
