"""One log for each class of failure: what real servers wrote, and, where none could be made to, synthetic ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from autotune.domain.trial import FailureReason
from autotune.engines.dialect.diagnosis import diagnose

R = FailureReason
SAMPLES = Path(__file__).parent / "samples"

CASES: list[tuple[str, FailureReason, str, str]] = [
    # log, reason, what the evidence has, what the hint has
    ("synthetic_argument_refused", R.ARGUMENT_REJECTED, "invalid choice: 'fa9'", "--help"),
    ("synthetic_configuration_refused", R.INVALID_COMBINATION, "only supports topk = 1", "add a constraint"),
    ("synthetic_oom_before_weights", R.OUT_OF_MEMORY, "out of memory", "nvidia-smi"),
    ("synthetic_oom_weights", R.OUT_OF_MEMORY_LOADING, "CUDA out of memory", "tp-size"),
    ("synthetic_pool_too_small", R.KV_POOL_TOO_SMALL, "Not enough memory", "raise mem-fraction-static"),
    ("synthetic_state_cache_too_small", R.KV_POOL_TOO_SMALL, "state cache is too small", "mamba-full-memory-ratio"),
    ("synthetic_oom_pool", R.OUT_OF_MEMORY_POOL, "CUDA out of memory", "lower mem-fraction-static"),
    ("synthetic_oom_capture", R.OUT_OF_MEMORY_CAPTURE, "OutOfMemoryError: CUDA", "lower cuda_graph_max_bs"),
    ("synthetic_oom_serving", R.OUT_OF_MEMORY_SERVING, "CUDA out of memory", "lower mem-fraction-static"),
    ("synthetic_main_memory", R.MAIN_MEMORY_EXHAUSTED, "DefaultCPUAllocator", "free main memory"),
    ("synthetic_capture_failed", R.GRAPH_CAPTURE_FAILED, "when stream is capturing", "another cuda_graph_max_bs"),
    ("synthetic_unsupported_backend", R.UNSUPPORTED_HARDWARE, "Unsupported architecture", "leave this backend out"),
    ("synthetic_no_kernel_image", R.UNSUPPORTED_HARDWARE, "no kernel image", "leave this backend out"),
    ("synthetic_kernel_too_large", R.UNSUPPORTED_HARDWARE, "Hardware limit: 101376", "leave this backend out"),
    ("synthetic_too_many_gpus", R.UNSUPPORTED_HARDWARE, "invalid device ordinal", "tp-size"),
    ("synthetic_nccl_refused", R.COMMUNICATION_FAILED, "invalid usage", "NCCL_"),
    ("synthetic_nccl_hung_under_load", R.COMMUNICATION_HUNG, "Watchdog caught collective", "NCCL_"),
    ("synthetic_rendezvous", R.RENDEZVOUS_FAILED, "7/8 clients joined", "rendezvous port"),
    ("died_draft_mismatch_0_5_23", R.MODEL_MISMATCH, "Expected hidden_size to be 64", "trained for this very model"),
    ("died_draft_context_0_5_23", R.MODEL_MISMATCH, "context_length (8192)", "trained for this very model"),
    ("died_draft_of_another_kind_0_5_23", R.MODEL_MISMATCH, "hot_token_id", "trained for this very model"),
    ("synthetic_draft_other_vocabulary", R.MODEL_MISMATCH, "AssertionError at File", "belong together"),
    ("died_no_config_0_5_23", R.MODEL_UNREADABLE, "Unrecognized model", "compare the folder"),
    ("died_no_tokenizer_0_5_23", R.MODEL_UNREADABLE, "backend tokenizer", "compare the folder"),
    ("died_no_weights_0_5_23", R.MODEL_UNREADABLE, "Cannot find any model weights", "compare the folder"),
    ("died_damaged_weights_0_5_23", R.MODEL_UNREADABLE, "SafetensorError", "compare the folder"),
    ("synthetic_tokenizer_missing", R.MODEL_UNREADABLE, "Can't load tokenizer", "compare the folder"),
    ("synthetic_unknown_architecture", R.MODEL_UNREADABLE, "are not supported for now", "compare the folder"),
    ("died_no_model_folder_0_5_23", R.MODEL_NOT_FOUND, "Repo id must be in the form", "folders on this node"),
    ("died_hub_unreachable_0_5_23", R.MODEL_NOT_FOUND, "couldn't connect to", "folders on this node"),
    ("synthetic_hub_lookup", R.MODEL_NOT_FOUND, "404 Client Error", "folders on this node"),
    ("died_missing_module_0_5_15", R.MISSING_DEPENDENCY, "No module named 'deep_gemm'", "install it there"),
    ("died_no_flashinfer_0_5_23", R.MISSING_DEPENDENCY, "flashinfer_python", "install it there"),
    ("synthetic_missing_module", R.MISSING_DEPENDENCY, "No module named 'cutlass'", "install it there"),
    ("synthetic_no_nvcc", R.MISSING_DEPENDENCY, "Could not find nvcc", "install a CUDA toolkit"),
    ("synthetic_no_ninja", R.MISSING_DEPENDENCY, "'ninja'", "install a CUDA toolkit"),
    ("synthetic_flashinfer_build_failed", R.KERNEL_BUILD_FAILED, "Ninja build failed", "leave this value out"),
    ("synthetic_toolkit_too_old", R.KERNEL_BUILD_FAILED, "Unsupported gpu architecture", "newer CUDA toolkit"),
    ("synthetic_triton_build_failed", R.KERNEL_BUILD_FAILED, "CompilationError: at 41:12", "leave this value out"),
    ("died_port_taken_0_5_23", R.PORT_TAKEN, "address already in use", ""),
    ("died_port_out_of_range_0_5_15", R.PORT_TAKEN, "SGLANG_GRPC_PORT (66383) must be between 1 and 65535", ""),
    ("synthetic_port_taken", R.PORT_TAKEN, "[Errno 98]", ""),
    ("synthetic_rendezvous_port_taken", R.PORT_TAKEN, "EADDRINUSE", ""),
    ("synthetic_engine_bug_serving", R.ENGINE_BUG, "illegal memory access", "another version"),
    ("synthetic_engine_bug_gather", R.ENGINE_BUG, "device-side assert", "another version"),
    ("synthetic_engine_bug_abort", R.ENGINE_BUG, "illegal memory access", "another version"),
    ("synthetic_watchdog", R.WATCHDOG_TIMEOUT, "Scheduler watchdog timeout", "watchdog-timeout"),
    ("synthetic_shared_memory_full", R.SHARED_MEMORY_FULL, "/psm_5ad91c02", "/dev/shm"),
    ("synthetic_shared_memory_full_nccl", R.SHARED_MEMORY_FULL, "/dev/shm/nccl-pJ3rQo", "/dev/shm"),
    ("synthetic_bus_error", R.SHARED_MEMORY_FULL, "exit code -7", "/dev/shm"),
    ("died_tree_too_large_0_5_23", R.INVALID_COMBINATION, "selected index k out of range", "num_draft_tokens <="),
    ("died_no_topk_0_5_23", R.INVALID_COMBINATION, "'NoneType' and 'int'", "add a constraint"),
    ("died_dflash_on_cpu_0_5_23", R.INVALID_COMBINATION, "DFLASH speculative decoding is not", "add a constraint"),
    ("died_fa3_on_cpu_0_5_23", R.UNSUPPORTED_HARDWARE, "requires SM>=80 and SM<=90", "leave this backend out"),
    ("refused_choice_0_5_23", R.ARGUMENT_REJECTED, "invalid choice: 'fa9'", "--help"),
    ("refused_flag_0_5_23", R.ARGUMENT_REJECTED, "unrecognized arguments: --bogus-flag", "--help"),
]


@pytest.mark.parametrize(("name", "reason", "evidence", "hint"), CASES, ids=[case[0] for case in CASES])
def test_each_class_of_failure_has_its_reason_evidence_and_hint(
    sample: Callable[[str], str], name: str, reason: FailureReason, evidence: str, hint: str
) -> None:
    log = sample(f"{name}.log")
    failure = diagnose(-9, log, ready="fired up and ready" in log)
    assert failure.reason is reason
    assert evidence in failure.evidence
    assert hint in failure.hint


OURS = ("died_", "refused_", "synthetic_", "still_")
NOT_FROM_A_LOG_ALONE = {
    "synthetic_killed_at_once",
    "synthetic_killed_child_at_start",
    "synthetic_killed_child_under_load",
    "synthetic_nccl_hung_at_start",
    "synthetic_warm_up_failed",
    "died_killed_scheduler_0_5_23",
    "died_segfault_0_5_23",
    "died_kernel_oom_0_5_23",
    "still_compiling_0_5_15",
}


def test_no_log_of_a_failure_is_without_a_case() -> None:
    names = {path.stem for path in SAMPLES.glob("*.log") if path.stem.startswith(OURS)}
    assert names == {case[0] for case in CASES} | NOT_FROM_A_LOG_ALONE


@pytest.mark.parametrize(
    ("name", "whom"),
    [
        ("synthetic_killed_at_once", "the server"),
        ("synthetic_killed_child_under_load", "a process of the server"),
        ("died_killed_scheduler_0_5_23", "a process of the server"),
    ],
)
def test_a_sigkill_under_load_is_the_kernels_only_if_the_kernel_counts_one(
    sample: Callable[[str], str], name: str, whom: str
) -> None:
    log = sample(f"{name}.log")
    kernels = diagnose(-9, log, ready=True, killed_by_kernel=True)
    assert kernels.reason is R.KILLED_BY_KERNEL
    assert f"the kernel's OOM killer ended {whom}" in kernels.message
    others = diagnose(-9, log, ready=True, killed_by_kernel=False)
    assert others.reason is R.DIED_SERVING
    assert "not the kernel's OOM killer" in others.hint
    unknown = diagnose(-9, log, ready=True)
    assert unknown.reason is R.DIED_SERVING
    assert "may be the kernel's" in unknown.hint
    assert kernels.evidence == others.evidence == unknown.evidence != ""


@pytest.mark.parametrize(
    ("name", "status", "evidence"),
    [("synthetic_killed_child_at_start", 1, "(exit code: -9)"), ("died_kernel_oom_0_5_23", -9, "Init parallel ends")],
)
def test_what_the_kernel_killed_while_starting(
    sample: Callable[[str], str], name: str, status: int, evidence: str
) -> None:
    failure = diagnose(status, sample(f"{name}.log"), ready=False, killed_by_kernel=True)
    assert failure.reason is R.KILLED_BY_KERNEL
    assert evidence in failure.evidence
    others = diagnose(status, sample(f"{name}.log"), ready=False, killed_by_kernel=False)
    assert others.reason is R.DIED_STARTING
    assert "SIGKILL" in others.message


def test_sglangs_own_sigkill_is_not_the_kernels_even_if_the_kernel_was_at_work(sample: Callable[[str], str]) -> None:
    failure = diagnose(-9, sample("died_tree_too_large_0_5_23.log"), ready=False, killed_by_kernel=True)
    assert failure.reason is R.INVALID_COMBINATION
    assert failure.message.endswith("ended by SIGKILL, its own, after a process of it had failed")


def test_a_segmentation_fault_is_shown_and_not_explained(sample: Callable[[str], str]) -> None:
    failure = diagnose(-9, sample("died_segfault_0_5_23.log"), ready=True, killed_by_kernel=False)
    assert failure.reason is R.DIED_SERVING
    assert failure.evidence == "Fatal Python error: Segmentation fault"


def test_a_warm_up_that_failed_is_shown_by_its_exception(sample: Callable[[str], str]) -> None:
    failure = diagnose(-9, sample("synthetic_warm_up_failed.log"), ready=False)
    assert failure.reason is R.DIED_STARTING
    assert failure.evidence == "AssertionError: <Response [500]>"


def test_a_server_that_is_alive_and_did_not_get_past_connecting_its_gpus(sample: Callable[[str], str]) -> None:
    log = sample("synthetic_nccl_hung_at_start.log")
    failure = diagnose(None, log, ready=False, alive=True)
    assert failure.reason is R.COMMUNICATION_HUNG
    assert "Init torch distributed begin" in failure.evidence
    past = log + "[2026-11-29 15:15:06 TP0] Init torch distributed ends. elapsed=1.2 s\n"
    assert diagnose(None, past, ready=False, alive=True).reason is R.DIED_STARTING


def test_a_stuck_server_is_not_explained_by_an_exception_that_it_survived() -> None:
    survived = "Traceback (most recent call last):\n  File x\nModuleNotFoundError: No module named 'extra'\n"
    assert diagnose(None, survived, ready=False, alive=True).reason is R.DIED_STARTING
    fatal = "[2026-11-29 15:15:06 TP0] Scheduler hit an exception: " + survived
    assert diagnose(None, fatal, ready=False, alive=True).reason is R.MISSING_DEPENDENCY


def test_a_stuck_server_of_which_the_kernel_ended_a_process() -> None:
    failure = diagnose(None, "[2026-11-29 15:15:06] Decode batch\n", ready=True, killed_by_kernel=True, alive=True)
    assert failure.reason is R.KILLED_BY_KERNEL


@pytest.mark.parametrize("word", ["out_of_memory", "stuck_serving", "died_serving", "model_mismatch"])
def test_words_of_old_records_can_still_be_read(word: str) -> None:
    assert FailureReason.from_word(word).word == word
