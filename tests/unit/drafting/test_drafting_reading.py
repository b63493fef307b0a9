import pytest

from autotune.drafting import read
from autotune.drafting.invocation import Invocation
from autotune.errors import AutotuneError, InputError

COMPOSE = """\
x: 1
services:
  web: {image: nginx, command: ["nginx", "-g", "daemon off;"]}
  llm:
    image: lmsysorg/sglang:v0.5.15.post1-cu130
    environment: ENVIRONMENT
    env_file: .env
    command: COMMAND
"""
MANIFEST = """\
kind: Service
spec: {ports: [{port: 80}]}
---
kind: Deployment
spec:
  template:
    spec:
      containers:
        - image: lmsysorg/sglang:v0.5.20
          command: [COMMAND]
          args:
            - ARGS
          env:
            - {name: MODEL, value: /models/x}
            - {name: NCCL_PROTO, value: LL}
            - name: HF_TOKEN
              valueFrom: {secretKeyRef: {name: a, key: b}}
"""


def words(call: Invocation) -> list[str]:
    return [word.text for word in call.words]


def environment(call: Invocation) -> dict[str, str]:
    return {name: word.text for name, word in call.environment.items()}


def command(text: str) -> Invocation:
    return read(text, "the command")


@pytest.mark.parametrize(
    ("text", "python"),
    [
        ("python3 -m sglang.launch_server --model m", "python3"),
        ("/opt/x/bin/python3.12 -u -X dev -m sglang.launch_server --model m", "/opt/x/bin/python3.12"),
        ("python sglang/launch_server.py --model m", "python"),
        ("python -m sglang.cli.main serve --model m", "python"),
        ("sglang serve --model m", "python3"),
        ("/opt/x/bin/sglang serve --model m", "/opt/x/bin/python3"),
        ("source /opt/x/bin/activate && python -m sglang.launch_server --model m", "/opt/x/bin/python3"),
        ("$ nohup python -m sglang.launch_server --model m > log 2>&1 &", "python"),
        ("numactl --cpunodebind=0 sudo -E python -m sglang.launch_server --model m", "python"),
        ("bash -lc 'cd /x && exec python -m sglang.launch_server --model m'", "python"),
        ("env -u X python -m sglang.launch_server --model m", "python"),
    ],
)
def test_the_servers_arguments_and_interpreter_are_found(text: str, python: str) -> None:
    call = command(text)
    assert words(call) == ["--model", "m"]
    assert call.python == python


@pytest.mark.parametrize(
    "text",
    [
        "A=1 B='x y' sglang serve",
        "env A=1 B='x y' sglang serve",
        "export A=1 B='x y'\nsglang serve",
        "A=1\nexport A\nexport B='x y'; sglang serve",
        "C=1\nexport A=$C B='x y'\nsglang serve",
        "export C=1 && unset C && A=1 B='x y' bash -c 'sglang serve'",
        "docker run -e A=1 --env 'B=x y' img sglang serve",
        "C=2 docker run --rm -it --gpus all -eA=1 --env='B=x y' -p 1:1 img:1 sglang serve",
        "export A=1; podman run -e A -e 'B=x y' img sglang serve",
    ],
)
def test_the_environment_is_what_reaches_the_server(text: str) -> None:
    assert environment(command(text)) == {"A": "1", "B": "x y"}


def test_a_plain_variable_of_the_shell_is_for_the_text_alone() -> None:
    call = command("MODEL=/m\nsglang serve --model-path $MODEL/x")
    assert words(call) == ["--model-path", "/m/x"]
    assert environment(call) == {}


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("lmsysorg/sglang:v0.5.15", "0.5.15"),
        ("host:5000/sglang:v0.5.15.post1-cu130", "0.5.15.post1"),
        ("lmsysorg/sglang:latest", None),
        ("lmsysorg/sglang", None),
    ],
)
def test_the_images_tag_tells_the_version(image: str, version: str | None) -> None:
    call = command(f"docker run --shm-size 32g {image} sglang serve --model m")
    assert call.image == image
    assert call.image_version == version


def test_what_a_container_does_not_get_or_does_not_say_is_told() -> None:
    call = command("NCCL_PROTO=LL docker run --env-file e -e HF_TOKEN --entrypoint sglang img serve --model m")
    told = {left.what for left in call.left}
    assert {"NCCL_PROTO", "-e HF_TOKEN", "--env-file e"} == told
    assert environment(call) == {}


def test_what_stands_around_the_server_is_kept_without_its_secrets() -> None:
    call = command("docker run --gpus all --label api_key=sk-1 -e HF_TOKEN=hf_1 -v /a:/b img sglang serve")
    assert "--gpus all" in " ".join(call.around)
    assert "sk-1" not in " ".join(call.around)
    assert "hf_1" not in " ".join(call.around)


def test_of_a_program_that_is_not_known_only_the_name_is_kept() -> None:
    call = command("sshpass -p hunter2 ssh host python -m sglang.launch_server --model m")
    assert call.around == ("sshpass",)


def test_of_another_command_beside_the_servers_only_the_name_is_told() -> None:
    call = command("X=1 huggingface-cli login --token hf_1\nsglang serve --model m")
    assert [left.what for left in call.left] == ["`huggingface-cli`"]


@pytest.mark.parametrize(
    "written",
    [
        '["sglang", "serve", "--model-path", "/m y"]',
        ">\n      sglang serve\n      --model-path '/m y'",
        "sglang serve --model-path '/m y'",
        "[sh, -c, \"sglang serve --model-path '/m y'\"]",
    ],
)
def test_compose_files_are_read(written: str) -> None:
    call = read(COMPOSE.replace("ENVIRONMENT", "[A=1, SECRET_LESS]").replace("COMMAND", written), "compose.yaml")
    assert words(call) == ["--model-path", "/m y"]
    assert environment(call) == {"A": "1"}
    assert call.image_version == "0.5.15.post1"
    assert {left.what for left in call.left} == {"SECRET_LESS", "env_file .env"}


def test_the_environment_of_compose_may_be_a_map_whose_values_stay_text() -> None:
    text = COMPOSE.replace("ENVIRONMENT", "{A: 1e3, B: on}").replace("COMMAND", "sglang serve --tp-size ${TP:-8}")
    call = read(text, "compose.yaml")
    assert environment(call) == {"A": "1e3", "B": "on"}
    assert words(call) == ["--tp-size", "8"]


@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        ("python3, -m, sglang.launch_server", '"--model-path"\n            - $(MODEL)'),
        ("sh, -c", "|\n              exec sglang serve \\\n                --model-path $(MODEL)"),
        ("/bin/bash, -c", '"sglang serve --model-path $MODEL"'),
    ],
)
def test_manifests_are_read(program: str, arguments: str) -> None:
    call = read(MANIFEST.replace("COMMAND", program).replace("ARGS", arguments), "deployment.yaml")
    assert words(call) == ["--model-path", "/models/x"]
    assert environment(call)["NCCL_PROTO"] == "LL"
    assert call.image_version == "0.5.20"
    assert [left.what for left in call.left] == ["HF_TOKEN"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "none was found"),
        ("python train.py", "none was found"),
        ("python -m sglang.bench_serving --model m", "none was found"),
        ("pkill -f sglang.launch_server", "none was found"),
        ("docker ps", "none was found"),
        ("sglang serve a; sglang serve b", "it holds 2"),
        ("services:\n  a: {command: sglang serve a}\n  b: {command: sglang serve b}", "it holds 2"),
        ("services:\n  a: {command: [sglang, serve}", "not valid YAML"),
        ('services:\n  a: {command: "sglang serve \'x"}', "every quote must be closed"),
    ],
)
def test_a_text_without_one_command_is_refused(text: str, why: str) -> None:
    with pytest.raises(AutotuneError, match=why):
        read(text, "x")


def test_shells_within_shells_have_an_end() -> None:
    text = "sglang serve m"
    for _depth in range(8):
        text = "sh -c " + "'" + text.replace("'", "'\\''") + "'"
    with pytest.raises(InputError, match="5 shells"):
        command(text)
