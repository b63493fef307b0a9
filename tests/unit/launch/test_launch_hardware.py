from __future__ import annotations

import pytest

from autotune.domain.trial import Hardware
from autotune.launch.node import node_hardware
from tests.made_up_nvml import MadeUpGpu, MadeUpNvml, NVMLError


class LinkedNvml(MadeUpNvml):
    """`ends`: what is at the other end of each link that is up (1 a GPU, 2 a switch)."""

    def __init__(self, *gpus: MadeUpGpu, capability: tuple[int, int] | None, ends: tuple[int, ...] = ()) -> None:
        super().__init__(*gpus)
        self.capability, self.ends = capability, ends

    def nvmlDeviceGetCudaComputeCapability(self, _gpu: MadeUpGpu) -> tuple[int, int]:
        if self.capability is None:
            raise NVMLError(3)
        return self.capability

    def nvmlDeviceGetNvLinkState(self, _gpu: MadeUpGpu, link: int) -> int:
        if link >= len(self.ends):
            raise NVMLError(3)
        return 1

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, _gpu: MadeUpGpu, link: int) -> int:
        return self.ends[link]


@pytest.mark.parametrize(
    ("capability", "ends", "architecture", "link"),
    [
        ((12, 0), (), "sm120", "pcie"),
        ((9, 0), (2, 2), "sm90", "nvswitch"),
        ((8, 0), (1,), "sm80", "nvlink"),
        (None, (), None, "pcie"),
    ],
)
def test_architecture_and_links_are_what_the_driver_tells(
    capability: tuple[int, int] | None, ends: tuple[int, ...], architecture: str | None, link: str
) -> None:
    nvml = LinkedNvml(MadeUpGpu(), MadeUpGpu(uuid="GPU-2bb"), capability=capability, ends=ends)
    assert node_hardware(nvml) == Hardware(architecture, 2, "NVIDIA H200", 140.0, link)


def test_one_gpu_has_no_link_and_no_gpu_has_no_hardware() -> None:
    alone = node_hardware(LinkedNvml(MadeUpGpu(), capability=(9, 0), ends=(2,)))
    assert alone is not None
    assert alone.link is None
    assert node_hardware(LinkedNvml(capability=None)) is None
