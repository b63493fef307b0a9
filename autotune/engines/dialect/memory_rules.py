"""Memory that ran out: of the GPU, by what the server did at the time, of the machine, and of /dev/shm.

The cures are opposite ones. The static share holds weights and KV cache; graphs, activations and work space live in
what it leaves. So a pool that comes out empty wants a larger mem-fraction-static, and a lack while graphs are captured
or requests served a smaller one. What runs out while weights load does not depend on it at all.
"""

from __future__ import annotations

from autotune.domain.trial import FailureReason
from autotune.engines.dialect.phases import RUNNING, Phase
from autotune.engines.dialect.rule import Rule, any_of

GPU_MEMORY = any_of(
    r"OutOfMemoryError",
    r"CUDA out of memory",
    r"HIP out of memory",
    r"CUDA error: out of memory",
    r"CUDA_ERROR_OUT_OF_MEMORY",
    r"cudaErrorMemoryAllocation",
    r"CUBLAS_STATUS_ALLOC_FAILED",
    r"[Cc]uda failure .{0,6}out of memory",
)

_BY_PHASE: tuple[tuple[frozenset[Phase], FailureReason, str, str], ...] = (
    (
        frozenset({Phase.WEIGHTS}),
        FailureReason.OUT_OF_MEMORY_LOADING,
        "the weights do not fit into the GPU's memory",
        "more GPUs (tp-size), a quantized model or a smaller draft; mem-fraction-static does not change this",
    ),
    (
        frozenset({Phase.POOL}),
        FailureReason.OUT_OF_MEMORY_POOL,
        "the KV cache does not fit beside the weights",
        "lower mem-fraction-static or max-total-tokens; a draft's weights and its own cache come on top",
    ),
    (
        frozenset({Phase.GRAPHS}),
        FailureReason.OUT_OF_MEMORY_CAPTURE,
        "the GPU's memory ran out at graph capture",
        "lower cuda_graph_max_bs, the draft tokens or mem-fraction-static: graphs live in what the static share leaves",
    ),
    (
        RUNNING,
        FailureReason.OUT_OF_MEMORY_SERVING,
        "the GPU's memory ran out under load",
        "lower mem-fraction-static, chunked-prefill-size or max-running-requests: activations live in what the "
        "static share leaves",
    ),
    (
        frozenset({Phase.ARGUMENTS, Phase.COMMUNICATION, Phase.PREPARING}),
        FailureReason.OUT_OF_MEMORY,
        "the GPU's memory ran out before any weights were loaded",
        "does another process hold it? look at nvidia-smi",
    ),
)

SHARED_MEMORY = any_of(
    r"No space left on device.{0,80}(/dev/shm|[/_]shm|psm_|nccl-)",
    r"(/dev/shm|shared memory|shm_open|[/_]shm|psm_|nccl-).{0,120}No space left on device",
    r"[Ee]rror while creating shared memory segment",
    r"failed to extend /dev/shm",
    r"unable to (open|resize|mmap|allocate) (the )?shared memory",
    r"[Ii]nsufficient shared memory",
    r"out of shared memory\b(?!, Required)",
)
SHARED_MEMORY_RULE = Rule(
    SHARED_MEMORY,
    FailureReason.SHARED_MEMORY_FULL,
    "/dev/shm is full",
    "df -h /dev/shm; servers that were killed leave files there (sgl_shm_*, nccl-*, psm_*); docker wants --shm-size",
)
BUS_ERROR_RULE = Rule(
    any_of(
        r"crashed with exit code (-7|135)\b",
        r"died during initialization \(exit code: (-7|135)\)",
        r"^Fatal Python error: Bus error",
    ),
    FailureReason.SHARED_MEMORY_FULL,
    "a process ended by SIGBUS: it touched shared memory that there was no room for",
    "df -h /dev/shm; docker wants --shm-size",
)

GPU_MEMORY_RULES: tuple[Rule, ...] = tuple(
    Rule(GPU_MEMORY, reason, message, hint, phases) for phases, reason, message, hint in _BY_PHASE
)

MEMORY_RULES: tuple[Rule, ...] = (
    Rule(
        any_of(
            r"Not enough memory\. Please try to increase",
            r"Memory pool size is too small",
            r"KV (cache|pool).{0,60}(too small|cannot hold even one request)",
            r"pool \(\d+ tokens\) cannot hold even one request",
        ),
        FailureReason.KV_POOL_TOO_SMALL,
        "the static share of the memory does not hold the weights and a KV cache",
        "raise mem-fraction-static, or make the weights smaller (tp-size, quantization)",
    ),
    Rule(
        any_of(r"state cache is too small"),
        FailureReason.KV_POOL_TOO_SMALL,
        "the state cache of the linear-attention layers is too small for the running requests",
        "raise mem-fraction-static or mamba-full-memory-ratio, or lower max-running-requests",
    ),
    SHARED_MEMORY_RULE,
    *GPU_MEMORY_RULES,
    Rule(
        any_of(r"^MemoryError", r"Cannot allocate memory", r"DefaultCPUAllocator: (can't|not enough)", r"\[Errno 12\]"),
        FailureReason.MAIN_MEMORY_EXHAUSTED,
        "the machine's main memory ran out",
        "free main memory, or lower max-total-tokens where the server runs on the CPU",
    ),
)
