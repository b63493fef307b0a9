"""When a level's window was disturbed by what happened on its GPUs, and what is done about it: once more, once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from autotune.domain.finding import ServerWindow
from autotune.domain.measurement import DeviceWindow, LevelRun, Measurement
from autotune.domain.study import StudySpec
from autotune.domain.trial import TrialRequest
from autotune.domain.workload import LevelPlan, MeasurementPlan, PromptSource
from autotune.launch import Sampler

SLOWDOWNS = (
    "hardware slowdown",
    "hardware thermal slowdown",
    "software thermal slowdown",
    "hardware power brake",
)
"""Reasons that hold the clocks below what the GPU does in good health."""

SLOWDOWN_SHARE = 0.05
"""Of the readings: a blink, as when load sets in, moves no throughput."""

POWER_CAP = "software power cap"
CAPPED_SHARE, UNCAPPED_SHARE = 0.5, 0.1


@dataclass(frozen=True)
class WatchedLevel:
    """One passage of a level. `disturbed`: what speaks against its window; empty if nothing does. `spoiled`: the part
    of it that guards found beside the GPUs. `server`, `others`: see scoring.Evidence."""

    run: LevelRun
    measurement: Measurement
    disturbed: tuple[str, ...] = ()
    spoiled: tuple[str, ...] = ()
    server: ServerWindow | None = None
    others: tuple[tuple[str, float], ...] = ()

    @property
    def on_the_gpus(self) -> tuple[str, ...]:
        return tuple(reason for reason in self.disturbed if reason not in self.spoiled)


def watched(
    run: LevelRun, measurement: Measurement, sampler: Sampler | None, *, began_s: float, rate: float
) -> WatchedLevel:
    """`began_s`: when the level began, on the monotonic clock, which `rate` node seconds go to the second of.

    Nothing is known of the GPUs over a window that there is not."""
    if sampler is None or run.window is None:
        return WatchedLevel(run, measurement)
    start_s, end_s = (began_s + node_s / rate for node_s in run.window)
    devices = sampler.windows(start_s, end_s)
    remarks = (*measurement.remarks, *uneven_caps(devices))
    strangers = tuple(str(process) for process in sampler.strangers(start_s, end_s))
    return WatchedLevel(run, replace(measurement, devices=devices, remarks=remarks), verdict(devices, strangers))


def verdict(devices: Sequence[DeviceWindow], foreign: Sequence[str]) -> tuple[str, ...]:
    """What makes a window another than that of this server on healthy GPUs; `foreign` are processes of others.

    A software power cap is none of it: at full load it is how a GPU runs.
    """
    found = []
    for reason in SLOWDOWNS:
        held = [d for d in devices if d.throttled.get(reason, 0.0) > SLOWDOWN_SHARE]
        if held:
            found.append(f"{reason} on {', '.join(_held(device, reason) for device in held)}")
    if foreign:
        found.append(f"another's process on the trial's GPUs: {'; '.join(foreign)}")
    return tuple(found)


def _held(device: DeviceWindow, reason: str) -> str:
    warm = "" if device.temperature_c is None else f", up to {device.temperature_c:.0f} °C"
    return f"GPU {device.index} ({device.throttled[reason]:.0%} of {device.samples} readings{warm})"


def uneven_caps(devices: Sequence[DeviceWindow]) -> tuple[str, ...]:
    """A cap that holds some GPUs of a trial and not the others: the slowest sets the pace of all, and a reader must
    know it. Measuring again would show the same, so this disturbs no window."""
    shares = {device.index: device.throttled.get(POWER_CAP, 0.0) for device in devices}
    capped = [index for index, share in shares.items() if share > CAPPED_SHARE]
    free = [index for index, share in shares.items() if share <= UNCAPPED_SHARE]
    if not capped or not free:
        return ()
    names = ", ".join(str(index) for index in capped)
    return (f"{POWER_CAP} on GPU {names} alone for more than {CAPPED_SHARE:.0%} of the window: GPU {free[0]} had none",)


def settled(first: WatchedLevel, second: WatchedLevel) -> WatchedLevel:
    """Which of two passages stands: the second if it is clean, with the reason; otherwise the first, with both."""
    why = "; ".join(first.disturbed)
    if not second.disturbed:
        told = f"measured twice: the first window was disturbed and gave {_throughput(first)} ({why})"
        return _remarked(second, told)
    again = "; ".join(second.disturbed)
    return _remarked(first, f"disturbed: {why}", f"measured again, {_throughput(second)}, and disturbed again: {again}")


def unrepeated(level: WatchedLevel, why_not: str) -> WatchedLevel:
    return _remarked(level, f"disturbed: {'; '.join(level.disturbed)}; not measured again: {why_not}")


def _remarked(level: WatchedLevel, *remarks: str) -> WatchedLevel:
    seen = level.measurement
    return replace(level, measurement=replace(seen, remarks=(*seen.remarks, *remarks)))


def _throughput(level: WatchedLevel) -> str:
    seen = level.measurement.output_throughput
    return "no throughput" if seen is None else f"{seen.value:.4g} tok/s"


def promised_prompts(spec: StudySpec, request: TrialRequest) -> int:
    """What the trials after this one need, as far as the budget says how many there are. A confirmation has prompts of
    its own, of which every run that is left at most needs its part."""
    plan = request.replicate
    if plan is not None:
        return (plan.rounds - plan.round + 1) * (len(plan.finalists) + 1) * spec.plan().prompts
    return max(0, (spec.budget.trials or 0) - request.number - 1) * spec.plan().prompts


def why_no_repeat(
    plan: MeasurementPlan, level: LevelPlan, prompts: PromptSource, *, promised: int, hopeless: bool
) -> str:
    """Empty if the level may be measured once more. `hopeless`: another level of this launch was, to no avail.

    Fresh prompts are finite: what the rest of the plan and later trials (`promised`) need is not spent on it.
    """
    if hopeless:
        return "it did not help at another level of this trial"
    rest = sum(later.prompts for later in plan.levels[plan.levels.index(level) + 1 :])
    spare = prompts.capacity - prompts.position - rest - promised
    if spare < level.prompts:
        return f"it takes {level.prompts:,} fresh prompts, and {max(0, spare):,} can be spared"
    return ""
