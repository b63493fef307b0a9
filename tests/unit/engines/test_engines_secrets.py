"""Which of all known flags and variables hold a secret: a new one that sounds like it must be looked at here."""

from __future__ import annotations

from autotune.domain.secrets import is_secret, names_secret
from autotune.engines.dialect.flag_table import all_variables, known_releases, table_for
from autotune.engines.dialect.variables import nccl_variables

SECRET_FLAGS = {"--admin-api-key", "--api-key", "--ssl-keyfile-password"}
SECRET_VARIABLES = {"SGLANG_DIFFUSION_SLACK_TOKEN", "SGLANG_PRECISION_HF_TOKEN", "SGLANG_S3_SECRET_ACCESS_KEY"}


def test_of_every_flag_of_every_release_these_hold_a_secret() -> None:
    flags = {spelling for release in known_releases() for spelling in table_for(release).flags}
    assert {"--speculative-token-map", "--max-total-tokens", "--tokenizer-path"} <= flags
    assert {flag for flag in flags if names_secret(flag)} == SECRET_FLAGS
    assert {flag for flag in flags if names_secret(flag.removeprefix("--"))} == SECRET_FLAGS
    assert {flag for flag in flags if names_secret(flag.removeprefix("--").replace("-", "_"))} == SECRET_FLAGS
    assert {flag for flag in flags if is_secret(flag, "word")} == SECRET_FLAGS


def test_of_every_variable_of_sglang_and_nccl_these_hold_a_secret() -> None:
    known = all_variables() | nccl_variables()
    assert {"SGLANG_INIT_NEW_TOKEN_RATIO", "NCCL_PROTO"} <= known
    assert {name for name in known if names_secret(name)} == SECRET_VARIABLES
    assert {name for name in known if is_secret(name, "word")} == SECRET_VARIABLES
