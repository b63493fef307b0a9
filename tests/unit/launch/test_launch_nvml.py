from __future__ import annotations

import pytest
from made_up_nvml import GPU_IS_LOST, LIBRARY_NOT_FOUND, NO_PERMISSION, MadeUpGpu, MadeUpNvml

from autotune.launch.devices import gpu_count, gpu_facts, gpu_holders, gpu_memory_used
from autotune.launch.nvml import GpuChoice, memory_used, opened

GIB = 2**30


def indices(driver: MadeUpNvml, choice: GpuChoice) -> list[int]:
    with opened(driver) as nvml:
        return [device.index for device in choice.devices(nvml)]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (GpuChoice(), [0, 1, 2]),
        (GpuChoice(None, (0, 1)), [0, 1]),
        (GpuChoice("2,0", (0,)), [2]),
        (GpuChoice("GPU-2cc,GPU-1aa"), [2, 0]),
        (GpuChoice("1", (0, 1)), [1]),  # the server wants two, and one is there: its complaint, not ours
        (GpuChoice("", (0,)), []),
    ],
)
def test_a_launch_takes_its_positions_among_what_is_visible(choice: GpuChoice, expected: list[int]) -> None:
    driver = MadeUpNvml(MadeUpGpu("GPU-1aa"), MadeUpGpu("GPU-1bb"), MadeUpGpu("GPU-2cc"))
    assert indices(driver, choice) == expected
    assert driver.uses == 0


def test_a_named_slice_has_memory_of_its_own_and_the_clocks_of_its_board() -> None:
    piece = MadeUpGpu("MIG-7", "H200 MIG 1g.18gb", used_gib=3.0)
    board = MadeUpGpu("GPU-1bb", slices={"MIG-6": MadeUpGpu("MIG-6"), "MIG-7": piece})
    with opened(MadeUpNvml(MadeUpGpu(), board)) as nvml:
        (device,) = GpuChoice("MIG-7", (0,)).devices(nvml)
        assert (device.index, device.part, device.board) == (1, piece, board)
        assert memory_used(nvml, device) == 3 * GIB


def test_of_a_gpu_cut_in_slices_the_first_is_taken_as_cuda_does() -> None:
    pieces = {"MIG-6": MadeUpGpu("MIG-6"), "MIG-7": MadeUpGpu("MIG-7")}
    with opened(MadeUpNvml(MadeUpGpu(slices=pieces))) as nvml:
        (device,) = GpuChoice("0").devices(nvml)
        assert device.part is pieces["MIG-6"]


def test_a_slice_that_is_not_there_is_no_device() -> None:
    assert indices(MadeUpNvml(MadeUpGpu()), GpuChoice("MIG-9")) == []


def test_without_a_driver_there_are_no_gpus_and_the_reason_is_kept() -> None:
    driver = MadeUpNvml(MadeUpGpu(), init_error=LIBRARY_NOT_FOUND)
    with opened(driver) as nvml:
        assert nvml.missing == "error 12"
        assert nvml.handles() == []
    assert gpu_count(driver) == 0
    assert gpu_facts(driver) == {}
    assert gpu_memory_used({}, driver) is None
    assert gpu_holders(driver) == frozenset()


def test_a_lost_gpu_is_passed_over_and_the_others_keep_their_numbers() -> None:
    lost = MadeUpGpu("GPU-1bb", refuses={"all": GPU_IS_LOST})
    driver = MadeUpNvml(MadeUpGpu("GPU-1aa"), lost, MadeUpGpu("GPU-2cc", used_gib=2.0))
    assert indices(driver, GpuChoice()) == [0, 2]
    assert gpu_memory_used({"CUDA_VISIBLE_DEVICES": "1,2"}, driver) == 2 * GIB
    with opened(driver) as nvml:
        nvml.handles()
        assert nvml.lost


def test_what_may_not_be_asked_is_not_known_and_nothing_is_called_lost() -> None:
    driver = MadeUpNvml(MadeUpGpu(refuses={"nvmlDeviceGetPowerUsage": NO_PERMISSION}))
    with opened(driver) as nvml:
        assert nvml.ask("nvmlDeviceGetPowerUsage", nvml.handles()[0]) is None
        assert not nvml.lost


def test_memory_is_told_without_the_drivers_own_where_the_call_has_that_form() -> None:
    old = MadeUpGpu("GPU-1bb", used_gib=2.0, refuses={"nvmlDeviceGetMemoryInfo_v2": 13})
    with opened(MadeUpNvml(MadeUpGpu(used_gib=2.0), old)) as nvml:
        first, second = GpuChoice().devices(nvml)
        assert memory_used(nvml, first) == 2 * GIB
        assert memory_used(nvml, second) == 2.5 * GIB


def test_an_error_of_another_kind_flies_on() -> None:
    with opened(MadeUpNvml(MadeUpGpu())) as nvml, pytest.raises(AttributeError):
        nvml.ask("nvmlNoSuchFunction")
