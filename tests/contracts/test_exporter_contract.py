"""What every export format must do, whatever it looks like."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from builders import command, provenance, study_result, trial

from autotune import exporters
from autotune.domain.study import StudyResult
from autotune.domain.trial import LaunchCommand
from autotune.errors import InputError

every_format = pytest.mark.parametrize("form", exporters.formats())
AWKWARD = "a 'b' \"c\" $HOME `id` \\ | * é;\nsecond line"


def study(launched: LaunchCommand | None, **overrides: object) -> StudyResult:
    return study_result(trial(0), trial(1, 356.6, command=launched, **overrides))


def export(form: str, result: StudyResult, **address: object) -> str:
    return exporters.render(form, result, result.trials[1], **address)  # type: ignore[arg-type]


@every_format
def test_it_carries_the_command_that_ran_under_the_address_asked_for(form: str) -> None:
    text = export(form, study(command("--enable-x")), host="0.0.0.0", port=8123)
    for word in ("/opt/sglang/bin/python", "sglang.launch_server", "/models/kimi", "--enable-x", "0.0.0.0", "8123"):
        assert word in text
    assert "kimi-eagle3" in text
    for gone in ("41234", "autotune-kimi-eagle3-t0-a1b2c3"):
        assert gone not in text


@every_format
def test_it_carries_the_chosen_environment_and_nothing_else_of_it(form: str) -> None:
    text = export(form, study(command()))
    assert "NCCL_PROTO" in text
    assert "/home/op" not in text
    assert "/usr/bin:/bin" not in text


@every_format
def test_it_says_which_study_trial_and_engine_it_comes_from(form: str) -> None:
    result = study(command())
    text = export(form, result)
    for said in ("kimi-eagle3", "sglang", "0.5.23", "356.6", result.trials[1].configuration.digest):
        assert said in text


@every_format
def test_it_shows_no_secret_and_names_what_must_be_set(form: str) -> None:
    launched = command("--api-key", "hush1", "--admin-api-key=hush2", chosen={"HF_TOKEN": "hush3", "DB_PASSWORD": "77"})
    text = export(form, study(launched))
    for secret in ("hush1", "hush2", "hush3", "77"):
        assert secret not in text
    for name in ("API_KEY", "ADMIN_API_KEY", "HF_TOKEN", "DB_PASSWORD"):
        assert "${" + name + "}" in text


@every_format
def test_a_mask_of_the_record_becomes_a_placeholder_too(form: str) -> None:
    text = export(form, study(command("--hf-token", "***", chosen={"MY_LICENCE": "***"})))
    assert "***" not in text
    assert "${HF_TOKEN}" in text
    assert "${MY_LICENCE}" in text


@every_format
def test_settings_that_only_sound_like_secrets_are_exported(form: str) -> None:
    chosen = {"SGLANG_INIT_NEW_TOKEN_RATIO": "0.7", "TOKENIZERS_PARALLELISM": "off", "X_MAX_TOKENS": "many"}
    text = export(form, study(command(chosen=chosen)))
    for value in ("0.7", "off", "many"):
        assert value in text


@every_format
def test_what_was_simulated_says_so(form: str) -> None:
    real = study(command())
    simulated = study(command(), provenance=provenance(simulated=True, clock_rate=20.0))
    assert export(form, real) != export(form, simulated)
    assert "SIMULATED" not in export(form, real)
    assert "simulated" in export(form, simulated).lower()
    assert "20" in export(form, simulated)


@every_format
def test_the_same_record_gives_the_same_text_with_one_line_break_at_its_end(form: str) -> None:
    text = export(form, study(command()))
    assert text == export(form, study(command()))
    assert text.endswith("\n")
    assert not text.endswith("\n\n")


@every_format
def test_a_trial_that_was_never_launched_cannot_be_exported(form: str) -> None:
    with pytest.raises(InputError, match="trial 1 has no launch command") as caught:
        export(form, study(None))
    assert caught.value.hint == "trials with a command: 0"


@every_format
def test_a_variable_that_no_shell_could_carry_is_refused(form: str) -> None:
    with pytest.raises(InputError, match="but got 'A; rm'"):
        export(form, study(command(chosen={"A; rm": "1"})))


def test_an_unknown_format_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match="one of shell, env, json, but got yaml"):
        export("yaml", study(command()))


def test_the_script_runs_what_ran_word_for_word(tmp_path: Path) -> None:
    show = "import json, os, sys; print(json.dumps([sys.argv[1:], {k: os.environ.get(k) for k in ('A', 'B', 'T')}]))"
    argv = (sys.executable, "-c", show, "--text", AWKWARD, "--empty", "", "--port", "1", "--host=h", "--api-key", "k")
    launched = LaunchCommand(argv, chosen={"A": AWKWARD, "SOME_TOKEN": "hush"}, dropped=("B",))
    result = study(launched)
    result = replace(result, spec=replace(result.spec, name=AWKWARD))
    script = tmp_path / "serve.sh"
    script.write_text(export("shell", result))
    outer = {"PATH": os.environ["PATH"], "B": "leaks", "T": "kept", "API_KEY": "mine", "SOME_TOKEN": "mine"}
    done = subprocess.run(["bash", script], env=outer, capture_output=True, text=True, check=True)
    words, environment = json.loads(done.stdout)
    assert words == ["--text", AWKWARD, "--empty", "", "--port", "30000", "--host=127.0.0.1", "--api-key", "mine"]
    assert environment == {"A": AWKWARD, "B": None, "T": "kept"}


def test_the_script_stops_where_a_secret_is_not_set(tmp_path: Path) -> None:
    script = tmp_path / "serve.sh"
    script.write_text(export("shell", study(LaunchCommand(("true", "--api-key", "hush")))))
    done = subprocess.run(
        ["bash", script], env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "API_KEY" in done.stderr


def test_a_shell_reads_the_environment_file_as_it_was(tmp_path: Path) -> None:
    result = study(LaunchCommand(("serve", AWKWARD), chosen={"A": AWKWARD, "B": ""}))
    file = tmp_path / "serve.env"
    file.write_text(export("env", replace(result, spec=replace(result.spec, name=AWKWARD))))
    show = (
        f'set -aeu; . "$1"; {sys.executable} -c "import json, os; print(json.dumps([os.environ[k] for k in \'AB\']))"'
    )
    done = subprocess.run(["bash", "-c", show, "bash", file], env={}, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [AWKWARD, ""]
    assert done.stderr == ""
