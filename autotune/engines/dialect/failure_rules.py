"""What an exception or a line of the log says about why a server ended. Tables; `diagnosis` applies them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from autotune.domain.trial import FailureReason


class Phase(Enum):
    """How far the server had come: the last of these whose mark is in the log."""

    ARGUMENTS = "reading its arguments"
    WEIGHTS = "loading weights"
    POOL = "allocating the KV cache"
    GRAPHS = "capturing graphs"
    WARM_UP = "warming up"
    SERVING = "serving"


MARKS: tuple[tuple[re.Pattern[str], Phase], ...] = (
    (re.compile(r"Load weight begin"), Phase.WEIGHTS),
    (re.compile(r"Load weight end"), Phase.POOL),
    (re.compile(r"Capture .*graph.* begin", re.IGNORECASE), Phase.GRAPHS),
    (re.compile(r"\bmax_total_num_tokens=\d"), Phase.WARM_UP),
    (re.compile(r"The server is fired up and ready to roll!"), Phase.SERVING),
)

BEFORE_WEIGHTS = frozenset({Phase.ARGUMENTS})
STARTING = frozenset(Phase) - {Phase.SERVING}


@dataclass(frozen=True)
class Rule:
    """Where `pattern` is found, `reason` is why. `kinds`: only in exceptions of these classes; `frames`: only where
    the traceback went through such code. A hint of `hints` goes before `hint` in its phase."""

    pattern: re.Pattern[str]
    reason: FailureReason
    message: str
    hint: str = ""
    hints: Mapping[Phase, str] = field(default_factory=dict)
    phases: frozenset[Phase] = frozenset(Phase)
    kinds: frozenset[str] = frozenset()
    frames: re.Pattern[str] | None = None

    def hint_in(self, phase: Phase) -> str:
        return self.hints.get(phase, self.hint)


def _any(*parts: str) -> re.Pattern[str]:
    return re.compile("|".join(parts))


_WEIGHTS_HINT = "the weights leave too little: more GPUs (tp-size), a quantized model, or a smaller draft"
_MEMORY_HINTS = {
    Phase.ARGUMENTS: "is another process holding the GPU's memory? look at nvidia-smi",
    Phase.WEIGHTS: _WEIGHTS_HINT,
    Phase.POOL: "raise mem-fraction-static, or make the weights smaller",
    Phase.GRAPHS: "lower cuda_graph_max_bs, the draft tokens or mem-fraction-static: graphs live in what that leaves",
}

_REFUSED = frozenset({"ValueError", "AssertionError", "TypeError", "NotImplementedError"})

EXCEPTION_RULES: tuple[Rule, ...] = (
    Rule(
        _any(r"Not enough memory\. Please try to increase"),
        FailureReason.OUT_OF_MEMORY,
        "the static share of the memory does not hold the weights and a KV cache",
        "raise mem-fraction-static, or make the weights smaller",
    ),
    Rule(
        _any(r"state cache is too small"),
        FailureReason.OUT_OF_MEMORY,
        "the state cache of the linear-attention layers is too small for the running requests",
        "raise mamba-full-memory-ratio, or lower max-running-requests",
    ),
    Rule(
        _any(
            r"OutOfMemoryError",
            r"CUDA out of memory",
            r"CUDA error: out of memory",
            r"cudaErrorMemoryAllocation",
            r"CUBLAS_STATUS_ALLOC_FAILED",
            r"[Cc]uda failure .{0,6}out of memory",
        ),
        FailureReason.OUT_OF_MEMORY,
        "the GPU's memory ran out",
        "lower mem-fraction-static or chunked-prefill-size: activations live in what the static share leaves",
        _MEMORY_HINTS,
    ),
    Rule(
        _any(r"^MemoryError", r"Cannot allocate memory", r"DefaultCPUAllocator: can't allocate"),
        FailureReason.OUT_OF_MEMORY,
        "the machine's main memory ran out",
        "free main memory, or lower max-total-tokens where the server runs on the CPU",
    ),
    Rule(
        _any(r"^ModuleNotFoundError", r"^ImportError", r"with minimum required version \S+ is not installed"),
        FailureReason.MISSING_DEPENDENCY,
        "a package that this configuration needs is not installed in the serving environment",
        "install it there, or leave this value out of the space",
    ),
    Rule(
        _any(r"less than the minimum required version", r"operator \S+::\S+ does not exist"),
        FailureReason.MISSING_DEPENDENCY,
        "packages of the serving environment do not fit each other",
        "install the versions that this sglang names",
    ),
    Rule(
        _any(r"Could not find nvcc", r"nvcc: (command )?not found", r"CUDA_HOME environment variable is not set"),
        FailureReason.MISSING_DEPENDENCY,
        "a kernel had to be compiled, and there is no CUDA toolkit",
        "install a CUDA toolkit on the node, or leave this value out of the space",
    ),
    Rule(
        _any(r"No CUDA GPUs are available", r"no CUDA-capable device", r"Torch not compiled with CUDA enabled"),
        FailureReason.UNSUPPORTED_HARDWARE,
        "the server found no GPU",
        "check nvidia-smi and CUDA_VISIBLE_DEVICES; the shell's value is not passed on, engine.env's is",
    ),
    Rule(
        _any(
            r"Backend requires SM",
            r"requires SM ?\d",
            r"Unsupported architecture",
            r"no kernel image is available",
            r"CUDA error: invalid device function",
            r"[Cc]ompute capability",
        ),
        FailureReason.UNSUPPORTED_HARDWARE,
        "this GPU generation has no such kernel",
        "leave this backend out of the space on this GPU",
    ),
    Rule(
        _any(r"EAGLE is not supported in"),
        FailureReason.INVALID_COMBINATION,
        "this attention backend cannot verify drafts",
        "leave this attention_backend out of the space where there is speculation",
    ),
    Rule(
        _any(r"selected index k out of range"),
        FailureReason.INVALID_COMBINATION,
        "more draft tokens than the draft tree holds",
        "keep speculative_num_draft_tokens <= 1 + topk + (steps - 1) * topk ** 2",
    ),
    Rule(
        _any(
            r"address already in use", r"EADDRINUSE", r"\[Errno 98\]", r"[Pp]ort \d+ is (not available|already in use)"
        ),
        FailureReason.PORT_TAKEN,
        "a port that the server wanted was taken",
    ),
    Rule(
        _any(
            r"NCCL error",
            r"ncclInvalidUsage",
            r"ncclUnhandledCudaError",
            r"ncclSystemError",
            r"ncclInternalError",
            r"ncclRemoteError",
            r"unhandled system error",
            r"No algorithm/protocol available",
            r"Watchdog caught collective operation timeout",
        ),
        FailureReason.COMMUNICATION_FAILED,
        "the GPUs could not talk to each other",
        "check the NCCL_ variables of this configuration; if the baseline fails so too, check the node",
    ),
    Rule(
        _any(
            r"does not appear to have a file named",
            r"Can't load the configuration",
            r"is not a valid model identifier",
            r"Repository Not Found",
            r"HFValidationError",
            r"LocalEntryNotFoundError",
            r"Unrecognized (model|configuration class)",
            r"couldn't connect to .https://huggingface",
            r"No such file or directory: '[^']*(config\.json|\.safetensors|tokenizer)",
            r"SafetensorError",
        ),
        FailureReason.MODEL_MISMATCH,
        "the model or the draft cannot be read",
        "engine.model and speculative-draft-model-path must be model folders that this sglang can serve",
    ),
    Rule(
        _any(
            r"size mismatch",
            r"Expected hidden_size to be",
            r"mat1 and mat2 shapes cannot be multiplied",
            r"vocab(ulary)?( |_)size.*(match|!=|differ)",
        ),
        FailureReason.MODEL_MISMATCH,
        "the draft does not fit the target",
        "use a draft that was trained for this very model",
        phases=STARTING,
    ),
    Rule(
        _any(r""),
        FailureReason.MODEL_MISMATCH,
        "the weights do not fit the model's class",
        "check that the checkpoint, its quantization and the draft belong together",
        phases=frozenset({Phase.WEIGHTS}),
        kinds=frozenset({"AssertionError", "KeyError", "RuntimeError", "ValueError"}),
        frames=_any(r"in load_weights", r"in weight_loader", r"weight_utils\.py"),
    ),
    Rule(
        _any(r""),
        FailureReason.INVALID_COMBINATION,
        "the server refused this combination of arguments",
        "add a constraint to the space file that leaves it out",
        phases=BEFORE_WEIGHTS,
        kinds=_REFUSED,
    ),
)
"""Applied to exceptions, the root of a chain first; the first rule that holds decides."""

BUG = _any(
    r"CUDA error: an illegal memory access",
    r"device-side assert",
    r"index out of bounds",
    r"CUDA error: unspecified launch failure",
    r"CUDA error: misaligned address",
)
BUG_MESSAGE = "a kernel read or wrote where it must not: a fault of the engine, not of one value"
BUG_HINT = "if it comes again, leave this combination out, or try another version of the engine"
"""Not a reason of its own: the failure stays `died`, which is tried once more."""

LINE_RULES: tuple[Rule, ...] = (
    Rule(
        re.compile(
            r"^[\w .-]+: error: (?P<what>argument .+|unrecognized arguments: .+|ambiguous option: .+"
            r"|the following arguments are required: .+)$"
        ),
        FailureReason.ARGUMENT_REJECTED,
        "the server's parser refused an argument",
        "`--help` of this version lists what it takes",
        phases=BEFORE_WEIGHTS,
    ),
    Rule(
        re.compile(r"error while attempting to bind|\[Errno 98\]|EADDRINUSE"),
        FailureReason.PORT_TAKEN,
        "the port was taken while the server loaded",
        phases=STARTING,
    ),
    Rule(
        re.compile(r"Watchdog caught collective operation timeout"),
        FailureReason.COMMUNICATION_FAILED,
        "a collective operation of the GPUs did not end",
        "check the NCCL_ variables of this configuration; if the baseline fails so too, check the node",
    ),
    Rule(
        re.compile(r"what\(\): +CUDA error: out of memory"),
        FailureReason.OUT_OF_MEMORY,
        "the GPU's memory ran out",
        "lower mem-fraction-static or chunked-prefill-size",
        _MEMORY_HINTS,
    ),
    Rule(
        re.compile(r"NCCL WARN .*(?i:no algorithm|invalid|failed|error|timeout)"),
        FailureReason.COMMUNICATION_FAILED,
        "the GPUs could not talk to each other",
        "check the NCCL_ variables of this configuration; if the baseline fails so too, check the node",
        phases=STARTING,
    ),
)
"""Applied to lines outside tracebacks, each rule over the whole log before the next, where no exception decided."""
