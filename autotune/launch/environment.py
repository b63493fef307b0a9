"""What a server gets of the shell's environment: an allow-list, and the names of what it would have read besides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from autotune.domain.trial import LaunchCommand

_ALLOWED = frozenset(
    {
        # Finding programs and libraries: ninja, nvcc and a C compiler build kernels at the first start.
        "PATH",
        "LD_LIBRARY_PATH",
        "CUDA_HOME",
        "CUDA_PATH",
        "CC",
        "CXX",
        # Who and where: caches of compiled kernels live below the home and carry the user's name.
        "HOME",
        "USER",
        "LOGNAME",
        "XDG_CACHE_HOME",
        # Text and time, so that the log reads as its owner's other logs do.
        "LANG",
        "LANGUAGE",
        "TZ",
        # Which devices are ours to use is the node owner's (or batch system's) decision, not a setting to tune.
        "CUDA_VISIBLE_DEVICES",
        "CUDA_DEVICE_ORDER",
        "NVIDIA_VISIBLE_DEVICES",
        # Where models lie and whether the hub may be asked. HF_TOKEN is not here: what a server gets is recorded.
        "HF_HOME",
        "HF_HUB_CACHE",
        "HF_HUB_OFFLINE",
        "TRANSFORMERS_OFFLINE",
        # A site's own certificates.
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "REQUESTS_CA_BUNDLE",
        "CURL_CA_BUNDLE",
    }
)
_ALLOWED_PREFIXES = ("LC_",)

_READ_PREFIXES = (
    "NCCL_",
    "SGLANG_",
    "SGL_",
    "VLLM_",
    "CUDA_",
    "CUBLAS",
    "CUDNN_",
    "NVIDIA_",
    "NVTE_",
    "NVSHMEM_",
    "UCX_",
    "GLOO_",
    "TORCH",
    "PYTORCH_",
    "INDUCTOR_",
    "FLASHINFER_",
    "TRITON_",
    "TRTLLM_",
    "TILELANG_",
    "DG_",
    "OMP_",
    "GOMP_",
    "KMP_",
    "MKL_",
    "OPENBLAS_",
    "NUMEXPR_",
    "MALLOC_",
    "LD_",
    "PYTHON",
    "HF_",
    "TRANSFORMERS_",
    "TOKENIZERS_",
    "PROMETHEUS_",
)
_READ_SUFFIXES = ("_PROXY",)  # a proxy of the shell would also catch the server's own requests to itself


def allowed(shell: Mapping[str, str]) -> dict[str, str]:
    """The part of `shell` that every program started here may have."""
    return {name: value for name, value in shell.items() if _is_allowed(name)}


def complete_environment(command: LaunchCommand, shell: Mapping[str, str], *, tmpdir: Path) -> LaunchCommand:
    """`command` with all that the child gets: the allow-list, TMPDIR, unbuffered output, and over these what it names.

    `dropped` holds names of `shell` that a server would have read and does not get; a variable that the command sets
    itself is not among them.
    """
    base = {**allowed(shell), "TMPDIR": str(tmpdir), "PYTHONUNBUFFERED": "1"}
    environment = {**base, **command.environment}
    dropped = {name for name in shell if _would_be_read(name) and name not in environment}
    return replace(command, environment=environment, dropped=tuple(sorted(dropped | set(command.dropped))))


def _is_allowed(name: str) -> bool:
    return name in _ALLOWED or name.startswith(_ALLOWED_PREFIXES)


def _would_be_read(name: str) -> bool:
    upper = name.upper()
    return upper.startswith(_READ_PREFIXES) or upper.endswith(_READ_SUFFIXES)
