"""The GPUs of one launch: idle before it, watched through its levels, given back after it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from autotune.errors import NodeBusy
from autotune.launch.nvml import Device, GpuChoice, Nvml, opened
from autotune.launch.occupancy import Occupancy, Owners, kept_gib, listed_pids, occupancy
from autotune.launch.telemetry import PERIOD_S, Sampler

BUSY_PATIENCE_S = 60.0
GONE_PATIENCE_S = 5.0
KEPT_SLACK_GIB = 0.25
_POLL_S = 0.5


@dataclass(frozen=True)
class Waiting:
    """The clock that waiting goes by."""

    now: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep


class GpuWatch:
    """One launch from before its start to after its end. `note` is told, in words, what could not be seen or is
    off; nothing here fails a trial but GPUs that are not free before it."""

    def __init__(
        self,
        choice: GpuChoice,
        note: Callable[[str], None],
        *,
        binding: Any = None,
        waiting: Waiting | None = None,
        period_s: float = PERIOD_S,
    ) -> None:
        self._choice = choice
        self._note = note
        self._binding = binding
        self._waiting = waiting or Waiting()
        self._period_s = period_s
        self._blind = False
        self._before_gib: Mapping[int, float] = {}
        self._owners: Owners | None = None

    def await_free(self, on_phase: Callable[[str], None] = lambda _phase: None) -> None:
        """Returns when the GPUs are idle and free; memory of an ended process takes the driver seconds to take back.

        Raises NodeBusy, naming who is there, if a minute does not free them. Memory that nobody can be named for,
        up to a tenth of the GPU's, is noted and borne.
        """
        with opened(self._binding) as nvml:
            devices = () if nvml.missing else self._choice.devices(nvml)
            if not devices:
                self._cannot_see(nvml.missing or "the driver opens none of the trial's GPUs")
                return
            deadline = self._waiting.now() + BUSY_PATIENCE_S
            while not (seen := occupancy(nvml, devices)).free and self._waiting.now() < deadline:
                on_phase("waiting for the GPUs")
                self._waiting.pause(_POLL_S)
        self._judge(seen)

    def _judge(self, seen: Occupancy) -> None:
        self._before_gib = seen.used_gib
        if reason := seen.reason:
            raise NodeBusy(
                f"a trial's GPUs must be idle before its launch, but {BUSY_PATIENCE_S:g} s did not free them: {reason}",
                hint="end what runs there (nvidia-smi lists it), or choose other GPUs with CUDA_VISIBLE_DEVICES",
            )
        for gpu in seen.filled:
            self._note(f"before the launch, GPU {gpu} had {seen.amount(gpu)}, and no process that could be named")
        if seen.processes is None and not seen.used_gib:
            self._cannot_see("the driver tells neither processes nor memory here")

    def _cannot_see(self, why: str) -> None:
        self._blind = True
        self._note(f"the trial's GPUs were not watched: {why}")

    def serving(self, own: Callable[[], Collection[int]]) -> None:
        """To be called when the server is ready; `own` gives the pids of its living processes, from any thread."""
        if self._blind:
            return
        with opened(self._binding) as nvml:
            self._owners = Owners(listed_pids(nvml, self._choice.devices(nvml)), own)
        if self._owners.hidden:
            self._owners = None
            self._note("the driver lists no processes here, so that another's on the trial's GPUs would not be seen")

    def sampler(self) -> Sampler | None:
        """For one level; None where nothing can be seen."""
        if self._blind:
            return None
        is_ours = self._owners.is_ours if self._owners is not None else None
        return Sampler(self._choice, is_ours=is_ours, period_s=self._period_s, binding=self._binding)

    def confirm_gone(self) -> None:
        """After the stop: what the trial still has on its GPUs a few seconds later is noted with figures."""
        if self._blind:
            return
        with opened(self._binding) as nvml:
            devices = self._choice.devices(nvml)
            deadline = self._waiting.now() + GONE_PATIENCE_S
            while (left := self._left(nvml, devices)) and self._waiting.now() < deadline:
                self._waiting.pause(_POLL_S)
        if left:
            self._note(f"after the stop, {'; '.join(left)}")

    def _left(self, nvml: Nvml, devices: tuple[Device, ...]) -> list[str]:
        kept = kept_gib(nvml, devices, self._before_gib)
        left = [
            f"GPU {gpu} had {more:.1f} GiB more in use than before the launch"
            for gpu, more in kept.items()
            if more > KEPT_SLACK_GIB
        ]
        pids = self._owners.still_listed(nvml, devices) if self._owners is not None else []
        if pids:
            left.append(f"the driver still listed pid {', '.join(map(str, pids))} of the trial's")
        return left
