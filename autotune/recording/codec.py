"""A trial's result as plain JSON data, and back: every field, strictly.

The data mirror the dataclasses of `autotune.domain`: fields by name, enums by word, a configuration as its values,
a rate as its text (`4 req/s`).
A field that is missing takes its default (an older record), one that is unknown is refused, and so is a value of
another type than the field's. Secrets are masked on the way out (see secrets.py), so what is read back differs
from what was written exactly there.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Any

from autotune.domain.configuration import Configuration
from autotune.domain.level import Level, Rate, level_of
from autotune.domain.secrets import MASK, is_secret
from autotune.domain.trial import Difference, FailureReason, TrialResult
from autotune.errors import RunFolderError
from autotune.recording.secrets import mask_command, mask_data, mask_text

SCHEMA_VERSION = 1
T = typing.TypeVar("T")


def encode_trial(result: TrialResult) -> dict[str, Any]:
    """Raises ValueError, naming the field, for a number that is not finite: that is a bug, not a measurement."""
    return {"schema_version": SCHEMA_VERSION, **_encode(stored_form(result), "trial")}


def decode_trial(data: Mapping[str, Any]) -> TrialResult:
    """Raises RunFolderError for data of a newer schema, and for anything that `encode_trial` cannot have written."""
    fields = dict(data)
    version = fields.pop("schema_version", None)
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise RunFolderError(
            f"this version reads trials of schema {SCHEMA_VERSION}, but got schema {version}",
            hint="the study was recorded by a newer autotune: upgrade, or use the version that recorded it",
        )
    if version != SCHEMA_VERSION:
        raise RunFolderError(f"a trial must state its schema_version, but got {version!r}")
    try:
        return typing.cast(TrialResult, _decode(TrialResult, fields, "trial"))
    except _Mismatch as fault:
        raise RunFolderError(str(fault)) from None


def stored_form(result: TrialResult) -> TrialResult:
    """The trial as it is written to the disk and to MLflow: secrets masked, and a number of the server's own that
    JSON cannot hold (`inf`) as text."""
    command, resolved, failure = result.command, result.resolved, result.failure
    if failure is not None:
        failure = dataclasses.replace(failure, message=mask_text(failure.message), evidence=mask_text(failure.evidence))
    if resolved is not None:
        resolved = dataclasses.replace(resolved, values=_finite(mask_data(resolved.values)))
    return dataclasses.replace(
        result,
        command=mask_command(command) if command is not None else None,
        resolved=resolved,
        failure=failure,
        differences=tuple(_masked_difference(difference) for difference in result.differences),
        remarks=tuple(mask_text(remark) for remark in result.remarks),
    )


def encode_data(value: Any, where: str) -> Any:
    """Any dataclass of `autotune.domain` as plain data. Raises ValueError as `encode_trial` does."""
    return _encode(value, where)


def decode_data(kind: type[T], data: Any, where: str) -> T:
    """Raises RunFolderError for data that are not of this kind."""
    try:
        return typing.cast(T, _decode(kind, data, where))
    except _Mismatch as fault:
        raise RunFolderError(str(fault)) from None


class _Mismatch(ValueError):
    pass


def _masked_difference(difference: Difference) -> Difference:
    asked, resolved = (
        MASK if is_secret(difference.argument, value) else value for value in (difference.asked, difference.resolved)
    )
    return dataclasses.replace(difference, asked=asked, resolved=resolved)


def _finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_finite(item) for item in data]
    return str(data) if isinstance(data, float) and not math.isfinite(data) else data


def _encode(value: Any, where: str) -> Any:
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{where} must be a finite number (what was not seen is None), but got {value}")
        return value
    if isinstance(value, Rate):
        return str(value)
    if isinstance(value, FailureReason):
        return value.word
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): _encode(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_encode(item, f"{where}[{index}]") for index, item in enumerate(value)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _encode(getattr(value, f.name), f"{where}.{f.name}") for f in dataclasses.fields(value)}
    raise ValueError(f"{where} cannot be recorded: {type(value).__name__} is not plain data")


def _decode(kind: Any, data: Any, where: str) -> Any:
    """`kind` is a type as the dataclasses write it; `data` what JSON gave for it."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return data
    if origin in (typing.Union, types.UnionType):
        return _decode_union(arguments, data, where)
    if origin is tuple:
        return tuple(_decode(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(_a(list, data, where)))
    if origin is Mapping:
        return {
            _decode_key(arguments[0], key, where): _decode(arguments[1], item, f"{where}.{key}")
            for key, item in _a(dict, data, where).items()
        }
    if kind is Configuration:
        values = _a(dict, data, where)
        return Configuration({name: _a(_SCALARS, item, f"{where}.{name}") for name, item in values.items()})
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _decode_enum(kind, data, where)
    if dataclasses.is_dataclass(kind):
        return _decode_fields(kind, _a(dict, data, where), where)
    return _a((int, float), data, where) if kind is float else _a(kind, data, where)


_SCALARS = (bool, int, float, str, type(None))


def _a(kind: type | tuple[type, ...], data: Any, where: str) -> Any:
    """`data`, if it is exactly of (one of) these types: a truth value is no number here."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if type(data) not in kinds:
        names = " or ".join(k.__name__ for k in kinds)
        raise _Mismatch(f"{where} must be {names}, but got {data!r:.80}")
    return data


def _decode_union(alternatives: tuple[Any, ...], data: Any, where: str) -> Any:
    others = [kind for kind in alternatives if kind is not type(None)]
    if data is None and len(others) < len(alternatives):
        return None
    if len(others) == 1:
        return _decode(others[0], data, where)
    if Rate in others:
        return _decode_level(data, where) if isinstance(data, str) else _a(int, data, where)
    return _a(tuple(alternatives), data, where)


def _decode_key(kind: Any, key: str, where: str) -> Any:
    if kind is str:
        return key
    if Rate in typing.get_args(kind):
        return _decode_level(key, where)
    try:
        return kind(key)
    except ValueError:
        raise _Mismatch(f"{where} must have keys of {kind.__name__}, but got {key!r}") from None


def _decode_level(text: str, where: str) -> Level:
    try:
        return level_of(text)
    except ValueError:
        raise _Mismatch(f"{where} must be a level, such as 16 or 4 req/s, but got {text!r}") from None


def _decode_enum(kind: type[Enum], data: Any, where: str) -> Enum:
    words = {member.word if isinstance(member, FailureReason) else member.value: member for member in kind}
    if not isinstance(data, str) or data not in words:
        raise _Mismatch(f"{where} must be one of {', '.join(words)}, but got {data!r:.80}")
    return words[data]


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _decode_fields(kind: Any, data: dict[str, Any], where: str) -> Any:
    fields = {field.name: field for field in dataclasses.fields(kind)}
    if unknown := sorted(set(data) - set(fields)):
        raise _Mismatch(f"{where} must have no other fields than a {kind.__name__}, but got {', '.join(unknown)}")
    required = {
        name
        for name, field in fields.items()
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    }
    if missing := sorted(required - set(data)):
        raise _Mismatch(f"{where} must have {', '.join(missing)}, but has not")
    hints = _hints(kind)
    return kind(**{name: _decode(hints[name], item, f"{where}.{name}") for name, item in data.items()})
