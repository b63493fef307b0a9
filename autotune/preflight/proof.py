"""The space against the parser of the installed engine itself, asked once and kept."""

from __future__ import annotations

from dataclasses import replace

from autotune.domain.configuration import Configuration, show_value
from autotune.domain.engine import LaunchSite
from autotune.domain.serving import Serving
from autotune.domain.study import StudySpec
from autotune.domain.trial import LaunchCommand
from autotune.errors import ServingEnvironmentError
from autotune.launch import cached_probe
from autotune.preflight.space import parameter_values, problems_of


def disproved_by_parser(spec: StudySpec, serving: Serving) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What the parser of an installed version refuses though its table takes it; and why a parser was not asked."""
    found: dict[str, None] = {}
    unasked: list[str] = []
    for python, version in serving.versions.items():
        section = replace(serving.spec, python=python or None)
        argv = serving.engine.flags_argv(section)
        if not argv:
            continue
        try:
            printed = cached_probe(argv, version.text)
            values = parameter_values(spec, python or None)
            told = serving.engine.disproved(section, version, values, "")  # `refuse_impossible` tells these
            refused = [p for p in serving.engine.disproved(section, version, values, printed) if p not in told]
        except ServingEnvironmentError as error:
            unasked.append(f"the parser of {version.text}, so its flag table stands in for it: {error.message}")
            continue
        found.update(dict.fromkeys(refused))
    return tuple(found), tuple(unasked)


def baseline_remarks(spec: StudySpec, serving: Serving) -> tuple[str, ...]:
    """What is worth knowing of the baseline and of the known-good configurations, and of a baseline that runs worse
    than it could."""
    places: dict[str, list[str]] = {}
    kept = problems_of(spec, serving, spec.baseline)
    for problem in serving.problems(spec.baseline):
        if problem not in kept:
            places.setdefault(problem, []).append("baseline")
    for name, configuration in (("baseline", spec.baseline), *_known_good(spec)):
        for remark in serving.remarks(configuration):
            places.setdefault(remark, []).append(name)
    variables = {name: values for name, values in parameter_values(spec).items() if name.isupper()}
    for name, values in variables.items():
        value = next((value for value in values if value is not None), None)
        for remark in serving.remarks(spec.baseline.replace(**{name: value})):
            places.setdefault(remark, [f"{name} {show_value(value)}"])
    return tuple(f"{', '.join(names)}: {text}" for text, names in places.items())


def named_commands(
    spec: StudySpec, serving: Serving, *, tuner_python: str
) -> tuple[tuple[str, LaunchCommand | None, tuple[str, ...]], ...]:
    """The baseline and the known-good configurations: the command of each, or None and why it may not be launched."""
    site = LaunchSite("127.0.0.1", 30000, "served", tuner_python)
    shown: list[tuple[str, LaunchCommand | None, tuple[str, ...]]] = []
    for name, configuration in (("baseline", spec.baseline), *_known_good(spec)):
        problems = problems_of(spec, serving, configuration)
        shown.append((name, None if problems else serving.command(configuration, site), problems))
    return tuple(shown)


def _known_good(spec: StudySpec) -> list[tuple[str, Configuration]]:
    return [(f"known_good[{index}]", configuration) for index, configuration in enumerate(spec.known_good)]
