"""What NCCL takes, and where it carries anything."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.domain.trial import Hardware
from autotune.engines.dialect.communication import ranks
from autotune.engines.dialect.figures import is_on, whole
from autotune.engines.dialect.hardware import has_nvlink, is_pcie_only
from autotune.engines.dialect.nearest import did_you_mean
from autotune.engines.dialect.rules import Rule, Site

_ALGORITHMS = ("Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT")
_FUNCTIONS = ("broadcast", "reduce", "allgather", "reducescatter", "allreduce")
_PROTOCOLS = ("LL", "LL128", "Simple")
_GATHERS = frozenset({"ring", "nvls", "pat", "collnetdirect"})
"""Algorithms that AllGather has."""
_LEVELS = ("LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS")
_TUNING = (
    "NCCL_PROTO",
    "NCCL_ALGO",
    "NCCL_MIN_NCHANNELS",
    "NCCL_MAX_NCHANNELS",
    "NCCL_BUFFSIZE",
    "NCCL_NTHREADS",
)
_CUSTOM_SIZES = (2, 4, 6, 8)
_IPC_SIZES = (2, 4, 8)
_MAX_CHANNELS = 64


def _lists(text: str) -> list[tuple[str, list[str], bool]]:
    """(function or "", its words, whether they are excluded) for each part of `list;function:list;...`."""
    parts = []
    for part in text.split(";"):
        function, colon, words = part.rpartition(":")
        excluded = words.startswith("^")
        listed = [word.strip() for word in words.removeprefix("^").split(",")]
        parts.append((function.strip() if colon else "", listed, excluded))
    return parts


def _words(name: str, known: tuple[str, ...], text: str) -> str | None:
    for index, (function, words, _excluded) in enumerate(_lists(text)):
        if function and function.lower() not in _FUNCTIONS:
            return f"{name} names the function {function}, which NCCL does not have{did_you_mean(function, _FUNCTIONS)}"
        if index and not function:
            return f"{name} must name a function in each part but the first (allreduce:ring), but got {text}"
        for word in words:
            if word.lower() not in [one.lower() for one in known]:
                return f"{name} takes {', '.join(known)}, but got {word or text!r}{did_you_mean(word, known)}"
    return None


def _algorithm_words(asked: Mapping[str, object], site: Site) -> str | None:
    value = asked["NCCL_ALGO"]
    if not isinstance(value, str):
        return None if value is None else f"NCCL_ALGO takes {', '.join(_ALGORITHMS)}, but got {value!r}"
    if (wrong := _words("NCCL_ALGO", _ALGORITHMS, value)) is not None:
        return wrong
    function, words, excluded = _lists(value)[0]
    if function or excluded or _GATHERS.intersection(word.lower() for word in words):
        return None
    return (
        f"NCCL_ALGO {value} is asked of AllGather too, which has no such algorithm, and the start fails: write "
        f"allreduce:{','.join(words).lower()}"
    )


def _protocol_words(asked: Mapping[str, object], site: Site) -> str | None:
    value = asked["NCCL_PROTO"]
    if not isinstance(value, str):
        return None if value is None else f"NCCL_PROTO takes {', '.join(_PROTOCOLS)}, but got {value!r}"
    return _words("NCCL_PROTO", _PROTOCOLS, value)


def _ll128(asked: Mapping[str, object], site: Site) -> str | None:
    value = asked["NCCL_PROTO"]
    if not isinstance(value, str):
        return None
    if all(excluded or "ll128" not in [w.lower() for w in words] for _function, words, excluded in _lists(value)):
        return None
    return (
        f"NCCL_PROTO {value} needs 128-byte stores that PCIe does not keep whole: it can corrupt data; use LL or Simple"
    )


def _p2p_level(asked: Mapping[str, object], site: Site) -> str | None:
    value = asked["NCCL_P2P_LEVEL"]
    if value is None or str(value) in _LEVELS or (whole(value) is not None and 0 <= (whole(value) or 0) <= 5):
        return None
    near = did_you_mean(str(value).upper(), _LEVELS)
    return (
        f"NCCL_P2P_LEVEL takes {', '.join(_LEVELS)} in capitals, and passes over anything else, but got {value}{near}"
    )


def _sockets(asked: Mapping[str, object], site: Site) -> str | None:
    no_peers = is_on(asked["NCCL_P2P_DISABLE"]) or asked["NCCL_P2P_LEVEL"] == "LOC"
    if not no_peers or not is_on(asked["NCCL_SHM_DISABLE"]):
        return None
    return (
        "NCCL_SHM_DISABLE beside NCCL_P2P_DISABLE (or NCCL_P2P_LEVEL LOC) sends traffic inside the node through sockets"
    )


def _channels(asked: Mapping[str, object], site: Site) -> str | None:
    low, high = asked["NCCL_MIN_NCHANNELS"], asked["NCCL_MAX_NCHANNELS"]
    for name, value in (("NCCL_MIN_NCHANNELS", low), ("NCCL_MAX_NCHANNELS", high)):
        if value is not None and not 1 <= (whole(value) or 0) <= _MAX_CHANNELS:
            return f"{name} must be in 1..{_MAX_CHANNELS}, but got {value}"
    fewest, most = whole(low), whole(high)
    if fewest is None or most is None or fewest <= most:
        return None
    return f"NCCL_MIN_NCHANNELS must not be above NCCL_MAX_NCHANNELS, but {fewest} > {most}"


def _threads(asked: Mapping[str, object], site: Site) -> str | None:
    value = asked["NCCL_NTHREADS"]
    threads = whole(value)
    if value is None or (threads is not None and 64 <= threads <= 512 and threads % 32 == 0):
        return None
    return f"NCCL_NTHREADS must be a multiple of 32 in 64..512, but got {value}: NCCL would use another number"


def _yes_or_no(asked: Mapping[str, object], site: Site) -> str | None:
    for name in ("NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE"):
        if asked[name] is not None and not isinstance(asked[name], bool) and whole(asked[name]) not in (0, 1):
            return f"{name} must be 0 or 1, but got {asked[name]}"
    return None


def _carried(asked: Mapping[str, object], site: Site) -> str | None:
    named = [name for name in _TUNING if site.chose(name, asked)]
    if not named or asked["custom_all_reduce"] is False or ranks(asked) not in _CUSTOM_SIZES:
        return None
    return (
        f"{named[0]} changes next to nothing here: SGLang's own all-reduce carries what NCCL would over "
        f"{ranks(asked)} GPUs; add custom_all_reduce with a false, and search {named[0]} only there"
    )


def _custom_carries(hardware: Hardware) -> bool:
    """SGLang's own all-reduce runs over NVLink, and over two PCIe GPUs."""
    return has_nvlink(hardware) or (is_pcie_only(hardware) and hardware.gpu_count == 2)


def _deterministic(asked: Mapping[str, object], site: Site) -> str | None:
    named = [name for name in ("NCCL_ALGO", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS") if asked[name] is not None]
    if not is_on(asked["enable_deterministic_inference"]) or not named:
        return None
    return f"{named[0]} is overwritten by enable_deterministic_inference"


def _ipc_ranks(asked: Mapping[str, object], site: Site) -> str | None:
    if not is_on(asked["pcie_ipc_allreduce"]) or whole(asked["tp_size"]) in (None, *_IPC_SIZES):
        return None
    return f"pcie_ipc_allreduce takes tp_size 2, 4 or 8, but got {asked['tp_size']}: NCCL would carry the traffic"


_NCCL = "NCCL 2.30 "

RULES = (
    Rule(
        "nccl-algo-words",
        "NCCL_ALGO is written as NCCL reads it, and a bare tree as allreduce:tree",
        _NCCL + "src/graph/tuning.cc:36-130, 294-298, src/enqueue.cc:2052-2066",
        ("NCCL_ALGO",),
        _algorithm_words,
    ),
    Rule(
        "nccl-proto-words",
        "NCCL_PROTO is LL, LL128 or Simple",
        _NCCL + "src/graph/tuning.cc:36-130",
        ("NCCL_PROTO",),
        _protocol_words,
    ),
    Rule(
        "ll128-link",
        "NCCL_PROTO LL128: not on PCIe",
        _NCCL + "src/graph/tuning.cc:515-532",
        ("NCCL_PROTO",),
        _ll128,
        hardware=is_pcie_only,
    ),
    Rule(
        "nccl-p2p-level-words",
        "NCCL_P2P_LEVEL is one of NCCL's words, in capitals",
        _NCCL + "src/graph/paths.cc:244-345",
        ("NCCL_P2P_LEVEL",),
        _p2p_level,
    ),
    Rule(
        "nccl-sockets",
        "NCCL has peer access or shared memory left",
        _NCCL + "src/graph/paths.cc:244-345",
        ("NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_SHM_DISABLE"),
        _sockets,
        about=("NCCL_SHM_DISABLE",),
    ),
    Rule(
        "nccl-switches",
        "NCCL_P2P_DISABLE and NCCL_SHM_DISABLE are 0 or 1",
        _NCCL + "src/graph/paths.cc:244-345",
        ("NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE"),
        _yes_or_no,
    ),
    Rule(
        "nccl-channels",
        "1 <= NCCL_MIN_NCHANNELS <= NCCL_MAX_NCHANNELS <= 64",
        _NCCL + "src/graph/connect.cc:328-358",
        ("NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS"),
        _channels,
    ),
    Rule(
        "nccl-threads",
        "NCCL_NTHREADS is a multiple of 32 in 64..512",
        _NCCL + "src/graph/tuning.cc",
        ("NCCL_NTHREADS",),
        _threads,
    ),
    Rule(
        "nccl-carries",
        "NCCL's tuning is searched only where NCCL carries the all-reduce",
        "sglang 0.5.23 distributed/device_communicators/custom_all_reduce_utils.py:490-500",
        ("tp_size", "pp_size", "custom_all_reduce", *_TUNING),
        _carried,
        hardware=_custom_carries,
        about=_TUNING,
        bearable=True,
    ),
    Rule(
        "nccl-deterministic",
        "deterministic inference sets NCCL's algorithm and channels itself",
        "sglang 0.5.23 arg_groups/attention_hook.py:667-701",
        ("enable_deterministic_inference", "NCCL_ALGO", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS"),
        _deterministic,
        about=("enable_deterministic_inference",),
    ),
    Rule(
        "pcie-ipc-ranks",
        "the PCIe-IPC all-reduce takes 2, 4 or 8 GPUs",
        "sglang 0.5.23 distributed/device_communicators/pcie_ipc_ar.py:1-70",
        ("pcie_ipc_allreduce", "tp_size"),
        _ipc_ranks,
        about=("pcie_ipc_allreduce",),
    ),
)
