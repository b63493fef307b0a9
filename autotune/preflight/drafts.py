"""Draft and target beside each other, over the whole space, before anything is launched."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from autotune.domain.configuration import Configuration
from autotune.domain.serving import Serving
from autotune.domain.study import StudySpec
from autotune.errors import InputError

LOOKED_THROUGH = 20_000
"""Assignments of the space that are looked at; what more there are differ in the same few arguments."""


def refuse_misfits(spec: StudySpec, serving: Serving) -> None:
    """Raises InputError where every configuration with a draft model has one that cannot work.

    Where some have, those are no part of the space (`Serving.problems` says so), and the others are measured.
    """
    found: dict[str, None] = {}
    for configuration in _speculative(spec, serving):
        certain = [misfit.text for misfit in serving.misfits(configuration) if misfit.certain]
        if not certain:
            return
        found.update(dict.fromkeys(certain))
    if found:
        raise InputError(
            "no configuration of the space has a draft that fits the target:\n" + "\n".join(found),
            hint="--set engine.args.speculative-draft-model-path=/path/to/a/draft/of/this/model, or another "
            "speculative_algorithm",
        )


def draft_warnings(spec: StudySpec, serving: Serving) -> tuple[str, ...]:
    """What may be wrong with a draft, and what is wrong with one that only some configurations have; each once."""
    found: dict[str, None] = {}
    for configuration in _speculative(spec, serving):
        for misfit in serving.misfits(configuration):
            told = misfit.text if not misfit.certain else f"left out of the space: {misfit.text}"
            found.setdefault(told)
    return tuple(found)


def _speculative(spec: StudySpec, serving: Serving) -> Iterator[Configuration]:
    if not serving.models:
        return
    grid = itertools.islice(spec.space.configurations(), LOOKED_THROUGH)
    legal = (configuration for configuration in grid if not spec.space.broken(configuration))
    for configuration in itertools.chain((spec.baseline, *spec.known_good), legal):
        if serving.draft_model(configuration) is not None:
            yield configuration
