"""The serving environment: its interpreter, the engine in it, and the tuner's own commit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from autotune import __version__
from autotune.domain.engine import Engine
from autotune.domain.serving import Serving
from autotune.domain.study import StudySpec
from autotune.domain.trial import EngineVersion, Hardware, Provenance
from autotune.errors import InputError, ServingEnvironmentError
from autotune.launch import probe

TRY_SIMULATED = "with no GPU at hand, `--engine simulated` runs the same study on a simulated node"

_LINKS = ("nvlink", "nvswitch", "pcie")


@dataclass(frozen=True)
class Node:
    """What the study runs on. `facts`: GPUs, driver, CPU, as read from the machine. `warnings`: what may be wrong."""

    serving: Serving
    facts: dict[str, str]
    warnings: tuple[str, ...] = ()


def installed_versions(spec: StudySpec, engine: Engine, *, tuner_python: str) -> dict[str, EngineVersion]:
    """What each interpreter has, asked once; under `""` for an engine that takes no interpreter."""
    return {
        python or "": installed_version(
            replace(spec, engine=replace(spec.engine, python=python)), engine, tuner_python=tuner_python
        )
        for python in spec.engine.interpreters
    }


def installed_version(spec: StudySpec, engine: Engine, *, tuner_python: str) -> EngineVersion:
    """Asks the serving interpreter, without importing the engine here or there."""
    python = spec.engine.python
    if not engine.simulated and python is not None and not Path(python).exists():
        raise ServingEnvironmentError(
            f"engine.python must be the serving environment's interpreter, but there is no file {python}",
            hint=f"--set engine.python=/path/to/serving/venv/bin/python; {TRY_SIMULATED}",
        )
    try:
        return engine.parse_version(probe(engine.version_argv(spec.engine, tuner_python)))
    except ServingEnvironmentError as error:
        if not spec.engine.pythons:
            raise
        raise ServingEnvironmentError(f"engine.python {python}: {error.message}", hint=error.hint) from error


def assumed_version(text: str) -> EngineVersion:
    """A version that the user names instead of an installed one: `0.5.23`, `0.5.15.post1`."""
    numbers = text.split(".post")[0].split(".")
    if not all(number.isdecimal() for number in numbers):
        raise InputError(f"a version must be numbers with dots, like 0.5.23 or 0.5.15.post1, but got {text}")
    return EngineVersion(text, tuple(int(number) for number in numbers))


def assumed_hardware(text: str) -> Hardware:
    """Hardware that the user names instead of the node's own: `sm120:8:pcie`, `sm90:1`, `sm100:8:nvswitch`."""
    architecture, count, link = (*text.split(":"), "", "")[:3]
    digits = architecture.removeprefix("sm")
    known = architecture.startswith("sm") and digits.isdecimal() and link in ("", *_LINKS) and text.count(":") <= 2
    if not known or not (count or "1").isdecimal() or int(count or 1) < 1:
        raise InputError(
            f"hardware must be architecture:GPUs:link, like sm120:8:pcie, sm100:8:nvswitch or sm90:1, but got {text}",
            hint=f"the link is one of {', '.join(_LINKS)}",
        )
    return Hardware(architecture, int(count or 1), link=link or None)


def tuner_commit() -> dict[str, str]:
    """The commit that the tuner runs from, where it runs from a checkout."""
    folder = Path(__file__).parents[1]
    if not (folder.parent / ".git").exists():
        return {}
    try:
        return {"commit": probe(("git", "-C", str(folder), "rev-parse", "HEAD"), timeout_s=5).strip()}
    except ServingEnvironmentError:
        return {}


def provenance(spec: StudySpec, node: Node) -> Provenance:
    """Of the study as a whole; the engine's version is that of each trial's own interpreter."""
    engine = node.serving.engine
    warm = {"warm_start": ", ".join(spec.earlier.runs)} if spec.earlier.runs else {}
    return Provenance(
        engine=engine.name,
        engine_version="",
        simulated=engine.simulated,
        clock_rate=engine.clock_rate(spec.engine),
        node=node.facts,
        tuner={"version": __version__, **tuner_commit(), **warm},
    )
