"""Which arguments speak of traffic between GPUs, and are dead where there is none."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.engines.dialect.figures import whole

ALL_REDUCE = frozenset(
    {
        "custom_all_reduce",
        "allreduce_fusion",
        "symm_mem",
        "torch_symm_mem",
        "mscclpp",
        "nccl_nvls",
        "pcie_ipc_allreduce",
        "SGLANG_PCIE_IPC_MAX_NUMEL",
        "SGLANG_OPT_USE_CUSTOM_ALL_REDUCE_V2",
    }
)


def ranks(asked: Mapping[str, object]) -> int | None:
    """GPUs of one model replica; None where the text says no number."""
    sizes = [whole(1 if asked.get(name) is None else asked[name]) for name in ("tp_size", "pp_size")]
    return None if None in sizes else (sizes[0] or 1) * (sizes[1] or 1)


def is_alone(asked: Mapping[str, object]) -> bool:
    """One rank sends nothing to anyone. Data-parallel replicas do not talk to each other either."""
    return ranks(asked) == 1


def is_communication(name: str) -> bool:
    """A name of the space file that is dead on one rank."""
    return name in ALL_REDUCE or name.startswith("NCCL_")
