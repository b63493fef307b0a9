from dataclasses import replace
from typing import Any

import pytest
from builders import spec

from autotune import engines
from autotune.domain.configuration import Configuration
from autotune.domain.models import ModelFiles
from autotune.domain.serving import Serving
from autotune.domain.space import Parameter, SearchSpace, Values
from autotune.domain.study import StudySpec
from autotune.domain.trial import EngineVersion
from autotune.errors import InputError
from autotune.preflight import count, draft_warnings, refuse_impossible, refuse_misfits

PYTHON = "/opt/sglang/bin/python"
TREE = {"speculative-num-steps": 2, "speculative-eagle-topk": 1, "max-running-requests": 64}
TARGET = {"architectures": ["LlamaForCausalLM"], "hidden_size": 64, "vocab_size": 1000, "num_hidden_layers": 8}
HEAD = {"architectures": ["LlamaForCausalLMEagle3"], "hidden_size": 64, "vocab_size": 1000}


def study(*algorithms: str | None, baseline: str | None = None, **args: Any) -> StudySpec:
    section = replace(
        spec().engine, model="/m/target", args={**TREE, "speculative-draft-model-path": "/m/draft", **args}
    )
    return spec(
        engine=section,
        space=SearchSpace((Parameter("speculative_algorithm", Values(algorithms)),)),
        baseline=Configuration({"speculative_algorithm": baseline}),
    )


def serving(made: StudySpec, draft: dict[str, Any] | None = None, **more: Any) -> Serving:
    files = {"/m/target": ModelFiles("/m/target", TARGET)}
    if draft is not None:
        files["/m/draft"] = ModelFiles("/m/draft", draft, **more)
    return Serving(engines.get("sglang"), made.engine, {PYTHON: EngineVersion("0.5.23", (0, 5, 23))}, files)


def test_a_space_whose_every_draft_is_wrong_is_refused_with_each_reason_once() -> None:
    made = study(None, "EAGLE", "EAGLE3")
    with pytest.raises(InputError) as raised:
        refuse_misfits(made, serving(made, {**HEAD, "hidden_size": 96}))
    assert raised.value.exit_code == 2
    assert raised.value.message.count("96 != 64") == 1
    assert "takes an EAGLE head" in raised.value.message
    assert "speculative-draft-model-path" in raised.value.hint


def test_a_space_in_which_one_algorithm_fits_goes_on_without_the_other() -> None:
    made = study(None, "EAGLE", "EAGLE3")
    served = serving(made, HEAD)
    refuse_misfits(made, served)
    (warning,) = draft_warnings(made, served)
    assert warning.startswith("left out of the space: speculative_algorithm EAGLE takes")
    counted = count(made, served)
    assert (counted.combinations, counted.valid) == (3, 2)
    assert any("takes an EAGLE head" in rule for rule in counted.refused)


def test_a_baseline_with_a_draft_that_cannot_work_is_refused() -> None:
    made = study(None, "EAGLE", "EAGLE3", baseline="EAGLE")
    with pytest.raises(InputError, match="baseline: speculative_algorithm EAGLE takes"):
        refuse_impossible(made, serving(made, HEAD))


def test_what_may_be_wrong_is_warned_of_once() -> None:
    made = study(None, "EAGLE3", quantization="fp8")
    served = serving(made, HEAD)
    refuse_misfits(made, served)
    (warning,) = draft_warnings(made, served)
    assert "unquant" in warning


@pytest.mark.parametrize("algorithms", [(None,), (None, "NGRAM")])
def test_a_space_without_drafts_is_not_refused_for_one_that_is_never_loaded(algorithms: tuple[str | None, ...]) -> None:
    made = study(*algorithms)
    served = serving(made, {**HEAD, "hidden_size": 96})
    refuse_misfits(made, served)
    assert draft_warnings(made, served) == ()


def test_a_draft_that_cannot_be_read_is_held_against_nobody() -> None:
    made = study("EAGLE3")
    refuse_misfits(made, serving(made, None))
