"""An engine whose server speaks SGLang's dialect; what differs between such servers is abstract here."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence

from autotune.domain.configuration import Configuration, Value
from autotune.domain.engine import Endpoints, LaunchSite, Wire
from autotune.domain.finding import ServerWindow
from autotune.domain.models import Misfit, ModelFiles, Speculation
from autotune.domain.study import EngineSpec
from autotune.domain.trial import Difference, EngineVersion, Failure, LaunchCommand, ResolvedArguments
from autotune.engines.dialect import (
    command,
    decode_log,
    diagnosis,
    graphs,
    info,
    installed,
    models,
    nccl,
    placement,
    problems,
)
from autotune.engines.dialect.openai_wire import ChatWire, CompletionsWire
from autotune.engines.dialect.translation import translation
from autotune.engines.dialect.wire import ENDPOINTS, GenerateWire


class DialectEngine(abc.ABC):
    """See autotune.domain.engine.Engine for what each method promises."""

    name: str
    simulated: bool
    endpoints: Endpoints = ENDPOINTS
    wire: Wire = GenerateWire()

    def wire_for(self, endpoint: str, model: str, *, api_key: str | None = None) -> Wire:
        if endpoint == "generate":
            return GenerateWire(api_key)
        return {"chat": ChatWire, "completions": CompletionsWire}[endpoint](model, api_key)

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

    def remarks(self, spec: EngineSpec, version: EngineVersion, configuration: Configuration) -> tuple[str, ...]:
        return problems.configuration_remarks(spec, version, configuration)

    def flags_argv(self, spec: EngineSpec) -> tuple[str, ...]:
        return ()

    def disproved(
        self, spec: EngineSpec, version: EngineVersion, values: Mapping[str, Sequence[Value]], printed: str
    ) -> tuple[str, ...]:
        return problems.disproved(spec, version, values, installed.parse_flags(printed) if printed else None)

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

    def gpus(self, command: LaunchCommand) -> tuple[int, ...] | None:
        return None if self.simulated else placement.gpus(command.argv)

    def served_names(self, body: str) -> tuple[str, ...]:
        return info.served_names(body)

    def resolved(self, body: str) -> ResolvedArguments | None:
        return info.resolved(body)

    def differences(self, command: LaunchCommand, resolved: ResolvedArguments) -> tuple[Difference, ...]:
        return info.differences(command, resolved)

    def resolved_identity(self, command: LaunchCommand, resolved: ResolvedArguments) -> str:
        return info.resolved_identity(command, resolved)

    def pretences(self, command: LaunchCommand) -> tuple[str, ...]:
        return info.pretences(command)

    def collective_gpus(self, command: LaunchCommand) -> tuple[int, ...]:
        return () if self.simulated else nccl.tensor_parallel_gpus(command)

    def request_cap(self, resolved: ResolvedArguments) -> int | None:
        return info.request_cap(resolved)

    def graph_ceiling(self, resolved: ResolvedArguments) -> int | None:
        return graphs.graph_ceiling(resolved)

    def server_window(self, log: str) -> ServerWindow | None:
        return decode_log.server_window(log)

    def speculation(self, resolved: ResolvedArguments) -> Speculation | None:
        return models.speculation(resolved)

    def draft_model(self, spec: EngineSpec, version: EngineVersion, configuration: Configuration) -> str | None:
        return models.draft_path(translation(spec, version).asked(configuration))

    def draft_misfits(
        self,
        spec: EngineSpec,
        version: EngineVersion,
        configuration: Configuration,
        target: ModelFiles,
        draft: ModelFiles,
    ) -> tuple[Misfit, ...]:
        return models.misfits(translation(spec, version).asked(configuration), target, draft)

    def diagnose(
        self,
        exit_status: int | None,
        log: str,
        *,
        ready: bool,
        killed_by_kernel: bool | None = None,
        alive: bool = False,
    ) -> Failure:
        return diagnosis.diagnose(exit_status, log, ready=ready, killed_by_kernel=killed_by_kernel, alive=alive)
