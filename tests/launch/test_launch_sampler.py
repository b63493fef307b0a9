from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

import pytest
from made_up_nvml import GPU_IS_LOST, LIBRARY_NOT_FOUND, MadeUpGpu, MadeUpNvml

from autotune.launch.nvml import GpuChoice
from autotune.launch.telemetry import Sampler

PARENT = os.getppid()


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "gpu-sampler"]


def sampler(driver: MadeUpNvml, is_ours: Callable[[int], bool] | None = None) -> Sampler:
    return Sampler(GpuChoice(), is_ours=is_ours, period_s=0.005, binding=driver)


def test_a_window_holds_what_was_read_inside_it_alone(eventually: Callable[..., None]) -> None:
    driver = MadeUpNvml(gpu := MadeUpGpu(), MadeUpGpu("GPU-1bb", sm_mhz=1500))
    with sampler(driver) as watching:
        eventually(lambda: watching.windows(0.0, time.monotonic()))
        gpu.reasons = 0x40
        start = time.monotonic()
        eventually(lambda: any(w.samples >= 3 for w in watching.windows(start + 0.001, time.monotonic())))
        end = time.monotonic()
        gpu.reasons = 0
    first, second = watching.windows(start + 0.001, end)
    assert first.throttled == {"hardware thermal slowdown": 1.0}
    assert (second.index, second.sm_clock_mhz, second.throttled) == (1, 1500.0, {})
    assert watching.windows(end + 60, end + 61) == ()
    assert watching.problem == ""
    assert watching.cost_s is not None


def test_nothing_is_left_running_or_open_when_the_level_fails() -> None:
    driver = MadeUpNvml(MadeUpGpu())
    running: list[str] = []

    def interrupted() -> None:
        with sampler(driver):
            running.extend(threads())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert running
    assert not threads()
    assert driver.uses == 0


def test_a_stranger_is_named_while_it_is_there(eventually: Callable[..., None]) -> None:
    driver = MadeUpNvml(gpu := MadeUpGpu(compute={41: 100.0}))
    with sampler(driver, lambda pid: pid == 41) as watching:
        eventually(lambda: watching.windows(0.0, time.monotonic()))
        assert watching.strangers(0.0, time.monotonic()) == ()
        gpu.compute = {41: 100.0, PARENT: 2.0}
        eventually(lambda: watching.strangers(0.0, time.monotonic()))
        gpu.compute = {41: 100.0, PARENT: 7.0}
        eventually(lambda: [p for p in watching.strangers(0.0, time.monotonic()) if p.memory_gib == 7.0])
        gpu.compute = {41: 100.0}
    (stranger,) = watching.strangers(0.0, time.monotonic())
    assert (stranger.pid, stranger.gpu, stranger.memory_gib) == (PARENT, 0, 7.0)
    assert stranger.name


def test_without_owners_nobody_is_a_stranger(eventually: Callable[..., None]) -> None:
    with sampler(MadeUpNvml(MadeUpGpu(compute={PARENT: 2.0}))) as watching:
        eventually(lambda: watching.windows(0.0, time.monotonic()))
    assert watching.strangers(0.0, time.monotonic()) == ()


@pytest.mark.parametrize(
    ("driver", "problem"),
    [
        (MadeUpNvml(MadeUpGpu(), init_error=LIBRARY_NOT_FOUND), "error 12"),
        (MadeUpNvml(), "opens none"),
        (MadeUpNvml(MadeUpGpu(refuses={"all": GPU_IS_LOST})), "lost"),
    ],
    ids=["no driver", "no GPU", "lost GPU"],
)
def test_where_nothing_can_be_read_it_says_why(driver: MadeUpNvml, problem: str) -> None:
    with sampler(driver) as watching:
        pass
    assert problem in watching.problem
    assert watching.windows(0.0, time.monotonic()) == ()
    assert watching.cost_s is None


def test_a_bug_in_the_thread_is_raised_where_the_level_ends() -> None:
    def buggy(_pid: int) -> bool:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), sampler(MadeUpNvml(MadeUpGpu(compute={1: None})), buggy):
        pass


def test_a_driver_that_hangs_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autotune.launch.telemetry._JOIN_PATIENCE_S", 0.05)
    answers = threading.Event()
    driver = MadeUpNvml(MadeUpGpu())
    driver.before_call = lambda function: answers.wait() if function == "nvmlDeviceGetPowerUsage" else None
    began = time.monotonic()
    with sampler(driver) as watching:
        pass
    assert time.monotonic() - began < 5.0
    assert "did not answer" in watching.problem
    answers.set()
