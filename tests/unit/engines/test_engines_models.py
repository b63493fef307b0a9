from typing import Any

import pytest

from autotune.domain.models import Misfit, ModelFiles, Speculation
from autotune.domain.trial import ResolvedArguments
from autotune.engines.dialect.models import draft_path, misfits, speculation

TARGET = {"architectures": ["LlamaForCausalLM"], "hidden_size": 64, "vocab_size": 1000, "num_hidden_layers": 8}
HEAD = {"architectures": ["LlamaForCausalLMEagle3"], "hidden_size": 64, "vocab_size": 1000, "draft_vocab_size": 1000}


def judged(algorithm: str, draft: dict[str, Any], target: dict[str, Any] | None = None, **more: Any) -> list[Misfit]:
    asked = {"speculative_algorithm": algorithm, **more.pop("asked", {})}
    ours = ModelFiles("/m/draft", draft, more.get("tensors"), more.get("vocabulary"))
    theirs = ModelFiles("/m/target", {**TARGET, **(target or {})}, None, more.get("target_vocabulary"))
    return list(misfits(asked, theirs, ours))


def certain(found: list[Misfit]) -> list[str]:
    return [misfit.text for misfit in found if misfit.certain]


def uncertain(found: list[Misfit]) -> list[str]:
    return [misfit.text for misfit in found if not misfit.certain]


def aux(*ids: int, **more: Any) -> dict[str, Any]:
    return {**HEAD, "eagle_config": {"eagle_aux_hidden_state_layer_ids": list(ids), **more}}


@pytest.mark.parametrize(
    ("algorithm", "architecture"),
    [
        ("EAGLE3", "LlamaForCausalLMEagle3"),
        ("EAGLE3", "Eagle3DeepseekV2ForCausalLM"),
        ("eagle3", "LlamaForCausalLMEagle3"),
        ("EAGLE3", "SomebodysOwnHead"),
        ("EAGLE", "LlamaForCausalLMEagle"),
        ("EAGLE", "DeepseekV3ForCausalLMNextN"),
        ("NEXTN", "Qwen3NextForCausalLMMTP"),
        ("STANDALONE", "Qwen2ForCausalLM"),
        ("DFLASH", "Qwen3DFlashModel"),
        ("NGRAM", "LlamaForCausalLMEagle"),
    ],
)
def test_nothing_is_said_against_a_pair_that_fits(algorithm: str, architecture: str) -> None:
    assert judged(algorithm, {**HEAD, "architectures": [architecture]}) == []


@pytest.mark.parametrize(
    ("algorithm", "architecture", "what"),
    [
        ("EAGLE", "LlamaForCausalLMEagle3", "an EAGLE-3 head"),
        ("NEXTN", "Eagle3DeepseekV2ForCausalLM", "an EAGLE-3 head"),
        ("EAGLE3", "LlamaForCausalLMEagle", "an EAGLE head of the first kind"),
        ("EAGLE3", "LlamaForCausalLM", "a whole model"),
        ("EAGLE3", "DeepseekV3ForCausalLMNextN", "a model's own MTP layers"),
        ("EAGLE3", "Qwen3DFlashModel", "a block draft"),
        ("STANDALONE", "LlamaForCausalLMEagle3", "an EAGLE-3 head"),
        ("STANDALONE", "LlamaForCausalLMEagle", "an EAGLE head of the first kind"),
        ("DFLASH", "LlamaForCausalLMEagle3", "an EAGLE-3 head"),
    ],
)
def test_a_head_of_another_kind_is_refused_with_the_algorithm_and_the_file(
    algorithm: str, architecture: str, what: str
) -> None:
    (text,) = certain(judged(algorithm, {**HEAD, "architectures": [architecture]}))
    assert text.startswith(f"speculative_algorithm {algorithm} takes")
    assert f"but this one is {what}" in text
    assert f"(/m/draft/config.json says architectures: {architecture})" in text


def test_the_algorithm_that_the_head_is_for_is_named() -> None:
    (text,) = certain(judged("EAGLE", HEAD))
    assert text.endswith("use speculative_algorithm EAGLE3")


def test_a_whole_model_under_eagle_is_a_warning_unless_it_has_mtp_layers() -> None:
    whole = {**HEAD, "architectures": ["LlamaForCausalLM"]}
    (text,) = uncertain(judged("EAGLE", whole))
    assert "an accept length of 1.00 is likely" in text
    assert judged("EAGLE", {**whole, "num_nextn_predict_layers": 1}) == []
    assert judged("EAGLE", {**whole, "text_config": {"mtp_num_hidden_layers": 1}}) == []


def test_a_model_that_drafts_for_itself_is_not_judged() -> None:
    files = ModelFiles("/m/both", {**TARGET, "vocab_size": 5})
    assert misfits({"speculative_algorithm": "EAGLE3"}, files, files) == ()


def test_a_configuration_without_speculation_is_not_judged() -> None:
    assert misfits({}, ModelFiles("/t", TARGET), ModelFiles("/d", {**HEAD, "hidden_size": 1})) == ()


@pytest.mark.parametrize(("algorithm", "architecture"), [("EAGLE3", "xEagle3"), ("EAGLE", "LlamaForCausalLMEagle")])
def test_another_hidden_size_is_refused_with_both_values_and_files(algorithm: str, architecture: str) -> None:
    (text,) = certain(judged(algorithm, {**HEAD, "architectures": [architecture], "hidden_size": 96}))
    assert "hidden_size must be the target's hidden_size, but 96 != 64" in text
    assert "/m/draft/config.json" in text
    assert "/m/target/config.json" in text


def test_a_head_narrower_than_its_target_says_the_target_s_width() -> None:
    narrow = {**HEAD, "hidden_size": 32, "target_hidden_size": 64}
    assert judged("EAGLE3", narrow) == []
    (text,) = certain(judged("EAGLE3", {**narrow, "target_hidden_size": 128}))
    assert "target_hidden_size must be the target's hidden_size, but 128 != 64" in text


def test_a_multimodal_target_is_read_where_its_language_model_stands() -> None:
    nested = {"hidden_size": 7, "text_config": {"hidden_size": 96, "vocab_size": 1000, "num_hidden_layers": 8}}
    (text,) = certain(judged("EAGLE3", HEAD, nested))
    assert "64 != 96" in text
    deeper = {"thinker_config": nested}
    assert certain(judged("EAGLE3", HEAD, deeper)) == [text]


def test_the_fusing_layer_must_be_as_wide_as_the_layers_that_feed_it() -> None:
    assert judged("EAGLE3", HEAD, tensors={"fc.weight": (64, 192)}) == []
    assert judged("EAGLE3", {**HEAD, "num_aux_hidden_states": 5}, tensors={"model.fc.weight": (64, 320)}) == []
    (text,) = certain(judged("EAGLE3", HEAD, tensors={"model.fc.weight": (64, 576)}))
    assert "take 3 layers of 64, which is 192 wide" in text
    assert "/m/draft are 576 wide" in text


def test_another_vocabulary_size_is_refused_for_standalone_and_warned_of_for_a_head() -> None:
    small = {**HEAD, "architectures": ["Qwen2ForCausalLM"], "vocab_size": 900}
    (text,) = certain(judged("STANDALONE", small))
    assert "900 != 1000" in text
    found = judged("EAGLE3", {**HEAD, "vocab_size": 1024})
    assert not certain(found)
    assert "1024 != 1000" in uncertain(found)[0]


def test_another_tokenizer_is_refused_for_standalone_and_warned_of_for_a_head() -> None:
    whole = {**HEAD, "architectures": ["Qwen2ForCausalLM"]}
    (text,) = certain(judged("STANDALONE", whole, vocabulary="a", target_vocabulary="b"))
    assert "/m/draft/tokenizer.json and /m/target/tokenizer.json differ" in text
    assert len(uncertain(judged("EAGLE3", HEAD, vocabulary="a", target_vocabulary="b"))) == 1
    assert judged("STANDALONE", whole, vocabulary="a", target_vocabulary="a") == []
    assert judged("STANDALONE", whole, vocabulary=None, target_vocabulary="b") == []


def test_a_reduced_vocabulary_needs_its_map() -> None:
    reduced = {**HEAD, "draft_vocab_size": 320}
    assert judged("EAGLE3", reduced, tensors={"d2t": (320,), "t2d": (1000,)}) == []
    assert judged("EAGLE3", reduced, tensors=None) == []
    (text,) = certain(judged("EAGLE3", reduced, tensors={"lm_head.weight": (320, 64)}))
    assert "a draft of 320 of the target's 1000 tokens must bring the map d2t" in text


def test_a_reduced_vocabulary_above_the_target_s_is_refused() -> None:
    (text,) = certain(judged("EAGLE3", {**HEAD, "draft_vocab_size": 1001}))
    assert "1001 > 1000" in text


@pytest.mark.parametrize("ids", [(1, 4, 8), (-1, 3, 5), (2, 30, 26)])
def test_layers_that_the_target_does_not_have_are_refused(ids: tuple[int, ...]) -> None:
    (text,) = certain(judged("EAGLE3", aux(*ids)))
    assert "must be layers of the target, 0 to 7, but" in text
    assert ", ".join(str(index) for index in ids if not 0 <= index < 8) in text


def test_the_target_s_last_layer_is_a_warning() -> None:
    assert judged("EAGLE3", aux(1, 4, 6)) == []
    (text,) = uncertain(judged("EAGLE3", aux(1, 4, 7)))
    assert "last layer, 7" in text


def test_layers_are_not_looked_at_where_the_head_does_not_read_them() -> None:
    assert judged("EAGLE3", aux(1, 4, 99, use_aux_hidden_state=False)) == []


def test_layers_beside_the_eagle_config_count_too() -> None:
    assert len(certain(judged("EAGLE3", {**HEAD, "eagle_aux_hidden_state_layer_ids": [1, 4, 99]}))) == 1


def test_the_count_of_layers_must_agree_with_their_list() -> None:
    (text,) = certain(judged("EAGLE3", {**aux(1, 4, 6), "num_aux_hidden_states": 5}))
    assert "5 != 3" in text


def test_a_target_with_too_few_layers_for_the_default_is_a_warning() -> None:
    (text,) = uncertain(judged("EAGLE3", HEAD, {"num_hidden_layers": 6}))
    assert "the target's 6 are too few" in text


def test_a_draft_that_would_inherit_the_target_s_quantization_is_a_warning_with_the_way_out() -> None:
    (text,) = uncertain(judged("EAGLE3", HEAD, asked={"quantization": "fp8"}))
    assert "speculative-draft-model-quantization: unquant" in text
    assert (
        judged("EAGLE3", {**HEAD, "quantization_config": {"quant_method": "fp8"}}, asked={"quantization": "fp8"}) == []
    )
    explicit = {"quantization": "fp8", "speculative_draft_model_quantization": "unquant"}
    assert judged("EAGLE3", HEAD, asked=explicit) == []
    assert judged("EAGLE3", HEAD, {"quantization_config": {"quant_method": "fp8"}}) == []


@pytest.mark.parametrize(
    "draft",
    [{}, {"architectures": []}, {"architectures": "Eagle"}, {**HEAD, "hidden_size": None, "vocab_size": "many"}],
    ids=["empty", "no architecture", "no list", "odd values"],
)
def test_what_a_config_does_not_say_is_held_against_nobody(draft: dict[str, Any]) -> None:
    assert judged("EAGLE3", draft) == []


def test_a_target_that_says_nothing_is_held_against_nobody() -> None:
    theirs, ours = ModelFiles("/t", {}), ModelFiles("/d", aux(1, 99))
    assert misfits({"speculative_algorithm": "EAGLE3"}, theirs, ours) == ()


def test_only_an_algorithm_that_loads_a_draft_has_a_draft_path() -> None:
    path = {"speculative_draft_model_path": "/m/draft"}
    assert draft_path({**path, "speculative_algorithm": "EAGLE3"}) == "/m/draft"
    assert draft_path({**path, "speculative_algorithm": "NGRAM"}) is None
    assert draft_path({**path, "speculative_algorithm": None}) is None
    assert draft_path({"speculative_algorithm": "NEXTN"}) is None


def test_how_a_server_speculates_is_read_from_what_it_says() -> None:
    def said(**values: Any) -> Speculation | None:
        return speculation(ResolvedArguments(values))

    assert said(speculative_algorithm=None) is None
    assert said(speculative_algorithm="EAGLE3", speculative_num_draft_tokens=4) == Speculation("EAGLE3", True, 4)
    assert said(speculative_algorithm="NGRAM") == Speculation("NGRAM", False, None)
    adaptive = {"speculative_num_draft_tokens": 4, "internal.max_speculative_num_draft_tokens": 8}
    assert said(speculative_algorithm="EAGLE3", **adaptive) == Speculation("EAGLE3", True, 8)
