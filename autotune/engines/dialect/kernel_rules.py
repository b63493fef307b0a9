"""Kernels: not made for this GPU, not installed, not to be compiled, or faulty; and GPUs that do not talk."""

from __future__ import annotations

from autotune.domain.trial import FailureReason
from autotune.engines.dialect.phases import STARTING
from autotune.engines.dialect.rule import Rule, any_of

_NCCL_HINT = "check the NCCL_ variables of this configuration; if the baseline fails so too, check the node"

BUG = any_of(
    r"an illegal memory access",
    r"device-side assert",
    r"index out of bounds",
    r"CUDA error: unspecified launch failure",
    r"CUDA error: misaligned address",
    r"CUDA_ERROR_ILLEGAL_ADDRESS",
    r"CUDA error: an illegal instruction",
)
BUG_RULE = Rule(
    BUG,
    FailureReason.ENGINE_BUG,
    "a kernel read or wrote where it must not: a fault of the engine, not of one value",
    "if it comes again, leave this combination out, or try another version of the engine",
)

_DEPENDENCY_RULES: tuple[Rule, ...] = (
    Rule(
        any_of(
            r"Could not find nvcc",
            r"nvcc: (command )?not found",
            r"CUDA_HOME environment variable is not set",
            r"No such file or directory: '[^']*(nvcc|ninja|gcc|g\+\+|c\+\+)'",
            r"Ninja is required to load C\+\+ extensions",
            r"Failed to find C compiler",
            r"Python\.h: No such file",
        ),
        FailureReason.MISSING_DEPENDENCY,
        "a kernel had to be compiled, and there is no toolchain for it",
        "install a CUDA toolkit, ninja and a C++ compiler on the node, or leave this value out of the space",
    ),
    Rule(
        any_of(r"^ModuleNotFoundError", r"^ImportError", r"with minimum required version \S+ is not installed"),
        FailureReason.MISSING_DEPENDENCY,
        "a package that this configuration needs is not installed in the serving environment",
        "install it there, or leave this value out of the space",
    ),
    Rule(
        any_of(r"less than the minimum required version", r"operator \S+::\S+ does not exist"),
        FailureReason.MISSING_DEPENDENCY,
        "packages of the serving environment do not fit each other",
        "install the versions that this sglang names",
    ),
)

_BUILD_RULES: tuple[Rule, ...] = (
    Rule(
        any_of(r"Unsupported gpu architecture", r"is not defined for option 'gpu-name'"),
        FailureReason.KERNEL_BUILD_FAILED,
        "the CUDA toolkit is older than this GPU and cannot compile for it",
        "install a newer CUDA toolkit, and point CUDA_HOME of engine.env at it",
    ),
    Rule(
        any_of(
            r"Error (building extension|compiling objects for extension)",
            r"[Nn]inja build failed",
            r"ninja: build stopped",
            r"Command '?\[?'?(\S*/)?(ninja|nvcc)\b.*(returned non-zero|failed)",
            r"(nvcc|NVCC|nvrtc|NVRTC)\b.*(failed|error|ERROR)",
            r"CompilationError",
            r"CompileTimeAssertionFailure",
            r"PTXAS error|ptxas fatal|PTXASError",
            r"PassManager::run failed",
            r"Failed to compile",
        ),
        FailureReason.KERNEL_BUILD_FAILED,
        "a kernel that this configuration needs could not be compiled",
        "leave this value out of the space, or install the toolkit and kernel packages that this sglang names",
    ),
)

_HARDWARE_RULES: tuple[Rule, ...] = (
    Rule(
        any_of(r"No CUDA GPUs are available", r"no CUDA-capable device", r"Torch not compiled with CUDA enabled"),
        FailureReason.UNSUPPORTED_HARDWARE,
        "the server found no GPU",
        "check nvidia-smi and CUDA_VISIBLE_DEVICES; the shell's value is not passed on, engine.env's is",
    ),
    Rule(
        any_of(r"invalid device ordinal"),
        FailureReason.UNSUPPORTED_HARDWARE,
        "the configuration wants more GPUs than the server sees",
        "tp-size × dp-size × pp-size must not be above the number of GPUs; check CUDA_VISIBLE_DEVICES of engine.env",
    ),
    Rule(
        any_of(r"out of resource: .*Hardware limit"),
        FailureReason.UNSUPPORTED_HARDWARE,
        "a kernel wants more shared memory or registers than this GPU has",
        "leave this backend out of the space on this GPU",
    ),
    Rule(
        any_of(
            r"Backend requires SM",
            r"requires (\w+ )?SM ?\d",
            r"[Uu]nsupported architecture",
            r"no kernel image is available",
            r"CUDA error: invalid device function",
            r"(?<!supported )[Cc]ompute capability",
            r"is not supported on (this|the current) (GPU|device|platform)",
            r"(only|not) (be )?(supported|available) on (CPU|cpu|CUDA|cuda|SM|sm|Hopper|Blackwell|NVIDIA)",
        ),
        FailureReason.UNSUPPORTED_HARDWARE,
        "this GPU generation has no such kernel",
        "leave this backend out of the space on this GPU",
    ),
    Rule(
        any_of(r"EAGLE is not supported in"),
        FailureReason.INVALID_COMBINATION,
        "this attention backend cannot verify drafts",
        "leave this attention_backend out of the space where there is speculation",
    ),
    Rule(
        any_of(r"selected index k out of range"),
        FailureReason.INVALID_COMBINATION,
        "more draft tokens than the draft tree holds",
        "keep speculative_num_draft_tokens <= 1 + topk + (steps - 1) * topk ** 2",
    ),
)

HUNG = any_of(r"Watchdog caught collective operation timeout", r"Timed out waiting \d+ms for (send|recv) operation")
COMMUNICATION_RULES: tuple[Rule, ...] = (
    Rule(
        HUNG,
        FailureReason.COMMUNICATION_HUNG,
        "a collective operation of the GPUs did not end",
        _NCCL_HINT,
    ),
    Rule(
        any_of(r"DistStoreError", r"TCPStore", r"DistNetworkError.*(timed? ?out|failed to connect)"),
        FailureReason.RENDEZVOUS_FAILED,
        "the server's processes did not find each other",
        "a rank was late, or an old process holds the rendezvous port; tried once more on fresh ports",
    ),
    Rule(
        any_of(
            r"NCCL error",
            r"ncclInvalidUsage",
            r"ncclInvalidArgument",
            r"ncclUnhandledCudaError",
            r"ncclSystemError",
            r"ncclInternalError",
            r"ncclRemoteError",
            r"unhandled system error",
            r"No algorithm/protocol available",
        ),
        FailureReason.COMMUNICATION_FAILED,
        "the GPUs could not talk to each other",
        _NCCL_HINT,
    ),
)

KERNEL_RULES: tuple[Rule, ...] = (*_BUILD_RULES, *_DEPENDENCY_RULES, BUG_RULE, *_HARDWARE_RULES)
COMMUNICATION_LINES: tuple[Rule, ...] = (
    Rule(HUNG, FailureReason.COMMUNICATION_HUNG, "a collective operation of the GPUs did not end", _NCCL_HINT),
    Rule(
        any_of(r"NCCL WARN .*(?i:no algorithm|unrecognized|invalid|failed|error|timeout)"),
        FailureReason.COMMUNICATION_FAILED,
        "the GPUs could not talk to each other",
        _NCCL_HINT,
        phases=STARTING,
    ),
)
