"""An engine whose server speaks SGLang's dialect; what differs between such servers is abstract here."""

from __future__ import annotations

import abc

from autotune.domain.configuration import Configuration
from autotune.domain.engine import Endpoints, LaunchSite, Wire
from autotune.domain.study import EngineSpec
from autotune.domain.trial import Difference, EngineVersion, Failure, LaunchCommand, ResolvedArguments
from autotune.engines.dialect import command, diagnosis, info, installed, problems
from autotune.engines.dialect.wire import ENDPOINTS, GenerateWire


class DialectEngine(abc.ABC):
    """See autotune.domain.engine.Engine for what each method promises."""

    name: str
    simulated: bool
    endpoints: Endpoints = ENDPOINTS
    wire: Wire = GenerateWire()

    @abc.abstractmethod
    def version_argv(self, spec: EngineSpec, tuner_python: str) -> tuple[str, ...]: ...

    @abc.abstractmethod
    def clock_rate(self, spec: EngineSpec) -> float: ...

    @abc.abstractmethod
    def program(self, spec: EngineSpec, site: LaunchSite) -> tuple[str, ...]:
        """The words of argv before the first argument."""

    @abc.abstractmethod
    def own_environment(self, spec: EngineSpec) -> dict[str, str]:
        """Variables that this engine adds to those that the space names."""

    @abc.abstractmethod
    def own_faults(self, spec: EngineSpec) -> tuple[str, ...]:
        """Faults of the engine's section that are this engine's alone."""

    def parse_version(self, stdout: str) -> EngineVersion:
        return installed.parse_version(stdout)

    def check_spec(self, spec: EngineSpec) -> tuple[str, ...]:
        return (*self.own_faults(spec), *problems.spec_faults(spec))

    def problems(self, spec: EngineSpec, version: EngineVersion, configuration: Configuration) -> tuple[str, ...]:
        return problems.configuration_problems(spec, version, configuration)

    def canonical(self, spec: EngineSpec, version: EngineVersion, configuration: Configuration) -> Configuration:
        return command.canonical(spec, version, configuration)

    def command(
        self, spec: EngineSpec, version: EngineVersion, configuration: Configuration, site: LaunchSite
    ) -> LaunchCommand:
        asked = command.asked_of_server(spec, version, configuration)
        return LaunchCommand(
            argv=(*self.program(spec, site), *command.arguments(asked, spec, version, site)),
            environment={**asked.variables, **self.own_environment(spec)},
            chosen=asked.variables,
        )

    def served_names(self, body: str) -> tuple[str, ...]:
        return info.served_names(body)

    def resolved(self, body: str) -> ResolvedArguments | None:
        return info.resolved(body)

    def differences(self, command: LaunchCommand, resolved: ResolvedArguments) -> tuple[Difference, ...]:
        return info.differences(command, resolved)

    def request_cap(self, resolved: ResolvedArguments) -> int | None:
        return info.request_cap(resolved)

    def diagnose(self, exit_status: int | None, log: str, *, ready: bool) -> Failure:
        return diagnosis.diagnose(exit_status, log, ready=ready)
