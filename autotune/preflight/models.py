"""The models of a study: that they are there, and what their folders say of them. Reads no weights."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from autotune.domain.models import ModelFiles
from autotune.domain.serving import Serving
from autotune.domain.space import Values
from autotune.domain.study import StudySpec
from autotune.errors import ServingEnvironmentError
from autotune.preflight.environment import TRY_SIMULATED

_DRAFT_ARGUMENTS = ("speculative-draft-model-path", "speculative-draft-model")
_MAX_HEADER_BYTES = 100 * 1024 * 1024  # the format's own bound


def require_models(spec: StudySpec) -> None:
    """Raises ServingEnvironmentError for a path, of the target or of a draft, that is no model folder."""
    paths: dict[str, list[object]] = {"engine.model": [spec.engine.model]}
    for name in _DRAFT_ARGUMENTS:
        paths[f"engine.args.{name}"] = [spec.engine.args.get(name)]
        paths[f"parameters.{_parameter(name)}"] = list(_values(spec, _parameter(name)))
        paths[f"baseline.{_parameter(name)}"] = [spec.baseline.get(_parameter(name))]
    for key, listed in paths.items():
        for text in listed:
            if isinstance(text, str) and is_local(text):
                _require_folder(key, text)


def _require_folder(key: str, text: str) -> None:
    path = Path(text).expanduser()
    if (path / "config.json").is_file():
        return
    what = "has no config.json" if path.is_dir() else "does not exist"
    raise ServingEnvironmentError(
        f"{key} must be a model folder with a config.json, but {text} {what}",
        hint=f"--set {key}=/path/to/model; {TRY_SIMULATED}",
    )


def is_local(text: str) -> bool:
    """Else it is a hub's name, which the server will look up."""
    return Path(text).is_absolute() or text.startswith(("./", "../", "~"))


def read_models(spec: StudySpec, serving: Serving) -> dict[str, ModelFiles]:
    """Target and drafts by the path or name that the server gets; without those that are not there to be read."""
    named: dict[str, None] = {spec.engine.model: None}
    parameters = [_parameter(name) for name in _DRAFT_ARGUMENTS]
    chosen = [spec.baseline, *spec.known_good]
    drafts: Iterable[object] = (
        *(spec.engine.args.get(name) for name in _DRAFT_ARGUMENTS),
        *(value for name in parameters for value in _values(spec, name)),
        *(serving.draft_model(configuration) for configuration in chosen),
    )
    named.update({draft: None for draft in drafts if isinstance(draft, str)})
    found = ((path, read_model(path)) for path in named if is_local(path))
    return {path: files for path, files in found if files is not None}


def read_model(path: str) -> ModelFiles | None:
    """None where there is no readable config.json."""
    folder = Path(path).expanduser()
    config = _json_object(folder / "config.json")
    if config is None:
        return None
    return ModelFiles(path, config, _tensors(folder), _vocabulary(folder / "tokenizer.json"))


def _tensors(folder: Path) -> dict[str, tuple[int, ...]] | None:
    """Names and shapes from the headers of all safetensors files; None where one of them cannot be read."""
    shapes: dict[str, tuple[int, ...]] = {}
    files = sorted(folder.glob("*.safetensors"))
    for file in files:
        header = _header(file)
        if header is None:
            return None
        shapes.update({name: tuple(tensor["shape"]) for name, tensor in header.items() if name != "__metadata__"})
    return shapes if files else None


def _header(file: Path) -> dict[str, Any] | None:
    """The JSON object at the start of a safetensors file, its length in eight bytes, little-endian, before it."""
    try:
        with file.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            read = json.loads(stream.read(length)) if 0 < length <= _MAX_HEADER_BYTES else None
    except (OSError, ValueError):
        return None
    whole = isinstance(read, dict) and all(
        isinstance(tensor, dict) and (name == "__metadata__" or isinstance(tensor.get("shape"), list))
        for name, tensor in read.items()
    )
    return read if whole else None


def _vocabulary(path: Path) -> str | None:
    """A digest of tokens and ids, whatever their order in the file. The added tokens count: templates use them."""
    read = _json_object(path)
    model = read.get("model") if read is not None else None
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    if read is None or not isinstance(vocabulary, dict):
        return None
    added = read.get("added_tokens")
    more = {t.get("content"): t.get("id") for t in added if isinstance(t, dict)} if isinstance(added, list) else {}
    both = sorted((str(token), str(index)) for token, index in {**vocabulary, **more}.items())
    return hashlib.sha256(json.dumps(both).encode()).hexdigest()


def _json_object(path: Path) -> dict[str, Any] | None:
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return read if isinstance(read, dict) else None


def _values(spec: StudySpec, name: str) -> tuple[object, ...]:
    parameter = spec.space.parameter(name)
    return parameter.domain.choices if parameter is not None and isinstance(parameter.domain, Values) else ()


def _parameter(argument: str) -> str:
    return argument.replace("-", "_")
