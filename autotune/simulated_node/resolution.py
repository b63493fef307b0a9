"""From arguments as given to arguments as SGLang 0.5.9 runs with them, in its own order, and to the plan.

Invalid combinations raise what SGLang raises (ValueError, AssertionError, TypeError) before anything is loaded. What
SGLang notices only later is kept as a StartFailure with the stage at which it dies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autotune.simulated_node.acceptance import DraftTree
from autotune.simulated_node.arguments import VERSION, parse
from autotune.simulated_node.memory import MemoryUse, clamp_sizes, default_fraction, graph_sizes, memory_use
from autotune.simulated_node.nodes import NodeDescription
from autotune.simulated_node.plan import ServingPlan

STAGES = ("distributed", "weights", "backend", "pool", "capture")
NO_KERNEL = "RuntimeError: CUDA error: no kernel image is available for execution on the device"
FOREIGN_BACKENDS = ("aiter", "wave", "intel_amx", "intel_xpu", "ascend")
NCCL_PROTOCOLS = frozenset({"ll", "ll128", "simple"})
NCCL_ALGORITHMS = frozenset({"tree", "ring", "collnetdirect", "collnetchain", "nvls", "nvlstree", "pat"})


@dataclass(frozen=True)
class StartFailure:
    """`stage` is one of STAGES; `error` the last line(s) of the traceback, or what NCCL says before it."""

    stage: str
    error: str


@dataclass(frozen=True)
class Resolved:
    """`values`: every argument under the name that /server_info gives it."""

    values: dict[str, Any]
    plan: ServingPlan
    memory: MemoryUse
    graph_sizes: tuple[int, ...]
    warnings: tuple[str, ...]
    failure: StartFailure | None


def resolve(node: NodeDescription, argv: Sequence[str], environment: Mapping[str, str]) -> Resolved:
    """Exits with status 2 on what the parser refuses; raises ValueError, AssertionError or TypeError on what
    SGLang's own checks refuse."""
    values = parse(argv)
    warnings: list[str] = []
    _defaults(node, values)
    _attention(node, values, warnings)
    spec_v2 = _flag_of(environment, "SGLANG_ENABLE_SPEC_V2", warnings)
    if values["speculative_algorithm"] == "NEXTN":
        values["speculative_algorithm"] = "EAGLE"
    if values["speculative_algorithm"] == "NGRAM":
        _ngram(values, warnings)
    elif values["speculative_algorithm"] is not None:
        _speculation(values, spec_v2, warnings)
    sizes = graph_sizes(values)
    asked = values["max_running_requests"]
    if asked is None:
        values["max_running_requests"] = asked = 2048
    sizes = clamp_sizes(sizes, asked)
    memory = memory_use(node, values, sizes[-1] if sizes else 0)
    plan = _plan(node, values, sizes, memory, environment)
    failure = _late_failure(node, values, plan, memory)
    return Resolved(values, plan, memory, tuple(sizes), tuple(warnings), failure)


def _defaults(node: NodeDescription, values: dict[str, Any]) -> None:
    large = node.memory.gpu_gib >= 160
    if values["chunked_prefill_size"] is None:
        values["chunked_prefill_size"] = 16384 if large else 8192
    if values["cuda_graph_bs"]:
        values["cuda_graph_max_bs"] = max(values["cuda_graph_bs"])
    elif values["cuda_graph_max_bs"] is None:
        values["cuda_graph_max_bs"] = 512 if large or values["tp_size"] >= 4 else 256
    if values["mem_fraction_static"] is None:
        values["mem_fraction_static"] = default_fraction(node, values)
    values["tokenizer_path"] = values["tokenizer_path"] or values["model_path"]
    values["served_model_name"] = values["served_model_name"] or values["model_path"]
    values["device"] = values["device"] or "cuda"
    values["sampling_backend"] = values["sampling_backend"] or "flashinfer"
    if values["random_seed"] is None:
        values["random_seed"] = 42
    if values["page_size"] is None:
        values["page_size"] = 1
    if values["tp_size"] < 1 or values["chunked_prefill_size"] == 0:
        raise ValueError(f"tp_size and chunked_prefill_size must not be {values['tp_size']} and 0")


def _attention(node: NodeDescription, values: dict[str, Any], warnings: list[str]) -> None:
    """MLA model: flashinfer on data-center Blackwell, triton elsewhere."""
    if values["attention_backend"] is None:
        values["attention_backend"] = "flashinfer" if 100 <= node.sm < 120 else "triton"
        warnings.append(f"Attention backend not specified. Use {values['attention_backend']} backend by default.")
    if "trtllm_mha" in _backends(values):
        if not 100 <= node.sm < 120:
            raise ValueError(
                "TRTLLM MHA backend is only supported on Blackwell GPUs (SM100). Please use a different backend."
            )
        values["page_size"] = values["page_size"] if values["page_size"] in (16, 32, 64) else 64
    if _decode_backend(values) in ("torch_native", "flex_attention"):
        warnings.append(f"Cuda graph is disabled because of using {_decode_backend(values)} attention backend")
        values["disable_cuda_graph"] = True
        if _decode_backend(values) == "flex_attention" and values["speculative_algorithm"] is not None:
            raise AssertionError("Speculative decoding is currently not supported with Flex Attention backend")


def _speculation(values: dict[str, Any], spec_v2: bool, warnings: list[str]) -> None:
    _cap_running(values, warnings)
    topk = values["speculative_eagle_topk"]
    if spec_v2:
        values["disable_overlap_schedule"] = False
        warnings.append("Spec v2 is enabled for eagle/eagle3 speculative decoding and overlap schedule is turned on.")
        if topk is not None and topk > 1:
            raise ValueError("Spec v2 currently only supports topk = 1 for speculative decoding.")
    else:
        values["disable_overlap_schedule"] = True
        warnings.append(
            "Overlap scheduler is disabled when spec v2 is off or using unsupported speculative algorithm. "
            "You can set env SGLANG_ENABLE_SPEC_V2=True to enable the experimental overlap scheduler."
        )
    values["enable_mixed_chunk"] = False
    if values["speculative_num_steps"] is None:
        if topk is not None or values["speculative_num_draft_tokens"] is not None:
            raise AssertionError
        values["speculative_num_steps"], topk, values["speculative_num_draft_tokens"] = 3, 1, 4
        values["speculative_eagle_topk"] = topk
    if topk is None:
        raise TypeError("'>' not supported between instances of 'NoneType' and 'int'")
    if "trtllm_mha" in _backends(values) and topk > 1:
        raise ValueError("trtllm_mha backend only supports topk = 1 for speculative decoding.")
    if topk == 1 and values["speculative_num_draft_tokens"] != values["speculative_num_steps"] + 1:
        warnings.append(
            "speculative_num_draft_tokens is adjusted to speculative_num_steps + 1 when speculative_eagle_topk == 1"
        )
        values["speculative_num_draft_tokens"] = values["speculative_num_steps"] + 1
    if topk > 1 and values["page_size"] > 1 and values["attention_backend"] not in ("flashinfer", "fa3"):
        raise ValueError(
            "speculative_eagle_topk > 1 with page_size > 1 is unstable and produces incorrect results for paged "
            "attention backends. This combination is only supported for the 'flashinfer' backend."
        )
    if values["speculative_draft_model_path"] is None:
        raise ValueError(
            f"speculative algorithm {values['speculative_algorithm']} needs --speculative-draft-model-path: "
            "the served model has no draft of its own (check of the simulated node)"
        )


def _ngram(values: dict[str, Any], warnings: list[str]) -> None:
    _cap_running(values, warnings)
    values["disable_overlap_schedule"] = True
    values["enable_mixed_chunk"] = False
    values["speculative_eagle_topk"] = values["speculative_ngram_max_bfs_breadth"]
    if values["speculative_num_draft_tokens"] is None:
        values["speculative_num_draft_tokens"] = values["speculative_ngram_max_match_window_size"]
    warnings.append(
        "The overlap scheduler and mixed chunked prefill are disabled because of using ngram speculative decoding."
    )
    topk, page = values["speculative_eagle_topk"], values["page_size"]
    if topk > 1 and page > 1 and values["attention_backend"] != "flashinfer":
        raise ValueError(f"speculative_eagle_topk({topk}) > 1 with page_size({page}) > 1 is unstable")


def _cap_running(values: dict[str, Any], warnings: list[str]) -> None:
    if values["max_running_requests"] is None:
        values["max_running_requests"] = 48
        warnings.append(
            "Max running requests is reset to 48 for speculative decoding. "
            "You can override this by explicitly setting --max-running-requests."
        )


def _plan(
    node: NodeDescription,
    values: Mapping[str, Any],
    sizes: Sequence[int],
    memory: MemoryUse,
    environment: Mapping[str, str],
) -> ServingPlan:
    tree = None
    algorithm = values["speculative_algorithm"]
    if algorithm is not None:
        width = values["speculative_num_draft_tokens"] or 0
        steps, topk = (max(1, width - 1), 1) if algorithm == "NGRAM" else (values["speculative_num_steps"], 0)
        tree = DraftTree(algorithm, steps, topk or values["speculative_eagle_topk"], width)
    chunk = values["chunked_prefill_size"]
    return ServingPlan(
        tree=tree,
        overlap=not values["disable_overlap_schedule"],
        max_running=max(1, min(values["max_running_requests"], memory.capacity_tokens)),
        graph_max_bs=sizes[-1] if sizes else 0,
        attention_backend=_decode_backend(values),
        fusion=values["enable_flashinfer_allreduce_fusion"],
        custom_all_reduce=not values["disable_custom_all_reduce"],
        kv_capacity_tokens=memory.capacity_tokens,
        chunk_tokens=chunk if chunk > 0 else values["max_prefill_tokens"],
        prefill_limit_tokens=memory.prefill_limit_tokens,
        radix_cache=not values["disable_radix_cache"],
        environment={key: value for key, value in environment.items() if key.startswith("NCCL_")},
        stream_interval=max(1, values["stream_interval"]),
        decode_log_interval=max(1, values["decode_log_interval"]),
    )


def _late_failure(
    node: NodeDescription, values: Mapping[str, Any], plan: ServingPlan, memory: MemoryUse
) -> StartFailure | None:
    found = [*_communication_failures(node, values, plan.environment), *_backend_failures(node, values)]
    if memory.problem is not None:
        stage, message = memory.problem
        prefix = "" if message.startswith("RuntimeError") else "torch.OutOfMemoryError: "
        found.append(StartFailure(stage, "Exception: " + message if stage == "capture" else prefix + message))
    tree = plan.tree
    if tree is not None and tree.algorithm != "NGRAM" and not 2 <= tree.draft_tokens <= tree.candidates + 1:
        error = "Exception: Capture cuda graph failed: selected index k out of range"
        found.append(
            StartFailure("capture", error if plan.graph_max_bs else "RuntimeError: selected index k out of range")
        )
    return min(found, key=lambda failure: STAGES.index(failure.stage), default=None)


def _communication_failures(
    node: NodeDescription, values: Mapping[str, Any], environment: Mapping[str, str]
) -> list[StartFailure]:
    cards = values["tp_size"] * values["pp_size"] * values["dp_size"]
    if cards > node.gpus:
        return [StartFailure("distributed", "RuntimeError: CUDA error: invalid device ordinal")]
    if values["tp_size"] == 1:
        return []
    warning = _nccl_complaint(environment)
    if warning is None:
        return []
    error = "torch.distributed.DistBackendError: NCCL error: ncclInvalidUsage: invalid usage"
    return [StartFailure("distributed", f"NCCL WARN {warning}\n{error}")]


def _nccl_complaint(environment: Mapping[str, str]) -> str | None:
    """NCCL_PROTO and NCCL_ALGO: unknown words, and an algorithm list that leaves AllGather without one."""
    proto = environment.get("NCCL_PROTO", "").lower().lstrip("^")
    words = [word for word in proto.split(",") if word]
    if ":" not in proto and any(word not in NCCL_PROTOCOLS for word in words):
        return f"Unrecognized element in NCCL_PROTO: {proto}"
    for part in filter(None, environment.get("NCCL_ALGO", "").lower().split(";")):
        function, _, listed = part.rpartition(":")
        algorithms = [word for word in listed.lstrip("^").split(",") if word]
        if any(word not in NCCL_ALGORITHMS for word in algorithms):
            return f"Unrecognized element in NCCL_ALGO: {part}"
        if not function and not listed.startswith("^") and not {"ring", "nvls", "pat"} & set(algorithms):
            return "Error : no algorithm/protocol available for function AllGather with datatype ncclInt8."
    return None


def _backend_failures(node: NodeDescription, values: Mapping[str, Any]) -> list[StartFailure]:
    found = []
    speculating = values["speculative_algorithm"] not in (None, "NGRAM")
    for backend in _backends(values):
        if backend == "fa3" and node.sm > 90:
            error = "AssertionError: FlashAttention v3 Backend requires SM>=80 and SM<=90."
            found.append(StartFailure("backend", error))
        elif backend in FOREIGN_BACKENDS:
            found.append(StartFailure("backend", f"ModuleNotFoundError: No module named '{backend}'"))
        elif backend not in node.backends and backend.startswith("trtllm"):
            found.append(StartFailure("capture", "RuntimeError: TllmGenFmhaRunner: Unsupported architecture"))
        elif backend not in node.backends:
            found.append(StartFailure("capture", NO_KERNEL))
        elif backend == "torch_native" and speculating:
            error = f"ValueError: EAGLE is not supported in decode attention backend {backend}"
            found.append(StartFailure("backend", error))
    return found


def _decode_backend(values: Mapping[str, Any]) -> str:
    return str(values["decode_attention_backend"] or values["attention_backend"])


def _backends(values: Mapping[str, Any]) -> list[str]:
    prefill = values["prefill_attention_backend"] or values["attention_backend"]
    return sorted({_decode_backend(values), str(prefill)})


def _flag_of(environment: Mapping[str, str], name: str, warnings: list[str]) -> bool:
    """A bad value of an SGLANG_ variable is a warning and the default."""
    text = environment.get(name, "").strip().lower()
    if text in ("1", "true", "yes", "y"):
        return True
    if text not in ("", "0", "false", "no", "n"):
        warnings.append(f"Invalid value for {name}: {text!r} is not a valid boolean value, using default False")
    return False


def server_info(resolved: Resolved) -> dict[str, Any]:
    """The flat part of /server_info that does not change while the server lives."""
    info = dict(resolved.values)
    info["version"] = VERSION
    info["status"] = "ready"
    info["max_total_num_tokens"] = resolved.memory.capacity_tokens
    info["max_req_input_len"] = resolved.memory.capacity_tokens - 6
    return info
