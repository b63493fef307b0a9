"""The launch command of a trial in the forms that others read. What is rendered is the record of what ran."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from autotune.domain.study import StudyResult
from autotune.domain.trial import TrialResult
from autotune.errors import InputError
from autotune.exporters import env_file, json_object, shell_script
from autotune.exporters.export import Export, prepare

_RENDERERS: Mapping[str, Callable[[Export], str]] = {
    "shell": shell_script.render,
    "env": env_file.render,
    "json": json_object.render,
}


def formats() -> tuple[str, ...]:
    return tuple(_RENDERERS)


def render(
    form: str, result: StudyResult, trial: TrialResult, *, host: str = "127.0.0.1", port: int = 30000, note: str = ""
) -> str:
    """The recorded command with its host, port and served name replaced (the study's name serves), and nothing else.
    `note`: why this trial, for the reader.

    Secrets become `${NAME}`. Raises InputError for a format that is not known, for a trial that never got as far as
    a command, and for a command that no shell could carry (a name of a variable that is none).
    """
    renderer = _RENDERERS.get(form)
    if renderer is None:
        raise InputError(
            f"an export format must be one of {', '.join(formats())}, but got {form}",
            hint=f"--format {formats()[0]}",
        )
    return renderer(prepare(result, trial, host=host, port=port, note=note))


__all__ = ["formats", "render"]
