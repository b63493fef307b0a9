from __future__ import annotations

import pytest
from made_up_nvml import GPU_IS_LOST, NOT_SUPPORTED, MadeUpGpu, MadeUpNvml

from autotune.launch.nvml import Device, GpuChoice, opened
from autotune.launch.telemetry import Reading, device_window, read, throttle_words

DEVICE = Device(3, "NVIDIA H200", None, None)


def reading(gpu: MadeUpGpu) -> Reading:
    with opened(MadeUpNvml(gpu)) as nvml:
        (device,) = GpuChoice().devices(nvml)
        return read(nvml, device, 7.0)


def test_a_reading_is_in_watts_megahertz_degrees_and_gib() -> None:
    assert reading(MadeUpGpu(used_gib=120.0, reasons=0x40)) == Reading(
        at_s=7.0,
        power_w=400.0,
        sm_clock_mhz=1980,
        memory_clock_mhz=3201,
        temperature_c=55,
        reasons=0x40,
        utilisation=0.97,
        memory_gib=120.0,
    )


def test_an_older_driver_is_asked_by_the_older_name() -> None:
    older = MadeUpGpu(reasons=0x8, refuses={"nvmlDeviceGetCurrentClocksEventReasons": 13})
    assert reading(older).reasons == 0x8


def test_what_is_not_told_is_missing_and_never_zero() -> None:
    gpu = MadeUpGpu(refuses={"nvmlDeviceGetPowerUsage": NOT_SUPPORTED, "nvmlDeviceGetClockInfo": NOT_SUPPORTED})
    found = reading(gpu)
    assert (found.power_w, found.sm_clock_mhz, found.memory_clock_mhz) == (None, None, None)
    assert found.temperature_c == 55


def test_a_gpu_that_is_lost_while_it_is_read_gives_an_empty_reading() -> None:
    gpu = MadeUpGpu()
    with opened(MadeUpNvml(gpu)) as nvml:
        (device,) = GpuChoice().devices(nvml)
        gpu.refuses["all"] = GPU_IS_LOST
        assert read(nvml, device, 7.0) == Reading(7.0)
        assert nvml.lost


@pytest.mark.parametrize(
    ("bits", "words"),
    [
        (0x0, ()),
        (0x1, ()),  # idle
        (0x4, ("software power cap",)),
        (0x48, ("hardware slowdown", "hardware thermal slowdown")),
        (0x401, ("reason 0x400",)),
    ],
)
def test_bits_become_words(bits: int, words: tuple[str, ...]) -> None:
    assert throttle_words(bits) == words


def test_a_window_has_means_extremes_and_shares() -> None:
    window = device_window(
        DEVICE,
        [
            Reading(0.0, 400.0, 1980, 3201, 60, 0x0, 1.0, 100.0),
            Reading(0.5, 600.0, 1500, 3201, 80, 0x44, 0.5, 120.0),
            Reading(1.0, None, None, None, None, None, None, None),
        ],
    )
    assert (window.index, window.name, window.samples) == (3, "NVIDIA H200", 3)
    assert window.power_w == 500.0
    assert (window.sm_clock_mhz, window.sm_clock_min_mhz, window.memory_clock_mhz) == (1740.0, 1500.0, 3201.0)
    assert (window.temperature_c, window.utilisation, window.memory_used_gib) == (80.0, 0.75, 120.0)
    assert window.throttled == {"software power cap": 0.5, "hardware thermal slowdown": 0.5}  # of those that told


def test_a_window_of_empty_readings_says_how_many_there_were_and_nothing_else() -> None:
    window = device_window(DEVICE, [Reading(0.0)])
    assert (window.samples, window.power_w, window.sm_clock_min_mhz, window.throttled) == (1, None, None, {})
