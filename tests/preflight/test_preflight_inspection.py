"""What `inspect` refuses, with real interpreters (scripts that answer the version probe), folders and prompt files."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import spec, workload

from autotune import engines
from autotune.domain.configuration import Configuration
from autotune.domain.space import Parameter, SearchSpace, Values
from autotune.domain.study import Budget, StudySpec
from autotune.errors import AutotuneError, InputError, ServingEnvironmentError
from autotune.preflight import Node, inspect

HEAD = {"architectures": ["LlamaForCausalLMEagle3"], "hidden_size": 64, "vocab_size": 1000}
TARGET = {"architectures": ["LlamaForCausalLM"], "hidden_size": 64, "vocab_size": 1000, "num_hidden_layers": 8}


def interpreter(path: Path, version: str | None) -> str:
    """`version` None: a Python without SGLang."""
    answer = json.dumps({"sglang": version, "python": "3.12.0", "torch": f"2.{len(path.name)}"})
    path.write_text(f"#!/bin/sh\necho '{answer}'\n")
    path.chmod(0o755)
    return str(path)


def model(path: Path, config: dict[str, Any]) -> str:
    path.mkdir()
    (path / "config.json").write_text(json.dumps(config))
    return str(path)


def prompts(path: Path, count: int) -> str:
    path.write_text("".join(json.dumps({"prompt": f"prompt {index}"}) + "\n" for index in range(count)))
    return str(path)


@pytest.fixture
def study(tmp_path: Path) -> StudySpec:
    """Everything that a study needs, on the CPU; each test takes one thing away."""
    made = spec(
        space=SearchSpace((Parameter("attention_backend", Values(("triton", "torch_native"))),)),
        baseline=Configuration({"attention_backend": "triton"}),
        workload=workload(concurrency={1: 1.0, 2: 1.0}, prompts=prompts(tmp_path / "prompts.jsonl", 100)),
        budget=Budget(trials=2),
    )
    section = replace(
        made.engine,
        python=interpreter(tmp_path / "python", "0.5.23"),
        model=model(tmp_path / "target", TARGET),
        args={"device": "cpu", "max-running-requests": 8},
    )
    return replace(made, engine=section)


def inspected(made: StudySpec) -> Node:
    return inspect(made, engines.get("sglang"), tuner_python="/tuner/python")


def with_engine(made: StudySpec, **changes: Any) -> StudySpec:
    args = {**made.engine.args, **changes.pop("args", {})}
    return replace(made, engine=replace(made.engine, args=args, **changes))


def with_draft(made: StudySpec, path: str, *algorithms: str | None) -> StudySpec:
    tree = {"speculative-num-steps": 2, "speculative-eagle-topk": 1, "speculative-draft-model-path": path}
    parameters = SearchSpace((Parameter("speculative_algorithm", Values(algorithms)),))
    return replace(
        with_engine(made, args=tree), space=parameters, baseline=Configuration({"speculative_algorithm": None})
    )


def test_a_study_that_has_all_it_needs_passes(study: StudySpec) -> None:
    node = inspected(study)
    assert node.serving.version({}).text == "0.5.23"
    assert node.serving.version({}).details["python"] == "3.12.0"
    assert node.facts
    assert node.warnings == ()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"python": None}, "engine.python must be the interpreter that has sglang"),
        ({"args": {"port": 30000}}, "engine.args.port may not be set"),
    ],
)
def test_faults_of_the_engine_section_are_told_before_anything_is_asked(
    study: StudySpec, changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        inspected(with_engine(study, **changes))


def test_an_interpreter_that_is_not_there_is_refused_with_what_to_type(study: StudySpec, tmp_path: Path) -> None:
    gone = str(tmp_path / "gone")
    with pytest.raises(ServingEnvironmentError, match=f"there is no file {gone}") as raised:
        inspected(with_engine(study, python=gone))
    assert "--set engine.python=" in raised.value.hint


@pytest.mark.parametrize(("version", "said"), [(None, "no sglang in this interpreter"), ("0.4.1", "must be 0.5.9")])
def test_an_interpreter_without_a_known_sglang_is_refused(
    study: StudySpec, tmp_path: Path, version: str | None, said: str
) -> None:
    with pytest.raises(ServingEnvironmentError, match=said):
        inspected(with_engine(study, python=interpreter(tmp_path / "other", version)))


def test_a_model_that_is_not_there_is_refused(study: StudySpec, tmp_path: Path) -> None:
    with pytest.raises(ServingEnvironmentError, match=r"engine\.model must be a model folder"):
        inspected(with_engine(study, model=str(tmp_path / "nothing")))


def test_a_server_for_gpus_is_refused_where_there_is_none(study: StudySpec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autotune.preflight.inspection.gpu_count", lambda: 0)
    with pytest.raises(ServingEnvironmentError, match="a GPU must be present") as raised:
        inspected(with_engine(study, args={"device": "cuda"}))
    assert "--engine simulated" in raised.value.hint


def test_a_baseline_that_the_version_refuses_is_refused(study: StudySpec) -> None:
    made = replace(study, baseline=Configuration({"attention_backend": "tritan"}))
    with pytest.raises(InputError, match=r"baseline: attention_backend may not be 'tritan'"):
        inspected(made)


def test_a_cap_below_the_largest_level_is_refused_with_the_arithmetic(study: StudySpec) -> None:
    with pytest.raises(InputError, match="1 < 2"):
        inspected(with_engine(study, args={"max-running-requests": 1}))


def test_too_few_prompts_are_refused_with_the_arithmetic(study: StudySpec, tmp_path: Path) -> None:
    few = replace(study.workload, prompts=prompts(tmp_path / "few.jsonl", 30))
    with pytest.raises(InputError, match=r"2 trials of 26 requests \(52\), but"):
        inspected(replace(study, workload=few))


def test_a_draft_that_fits_nothing_is_refused_with_both_values_and_files(study: StudySpec, tmp_path: Path) -> None:
    draft = model(tmp_path / "draft", {**HEAD, "hidden_size": 96})
    with pytest.raises(InputError) as raised:
        inspected(with_draft(study, draft, None, "EAGLE3"))
    assert raised.value.exit_code == AutotuneError.exit_code + 1
    assert "96 != 64" in raised.value.message
    assert f"{draft}/config.json" in raised.value.message
    assert f"{study.engine.model}/config.json" in raised.value.message


def test_a_draft_that_may_not_fit_is_warned_of(study: StudySpec, tmp_path: Path) -> None:
    draft = model(tmp_path / "draft", {**HEAD, "vocab_size": 1024})
    (warning,) = inspected(with_draft(study, draft, None, "EAGLE3")).warnings
    assert "1024 != 1000" in warning


def two(study: StudySpec, tmp_path: Path, other: str | None) -> StudySpec:
    pythons = (interpreter(tmp_path / "a", "0.5.15.post1"), interpreter(tmp_path / "bb", other))
    searched = SearchSpace((Parameter("engine_python", Values(pythons)), *study.space.parameters))
    baseline = study.baseline.replace(engine_python=pythons[0])
    return replace(with_engine(study, python=pythons[0], pythons=pythons), space=searched, baseline=baseline)


def test_each_of_two_interpreters_is_asked_for_its_version(study: StudySpec, tmp_path: Path) -> None:
    made = two(study, tmp_path, "0.5.23")
    serving = inspected(made).serving
    versions = [serving.version({"engine_python": python}) for python in made.engine.pythons]
    assert [version.text for version in versions] == ["0.5.15.post1", "0.5.23"]
    assert [version.details["torch"] for version in versions] == ["2.1", "2.2"]


def test_the_interpreter_that_cannot_serve_is_named(study: StudySpec, tmp_path: Path) -> None:
    with pytest.raises(ServingEnvironmentError, match=f"engine.python {tmp_path / 'bb'}: no sglang"):
        inspected(two(study, tmp_path, None))
