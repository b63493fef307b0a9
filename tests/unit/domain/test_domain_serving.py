from dataclasses import replace

import pytest
from builders import spec

from autotune import engines
from autotune.domain.configuration import Configuration
from autotune.domain.engine import LaunchSite
from autotune.domain.models import ModelFiles
from autotune.domain.serving import Serving
from autotune.domain.trial import EngineVersion

OLD, NEW = "/opt/old/bin/python", "/opt/new/bin/python"
VERSIONS = {OLD: EngineVersion("0.5.9", (0, 5, 9)), NEW: EngineVersion("0.5.23", (0, 5, 23))}
SITE = LaunchSite("127.0.0.1", 4000, "name", "/tuner/python")
TARGET = ModelFiles("/m/target", {"architectures": ["LlamaForCausalLM"], "hidden_size": 64, "vocab_size": 10})
HEAD = {"architectures": ["LlamaForCausalLMEagle3"], "hidden_size": 64, "vocab_size": 10}


def two() -> Serving:
    section = replace(spec().engine, python=OLD, pythons=(OLD, NEW))
    return Serving(engines.get("sglang"), section, VERSIONS)


def one(**models: ModelFiles) -> Serving:
    section = replace(spec().engine, python=NEW, model="/m/target", args={"speculative-draft-model-path": "/m/draft"})
    files = {files.path: files for files in models.values()}
    return Serving(engines.get("sglang"), section, {NEW: VERSIONS[NEW]}, files)


def on(python: str, **values: object) -> Configuration:
    return Configuration({"engine_python": python, "cuda_graph_max_bs": 64, **values})  # type: ignore[dict-item]


def eagle(algorithm: str = "EAGLE3") -> Configuration:
    tree = {"speculative_num_steps": 2, "speculative_eagle_topk": 1}
    return Configuration({"speculative_algorithm": algorithm, **tree})


@pytest.mark.parametrize(("python", "flag"), [(OLD, "--cuda-graph-max-bs"), (NEW, "--cuda-graph-max-bs-decode")])
def test_the_command_is_that_of_the_configuration_s_own_interpreter_and_version(python: str, flag: str) -> None:
    argv = two().command(on(python), SITE).argv
    assert argv[0] == python
    assert argv[argv.index(flag) + 1] == "64"
    assert not any("engine" in word and "python" in word for word in argv[1:])


def test_what_one_version_lacks_is_refused_on_that_interpreter_alone() -> None:
    serving = two()
    asked = {"speculative_algorithm": "DFLASH", "speculative_draft_model_path": "/m/draft"}
    assert any("DFLASH" in problem for problem in serving.problems(on(OLD, **asked)))
    assert not any("DFLASH" in problem for problem in serving.problems(on(NEW, **asked)))


def test_no_engine_takes_the_interpreter_for_a_flag() -> None:
    assert two().problems(on(NEW)) == ()


def test_the_canonical_form_keeps_the_interpreter() -> None:
    dead = {"speculative_algorithm": None, "speculative_num_steps": 3}
    canonical = two().canonical(on(NEW, **dead))
    assert canonical["engine_python"] == NEW
    assert "speculative_num_steps" not in canonical
    assert canonical != two().canonical(on(OLD, **dead))


def test_each_configuration_has_the_version_of_its_interpreter() -> None:
    assert [two().version(on(python)).text for python in (OLD, NEW)] == ["0.5.9", "0.5.23"]
    assert two().version({}).text == "0.5.9"


def test_an_engine_without_an_interpreter_has_one_version() -> None:
    section = replace(spec().engine, name="simulated", python=None)
    serving = Serving(engines.get("simulated"), section, {"": VERSIONS[OLD]})
    assert serving.version(Configuration({})).text == "0.5.9"


def test_a_certain_misfit_is_a_problem_of_the_configurations_that_have_it() -> None:
    serving = one(target=TARGET, draft=ModelFiles("/m/draft", HEAD))
    (problem,) = serving.problems(eagle("EAGLE"))
    assert "takes an EAGLE head" in problem
    assert serving.problems(eagle("EAGLE3")) == ()
    assert serving.problems(Configuration({"speculative_algorithm": None})) == ()


def test_an_uncertain_misfit_is_no_problem() -> None:
    serving = one(target=TARGET, draft=ModelFiles("/m/draft", {**HEAD, "vocab_size": 12}))
    assert serving.problems(eagle()) == ()
    (misfit,) = serving.misfits(eagle())
    assert not misfit.certain
    assert "12 != 10" in misfit.text


@pytest.mark.parametrize(
    "known", [{}, {"target": TARGET}, {"draft": ModelFiles("/m/draft", {**HEAD, "hidden_size": 1})}]
)
def test_without_the_files_of_both_nothing_is_said(known: dict[str, ModelFiles]) -> None:
    assert one(**known).misfits(eagle()) == ()
