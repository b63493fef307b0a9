"""One line for the GPUs over a level's window."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.domain.level import label
from autotune.domain.measurement import DeviceWindow, Measurement
from autotune.domain.trial import TrialResult


def gpu_lines(trial: TrialResult) -> list[str]:
    """A line for each level whose GPUs were watched."""
    return [gpu_line(m) for m in trial.measurements if m.devices]


def gpu_line(m: Measurement) -> str:
    """`C= 10 | 8 GPUs | 412 W each | SM 1890 MHz (lowest 1755) | up to 71 °C | memory 131.0 GiB | hardware slowdown on
    GPU 3 (24%)`; what was not told is left out, and the slowest, hottest and fullest GPU is what is shown."""
    devices = m.devices
    parts = [label(m.level, width=3), f"{len(devices)} GPU{'s' if len(devices) != 1 else ''}"]
    power = _known([d.power_w for d in devices])
    if power:
        parts.append(f"{sum(power) / len(power):.0f} W{' each' if len(devices) != 1 else ''}")
    clocks = _known([d.sm_clock_mhz for d in devices])
    if clocks:
        lowest = min(_known([d.sm_clock_min_mhz for d in devices]), default=min(clocks))
        parts.append(f"SM {min(clocks):.0f} MHz (lowest {lowest:.0f})")
    if warmest := _known([d.temperature_c for d in devices]):
        parts.append(f"up to {max(warmest):.0f} °C")
    if memory := _known([d.memory_used_gib for d in devices]):
        parts.append(f"memory {max(memory):.1f} GiB")
    return " | ".join([*parts, *_throttling(devices)])


def _throttling(devices: Sequence[DeviceWindow]) -> list[str]:
    """For each reason the GPUs that it held, with its share of the readings."""
    reasons = dict.fromkeys(reason for device in devices for reason in device.throttled)
    found = []
    for reason in reasons:
        shares = [f"{d.index} ({d.throttled[reason]:.0%})" for d in devices if reason in d.throttled]
        found.append(f"{reason} on GPU {', '.join(shares)}")
    return found


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]
