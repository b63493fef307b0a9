"""What a GPU generation and the links between GPUs decide."""

from __future__ import annotations

from autotune.domain.trial import Hardware


def generation(hardware: Hardware | None) -> int | None:
    """90 from sm90, 120 from sm120a; None where it is not known."""
    if hardware is None or hardware.architecture is None:
        return None
    digits = "".join(letter for letter in hardware.architecture if letter.isdigit())
    return int(digits) if digits else None


def is_hopper(number: int) -> bool:
    return number == 90


def is_datacentre_blackwell(number: int) -> bool:
    """sm100 and sm103."""
    return 100 <= number < 110


def is_consumer_blackwell(number: int) -> bool:
    """sm120 and sm121: other kernels than sm100, though both are called Blackwell."""
    return 120 <= number < 130


def is_pcie_only(hardware: Hardware | None) -> bool:
    """Known to have no NVLink. No sm120 card has any."""
    if hardware is None or hardware.gpu_count == 1:
        return False
    return hardware.link == "pcie" or (hardware.link is None and generation(hardware) == 120)


def has_nvlink(hardware: Hardware | None) -> bool:
    return hardware is not None and hardware.link in ("nvlink", "nvswitch")
