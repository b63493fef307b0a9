import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import spec

from autotune import engines
from autotune.domain.configuration import Configuration
from autotune.domain.serving import Serving
from autotune.domain.space import Parameter, SearchSpace, Values
from autotune.domain.study import StudySpec
from autotune.domain.trial import EngineVersion
from autotune.errors import ServingEnvironmentError
from autotune.preflight.models import read_model, read_models, require_models


def folder(path: Path, config: dict[str, Any] | str | None = None, **tensors: list[int]) -> str:
    path.mkdir()
    if config is not None:
        (path / "config.json").write_text(config if isinstance(config, str) else json.dumps(config))
    if tensors:
        safetensors(path / "model.safetensors", {n: {"dtype": "F32", "shape": s} for n, s in tensors.items()})
    return str(path)


def safetensors(path: Path, header: Any) -> None:
    written = json.dumps(header).encode()
    path.write_bytes(len(written).to_bytes(8, "little") + written + b"weights")


def study(model: str, draft: str | None = None, **more: Any) -> StudySpec:
    args = {"speculative-draft-model-path": draft} if draft is not None else {}
    return replace(spec(**more), engine=replace(spec().engine, model=model, args=args))


def test_folders_with_a_config_and_names_of_a_hub_are_let_through(tmp_path: Path) -> None:
    require_models(study(folder(tmp_path / "target", {}), folder(tmp_path / "draft", {})))
    require_models(study("meta-llama/Llama-3.1-8B", "somebody/a-draft"))


@pytest.mark.parametrize(("exists", "what"), [(True, "has no config.json"), (False, "does not exist")])
def test_a_path_that_is_no_model_folder_is_refused_with_its_key(tmp_path: Path, exists: bool, what: str) -> None:
    path = str(tmp_path / "model")
    if exists:
        folder(tmp_path / "model")
    with pytest.raises(ServingEnvironmentError, match=what) as raised:
        require_models(study(path))
    assert raised.value.message.startswith("engine.model must be")
    assert "--set engine.model=" in raised.value.hint


def test_a_draft_is_looked_for_wherever_it_may_be_named(tmp_path: Path) -> None:
    target, gone = folder(tmp_path / "target", {}), str(tmp_path / "gone")
    searched = SearchSpace((Parameter("speculative_draft_model_path", Values((None, target, gone))),))
    chosen = Configuration({"speculative_draft_model_path": gone})
    for made, key in (
        (study(target, gone), "engine.args.speculative-draft-model-path"),
        (study(target, space=searched), "parameters.speculative_draft_model_path"),
        (study(target, baseline=chosen), "baseline.speculative_draft_model_path"),
    ):
        with pytest.raises(ServingEnvironmentError, match="does not exist") as raised:
            require_models(made)
        assert raised.value.message.startswith(key)


def test_target_and_all_drafts_are_read_under_the_names_that_a_server_gets(tmp_path: Path) -> None:
    target, one, other = (folder(tmp_path / name, {"name": name}) for name in ("target", "one", "other"))
    searched = SearchSpace((Parameter("speculative_draft_model_path", Values((None, one, "hub/name"))),))
    made = study(target, other, space=searched)
    serving = Serving(
        engines.get("sglang"), made.engine, {"/opt/sglang/bin/python": EngineVersion("0.5.23", (0, 5, 23))}
    )
    found = read_models(made, serving)
    assert {path: files.config["name"] for path, files in found.items()} == {
        target: "target",
        one: "one",
        other: "other",
    }


def test_names_and_shapes_come_from_the_headers_of_all_files(tmp_path: Path) -> None:
    path = folder(tmp_path / "m", {}, **{"fc.weight": [64, 192]})
    safetensors(tmp_path / "m" / "more.safetensors", {"__metadata__": {"format": "pt"}, "d2t": {"shape": [320]}})
    files = read_model(path)
    assert files is not None
    assert files.tensors == {"fc.weight": (64, 192), "d2t": (320,)}


@pytest.mark.parametrize(
    "content",
    [b"", b"\x05\0\0\0\0\0\0\0{", b"\xff" * 16, b"\x02\0\0\0\0\0\0\0[]", b'\x07\0\0\0\0\0\0\0{"a":1}'],
    ids=["empty", "cut off", "endless", "a list", "no tensor"],
)
def test_a_file_that_cannot_be_read_leaves_the_tensors_unknown(tmp_path: Path, content: bytes) -> None:
    path = folder(tmp_path / "m", {}, **{"fc.weight": [64, 192]})
    (tmp_path / "m" / "z.safetensors").write_bytes(content)
    files = read_model(path)
    assert files is not None
    assert files.tensors is None


def test_a_folder_without_safetensors_leaves_them_unknown(tmp_path: Path) -> None:
    files = read_model(folder(tmp_path / "m", {}))
    assert files is not None
    assert (files.tensors, files.vocabulary) == (None, None)


@pytest.mark.parametrize("config", [None, "{", "[]"], ids=["none", "cut off", "a list"])
def test_a_folder_without_a_readable_config_is_not_read(tmp_path: Path, config: str | None) -> None:
    assert read_model(folder(tmp_path / "m", config)) is None


def vocabulary(path: Path, tokenizer: Any) -> str | None:
    made = folder(path, {})
    (path / "tokenizer.json").write_text(json.dumps(tokenizer))
    files = read_model(made)
    assert files is not None
    return files.vocabulary


def test_a_vocabulary_is_its_tokens_and_ids_in_whatever_order(tmp_path: Path) -> None:
    plain = vocabulary(tmp_path / "a", {"model": {"vocab": {"x": 0, "y": 1}}})
    assert plain is not None
    assert vocabulary(tmp_path / "b", {"model": {"vocab": {"y": 1, "x": 0}}}) == plain
    assert vocabulary(tmp_path / "c", {"model": {"vocab": {"y": 0, "x": 1}}}) != plain
    added = {"model": {"vocab": {"x": 0, "y": 1}}, "added_tokens": [{"content": "<end>", "id": 2}]}
    assert vocabulary(tmp_path / "d", added) != plain


def test_a_tokenizer_without_a_vocabulary_of_tokens_is_unknown(tmp_path: Path) -> None:
    assert vocabulary(tmp_path / "a", {"model": {"vocab": [["x", -1.5]]}}) is None
    assert vocabulary(tmp_path / "b", {}) is None
