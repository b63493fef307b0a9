"""A secret is refused by its name wherever a name may stand, and its value is not shown."""

import pytest

from autotune import spacefile
from autotune.errors import SpaceFileError

FILE = """\
study: secrets
engine: {name: sglang, model: /models/m, args: {ARGS}, env: {ENV}}
parameters: {PARAMETERS}
baseline: {BASELINE}
workload: {concurrency: {1: 1}}
budget: {trials: 3}
"""


def written(**sections):
    text = FILE
    for name in ("ARGS", "ENV", "PARAMETERS", "BASELINE"):
        text = text.replace(f"{{{name}}}", "{" + sections.get(name.lower(), "") + "}")
    return text


def refused(**sections):
    with pytest.raises(SpaceFileError) as raised:
        spacefile.load_text(written(**sections), "s.yaml")
    (fault,) = raised.value.faults
    return str(fault)


@pytest.mark.parametrize("name", ["HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "db_password", "OPENAI_API_KEY"])
def test_a_secret_in_the_environment_is_refused_and_not_shown(name):
    told = refused(env=f"{name}: hunter2")
    assert told.startswith(f"s.yaml:2:58: `{name}` looks like a secret")
    assert "hunter2" not in told


@pytest.mark.parametrize("name", ["api-key", "admin-api-key", "ssl-keyfile-password"])
def test_a_secret_among_the_arguments_is_refused_and_not_shown(name):
    told = refused(args=f"{name}: hunter2")
    assert f"`{name}` looks like a secret" in told
    assert "hunter2" not in told


def test_a_secret_that_is_searched_or_in_the_baseline_is_refused():
    assert "`HF_TOKEN` looks like a secret" in refused(parameters="HF_TOKEN: {values: [a, b], env: true}")
    assert "`api_key` looks like a secret" in refused(baseline="api_key: hunter2")


@pytest.mark.parametrize(
    "name", ["TOKENIZERS_PARALLELISM", "SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION", "SGLANG_INIT_NEW_TOKEN_RATIO"]
)
def test_a_variable_about_the_tokens_of_a_model_is_no_secret(name):
    assert spacefile.load_text(written(env=f"{name}: 1"), "s.yaml").engine.env == {name: "1"}


@pytest.mark.parametrize("name", ["speculative-token-map", "max-total-tokens", "tokenizer-path"])
def test_an_argument_about_the_tokens_of_a_model_is_no_secret(name):
    assert spacefile.load_text(written(args=f"{name}: some"), "s.yaml").engine.args == {name: "some"}


def test_a_searched_map_of_tokens_is_no_secret():
    spec = spacefile.load_text(written(parameters="speculative_token_map: [/maps/a.pt, /maps/b.pt]"), "s.yaml")
    assert [parameter.name for parameter in spec.space.parameters] == ["speculative_token_map"]


@pytest.mark.parametrize(
    ("override", "shown"),
    [
        ("engine.args.api-key=hunter2", "--set engine.args.api-key=..."),
        ("parameters.HF_TOKEN={values: [hunter2], env: true}", "--set parameters.HF_TOKEN=..."),
        ("parameters.HF_TOKEN.values=[hunter2]", "--set parameters.HF_TOKEN.values=..."),
    ],
)
def test_no_secret_of_an_override_is_shown(override, shown):
    with pytest.raises(SpaceFileError) as raised:
        spacefile.load_text(written(parameters="tp_size: [1, 2]"), "s.yaml", overrides=(override,))
    told = str(raised.value)
    assert shown in told
    assert "hunter2" not in told
