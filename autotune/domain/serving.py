"""What a study serves with: the engine, each interpreter's version of it, and what the models' folders say.

Everything that is asked of the engine about a configuration is asked here, so that nobody else has to know which
interpreter, hence which version, a configuration runs on.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from autotune.domain.configuration import Configuration
from autotune.domain.engine import Engine, LaunchSite, Problem
from autotune.domain.models import Misfit, ModelFiles
from autotune.domain.study import ENGINE_PYTHON, EngineSpec
from autotune.domain.trial import EngineVersion, LaunchCommand


@dataclass(frozen=True)
class Serving:
    """`versions` by interpreter (`""` where the engine takes none); `models` by the path or name that a server gets,
    only those that could be read."""

    engine: Engine
    spec: EngineSpec
    versions: Mapping[str, EngineVersion]
    models: Mapping[str, ModelFiles] = field(default_factory=dict)

    def version(self, configuration: Mapping[str, object]) -> EngineVersion:
        """Raises KeyError for an interpreter that was never asked: a space file cannot name one."""
        return self.versions[self._spec(configuration).python or ""]

    def problems(self, configuration: Configuration) -> tuple[str, ...]:
        """Why this configuration cannot be launched, or would measure a draft that cannot work."""
        spec, version, plain = self._asked(configuration)
        certain = (Problem(misfit.text) for misfit in self.misfits(configuration) if misfit.certain)
        return (*self.engine.problems(spec, version, plain), *certain)

    def remarks(self, configuration: Configuration) -> tuple[str, ...]:
        """What is worth knowing of a configuration that may be launched; of its draft, `misfits` tells."""
        return self.engine.remarks(*self._asked(configuration))

    def misfits(self, configuration: Configuration) -> tuple[Misfit, ...]:
        """What is known against the draft model beside the target; empty where either could not be read."""
        if not self.models:
            return ()
        spec, version, plain = self._asked(configuration)
        path = self.engine.draft_model(spec, version, plain)
        target, draft = self.models.get(spec.model), self.models.get(path or "")
        if target is None or draft is None:
            return ()
        return self.engine.draft_misfits(spec, version, plain, target, draft)

    def draft_model(self, configuration: Configuration) -> str | None:
        return self.engine.draft_model(*self._asked(configuration))

    def canonical(self, configuration: Configuration) -> Configuration:
        """The interpreter stays: the same flags on two environments are two servers."""
        made = self.engine.canonical(*self._asked(configuration))
        if ENGINE_PYTHON not in configuration:
            return made
        return made.replace(**{ENGINE_PYTHON: configuration[ENGINE_PYTHON]})

    def command(self, configuration: Configuration, site: LaunchSite) -> LaunchCommand:
        spec, version, plain = self._asked(configuration)
        return self.engine.command(spec, version, plain, site)

    def _asked(self, configuration: Configuration) -> tuple[EngineSpec, EngineVersion, Configuration]:
        """The engine translates arguments; the interpreter is no argument of the server."""
        if ENGINE_PYTHON not in configuration:
            return self.spec, self.version(configuration), configuration
        return self._spec(configuration), self.version(configuration), configuration.without(ENGINE_PYTHON)

    def _spec(self, configuration: Mapping[str, object]) -> EngineSpec:
        chosen = configuration.get(ENGINE_PYTHON)
        return self._specs[chosen] if isinstance(chosen, str) else self.spec

    @functools.cached_property
    def _specs(self) -> Mapping[str, EngineSpec]:
        """The same object for each interpreter every time: engines keep what they have looked up for it."""
        return {python: replace(self.spec, python=python) for python in self.spec.pythons}
