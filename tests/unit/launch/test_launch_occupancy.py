from __future__ import annotations

import os

import psutil
import pytest
from made_up_nvml import NOT_SUPPORTED, MadeUpGpu, MadeUpNvml

from autotune.launch.nvml import GpuChoice, opened
from autotune.launch.occupancy import GpuProcess, Occupancy, Owners, occupancy

OURS, FOREIGN_HOST_PID = os.getpid(), 4_999_999  # the second is above any number that the kernel gives
PARENT = os.getppid()


def seen(*gpus: MadeUpGpu) -> Occupancy:
    with opened(MadeUpNvml(*gpus)) as nvml:
        return occupancy(nvml, GpuChoice().devices(nvml))


def test_an_idle_gpu_is_free() -> None:
    idle = seen(MadeUpGpu())
    assert idle.free
    assert idle.reason == ""


def test_a_process_of_another_is_named_with_user_and_memory() -> None:
    busy = seen(MadeUpGpu(), MadeUpGpu(compute={PARENT: 40.25}))
    process = psutil.Process(PARENT)
    assert not busy.free
    assert busy.reason == f"GPU 1: pid {PARENT} ({process.name()} of {process.username()}), 40.2 GiB"


def test_a_process_of_another_namespace_is_named_by_its_number_alone() -> None:
    assert seen(MadeUpGpu(compute={FOREIGN_HOST_PID: None})).reason == f"GPU 0: pid {FOREIGN_HOST_PID}"


def test_this_program_and_a_desktop_are_nobody() -> None:
    assert seen(MadeUpGpu(compute={OURS: 0.5, PARENT: 0.3}, graphics={PARENT: 0.3}, used_gib=0.8)).free


@pytest.mark.parametrize(("used", "free", "refused"), [(0.9, True, False), (5.0, False, False), (20.0, False, True)])
def test_memory_without_an_owner_is_waited_for_borne_in_part_and_refused_beyond(
    used: float, free: bool, refused: bool
) -> None:
    found = seen(MadeUpGpu(used_gib=used, total_gib=140.0))
    assert found.free is free
    assert bool(found.reason) is refused
    if refused:
        assert found.reason == "GPU 0: 20.0 of 140 GiB in use, and no process that could be named"


def test_what_the_driver_does_not_list_is_not_an_empty_list() -> None:
    hidden = {"nvmlDeviceGetComputeRunningProcesses": NOT_SUPPORTED, "nvmlDeviceGetMemoryInfo": NOT_SUPPORTED}
    found = seen(MadeUpGpu(refuses={**hidden, "nvmlDeviceGetMemoryInfo_v2": NOT_SUPPORTED}))
    assert found.processes is None
    assert found.used_gib == {}
    assert seen(MadeUpGpu()).processes == ()


def test_where_numbers_agree_a_process_started_later_is_asked_for_once() -> None:
    asked = []

    def own() -> list[int]:
        asked.append(1)
        return [10, 11] if len(asked) == 1 else [10, 11, 12]

    owners = Owners({10}, own)
    assert owners.comparable
    assert owners.is_ours(11)
    assert owners.is_ours(12)
    assert not owners.is_ours(PARENT)
    before = len(asked)
    assert not owners.is_ours(PARENT)
    assert len(asked) == before


def test_a_process_that_is_gone_before_it_can_be_looked_at_is_let_pass() -> None:
    assert Owners({10}, lambda: [10]).is_ours(FOREIGN_HOST_PID)


def test_in_another_namespace_what_was_there_at_the_start_is_ours_and_what_comes_is_not() -> None:
    owners = Owners({FOREIGN_HOST_PID}, lambda: [10])
    assert not owners.comparable
    assert owners.is_ours(FOREIGN_HOST_PID)
    assert not owners.is_ours(FOREIGN_HOST_PID + 1)


def test_where_nothing_is_listed_nobody_can_be_told() -> None:
    assert Owners((), lambda: [10]).hidden
    assert not Owners({10}, lambda: [10]).hidden


def test_a_process_is_shown_with_what_is_known_of_it() -> None:
    assert str(GpuProcess(7, 2, 1.0, "python3", "bob")) == "GPU 2: pid 7 (python3 of bob), 1.0 GiB"
    assert str(GpuProcess(7, 2, None, "python3")) == "GPU 2: pid 7 (python3)"
