"""What is known of the node and of the command, in the names that the conditions of the tables speak of."""

from __future__ import annotations

import re
from collections.abc import Mapping

from autotune.domain.configuration import Value
from autotune.domain.trial import Hardware
from autotune.errors import InputError

LINKS = ("pcie", "nvlink", "nvswitch")
_ARCHITECTURE = re.compile(r"sm(\d{2,3})[a-z]?")

NAMES = frozenset(
    {
        "release", "sm", "gpus", "link", "tp", "largest", "algorithm", "draft", "page", "moe", "quantization",
        "split_attention", "dp_attention", "graphs", "own_backend",
    }
)  # fmt: skip
"""What a condition may speak of: `release` as one number (0.5.23 is 523), `sm` (120), `gpus`, `link`, `tp` ranks,
`largest` level, the command's own `algorithm`, `page` size, `quantization` and attention backend (`own_backend`), and
whether there are a draft model (`draft`), experts, two attention backends, attention DP, decode graphs."""


def parse_hardware(text: str) -> Hardware:
    """`sm120:8:pcie`; the count and the link may be left out. Raises InputError."""
    parts = text.strip().lower().split(":")
    found = _ARCHITECTURE.fullmatch(parts[0])
    count = parts[1] if len(parts) > 1 else "1"
    link = parts[2] if len(parts) > 2 else None
    if found is None or not count.isdecimal() or int(count) < 1 or len(parts) > 3 or link not in (None, *LINKS):
        raise InputError(
            f"--gpu must be architecture:count:link, such as sm120:8:pcie, sm100:8:nvswitch or sm90, but got {text}",
            hint=f"links: {', '.join(LINKS)}",
        )
    return Hardware(f"sm{found.group(1)}", int(count), link=link if int(count) > 1 else None)


def compute_capability(hardware: Hardware | None) -> int | None:
    """120 of sm120."""
    found = _ARCHITECTURE.fullmatch((hardware.architecture or "") if hardware else "")
    return int(found.group(1)) if found else None


def release_number(release: tuple[int, ...]) -> int:
    """0.5.23 is 523: one number, so that conditions compare it."""
    major, minor, patch = (*release, 0, 0, 0)[:3]
    return major * 10000 + minor * 100 + patch


def shown(hardware: Hardware | None) -> str:
    if hardware is None or (hardware.architecture is None and not hardware.gpu_count):
        return "GPUs not known"
    name = " ".join(part for part in (hardware.architecture, hardware.gpu_name) if part) or "unknown GPUs"
    return f"{hardware.gpu_count} x {name}" + (f" over {hardware.link}" if hardware.link else "")


def number(value: Value | None) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def named(values: Mapping[str, Value]) -> dict[str, Value]:
    """Every name of NAMES, None (unset) where nothing is known."""
    return {name: values.get(name) for name in NAMES}
