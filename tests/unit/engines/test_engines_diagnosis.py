from __future__ import annotations

from collections.abc import Callable

import pytest

from autotune.domain.trial import Blame, Failure, FailureReason
from autotune.engines.dialect.diagnosis import diagnose

BEGIN = "[2026-11-29 15:15:43] Load weight begin. avail mem=94.1 GB\n"
END = "[2026-11-29 15:15:44] Load weight end. elapsed=0.4 s\n"
POOL = "[2026-11-29 15:15:45] KV Cache is allocated. #tokens: 628177\n"
GRAPHS = "[2026-11-29 15:15:46] Capture target verify CUDA graph begin. backend=full\n"
READY = "[2026-11-29 15:15:50] The server is fired up and ready to roll!\n"
TRACE = "Traceback (most recent call last):\n"
FRAME = '  File "/opt/sglang/x.py", line 7, in run\n    run()\n    ^^^^^\n'


def scheduler_died(*exceptions: str, frame: str = FRAME) -> str:
    link = "\nDuring handling of the above exception, another exception occurred:\n\n" + TRACE
    return (
        "[2026-11-29 15:16:01 TP0] Scheduler hit an exception: "
        + TRACE
        + link.join(f"{frame}{exception}\n" for exception in exceptions)
        + "\n[2026-11-29 15:16:01] Received sigquit from a child process. It usually means the child failed.\n"
    )


def starting(log: str, exit_status: int | None = -9) -> Failure:
    return diagnose(exit_status, log, ready=False)


@pytest.mark.parametrize(
    ("name", "reason", "evidence"),
    [
        (
            "died_missing_module_0_5_15.log",
            FailureReason.MISSING_DEPENDENCY,
            "ModuleNotFoundError: No module named 'deep_gemm'",
        ),
        (
            "died_tree_too_large_0_5_23.log",
            FailureReason.INVALID_COMBINATION,
            "RuntimeError: selected index k out of range",
        ),
        (
            "died_draft_mismatch_0_5_23.log",
            FailureReason.MODEL_MISMATCH,
            "ValueError: Expected hidden_size to be 64, but found: 128",
        ),
    ],
)
def test_real_servers_that_died(sample: Callable[[str], str], name: str, reason: FailureReason, evidence: str) -> None:
    failure = starting(sample(name))
    assert failure.reason is reason
    assert failure.evidence == evidence
    assert failure.hint
    assert failure.exit_status == -9


def test_a_real_server_whose_port_was_taken(sample: Callable[[str], str]) -> None:
    failure = starting(sample("died_port_taken_0_5_23.log"), 1)
    assert failure.reason is FailureReason.PORT_TAKEN
    assert "address already in use" in failure.evidence


@pytest.mark.parametrize(
    "line",
    [
        "[2026-11-29 15:15:40] Port 31993 is already in use, trying port 31994\n",
        "[2026-11-29 15:15:40] WARNING: [Errno 98] Address already in use, retrying on another port\n",
        "[2026-11-29 15:15:40] bind: EADDRINUSE, will try 31994\n",
    ],
)
def test_a_server_that_took_another_port_did_not_end_by_the_first(line: str) -> None:
    assert starting(line).reason is FailureReason.DIED_STARTING
    assert starting(BEGIN + END + line).reason is FailureReason.DIED_STARTING


def test_a_taken_port_that_the_server_survived_is_not_what_it_ended_by() -> None:
    taken = "[2026-11-29 15:15:40] [Errno 98] error while attempting to bind on address ('127.0.0.1', 31993)\n"
    assert starting(taken + BEGIN + END).reason is FailureReason.DIED_STARTING
    assert starting(BEGIN + END + taken).reason is FailureReason.PORT_TAKEN


@pytest.mark.parametrize(
    "name",
    ["stopped_eagle3_0_5_15.log", "stopped_ngram_0_5_15.log", "stopped_plain_0_5_15.log", "stopped_cpu_0_5_23.log"],
)
@pytest.mark.parametrize("ready", [True, False])
def test_the_warnings_of_a_healthy_server_explain_nothing(sample: Callable[[str], str], name: str, ready: bool) -> None:
    """These logs hold import errors that are ignored, deprecations, failed limits, a refused request, crash lines of
    children that were told to stop. What ended the server is the SIGTERM."""
    failure = diagnose(-15, sample(name), ready=ready)
    assert failure.reason is (FailureReason.DIED_SERVING if ready else FailureReason.DIED_STARTING)
    assert "SIGTERM received" in failure.evidence


def test_a_log_that_just_stops_gives_its_last_lines_and_the_phase(sample: Callable[[str], str]) -> None:
    failure = starting(sample("still_compiling_0_5_15.log"), -11)
    assert failure.reason is FailureReason.DIED_STARTING
    assert "while capturing graphs" in failure.message
    assert "ended by SIGSEGV" in failure.message
    assert "Capture draft decode CUDA graph begin" in failure.evidence


@pytest.mark.parametrize(
    "line",
    [
        "launch_server.py: error: argument --attention-backend: invalid choice: 'fa9' (choose from 'triton')",
        "sglang serve: error: unrecognized arguments: --bogus-flag 1",
        "sglang serve: error: ambiguous option: --cuda-graph-max-bs could match --cuda-graph-max-bs-decode, "
        "--cuda-graph-max-bs-prefill",
        "launch_server.py: error: the following arguments are required: --model-path/--model",
    ],
)
def test_what_the_parser_refuses(line: str) -> None:
    failure = starting(f"usage: launch_server.py [-h]\n    [--model-path MODEL]\n{line}\n", 2)
    assert failure.reason is FailureReason.ARGUMENT_REJECTED
    assert failure.evidence == line
    assert failure.message.endswith("exit status 2")


def test_a_refused_combination_before_the_weights_load() -> None:
    refused = TRACE + FRAME + "TypeError: '>' not supported between instances of 'NoneType' and 'int'\n"
    assert starting(refused, 1).reason is FailureReason.INVALID_COMBINATION


def test_the_same_exception_after_the_weights_load_is_not_taken_for_a_refusal() -> None:
    assert starting(BEGIN + END + POOL + scheduler_died("TypeError: x")).reason is FailureReason.DIED_STARTING


def test_an_assertion_without_a_text_is_shown_with_its_place() -> None:
    failure = starting(TRACE + FRAME + "AssertionError\n", 1)
    assert failure.reason is FailureReason.INVALID_COMBINATION
    assert failure.evidence == 'AssertionError at File "/opt/sglang/x.py", line 7, in run'


OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 94.97 GiB."


@pytest.mark.parametrize(
    ("before", "reason", "hint"),
    [
        ("", FailureReason.OUT_OF_MEMORY, "does another process hold it"),
        (BEGIN, FailureReason.OUT_OF_MEMORY_LOADING, "more GPUs (tp-size)"),
        (BEGIN + END, FailureReason.OUT_OF_MEMORY_POOL, "lower mem-fraction-static or max-total-tokens"),
        (BEGIN + END + POOL + GRAPHS, FailureReason.OUT_OF_MEMORY_CAPTURE, "lower cuda_graph_max_bs"),
        (BEGIN + END + POOL + GRAPHS + READY, FailureReason.OUT_OF_MEMORY_SERVING, "lower mem-fraction-static"),
    ],
    ids=["arguments", "weights", "pool", "graphs", "serving"],
)
def test_what_helps_against_lack_of_memory_depends_on_when_it_ran_out(
    before: str, reason: FailureReason, hint: str
) -> None:
    failure = diagnose(-9, before + scheduler_died(OOM), ready=READY in before)
    assert failure.reason is reason
    assert failure.hint.startswith(hint)
    assert failure.evidence == OOM


def test_a_static_share_that_is_too_small_is_the_opposite_of_too_large() -> None:
    died = scheduler_died("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.")
    failure = starting(BEGIN + END + died)
    assert failure.reason is FailureReason.KV_POOL_TOO_SMALL
    assert failure.hint.startswith("raise mem-fraction-static")


CAPTURE = (
    "Exception: Capture cuda graph failed: {}\nPossible solutions:\n1. set --mem-fraction-static to a smaller value"
)


@pytest.mark.parametrize(
    ("inner", "reason"),
    [
        (OOM, FailureReason.OUT_OF_MEMORY_CAPTURE),
        ("RuntimeError: selected index k out of range", FailureReason.INVALID_COMBINATION),
        ("RuntimeError: no kernel image is available for execution", FailureReason.UNSUPPORTED_HARDWARE),
        ("RuntimeError: operation not permitted when stream is capturing", FailureReason.GRAPH_CAPTURE_FAILED),
        ("RuntimeError: CUDA error: an illegal memory access was encountered", FailureReason.ENGINE_BUG),
    ],
)
def test_a_failed_capture_is_what_its_inner_error_is(inner: str, reason: FailureReason) -> None:
    outer = CAPTURE.format(inner.split(": ", 1)[1])
    failure = starting(BEGIN + END + POOL + GRAPHS + scheduler_died(inner, outer))
    assert failure.reason is reason
    assert failure.evidence == inner


@pytest.mark.parametrize(
    ("exception", "reason"),
    [
        ("AssertionError: FlashAttention v3 Backend requires SM>=80 and SM<=90.", FailureReason.UNSUPPORTED_HARDWARE),
        ("RuntimeError: TllmGenFmhaRunner: Unsupported architecture", FailureReason.UNSUPPORTED_HARDWARE),
        ("RuntimeError: No CUDA GPUs are available", FailureReason.UNSUPPORTED_HARDWARE),
        ("ValueError: EAGLE is not supported in attention backend wave", FailureReason.INVALID_COMBINATION),
        (
            "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3690, unhandled system error",
            FailureReason.COMMUNICATION_FAILED,
        ),
        ("RuntimeError: NCCL error: ncclInvalidUsage: invalid usage", FailureReason.COMMUNICATION_FAILED),
        (
            "torch.distributed.DistNetworkError: The server socket has failed to bind. port: 29500, EADDRINUSE",
            FailureReason.PORT_TAKEN,
        ),
        ("RuntimeError: Error(s) in loading state_dict: size mismatch for fc.weight", FailureReason.MODEL_MISMATCH),
        (
            "OSError: /models/x does not appear to have a file named config.json.",
            FailureReason.MODEL_UNREADABLE,
        ),
        ("ImportError: cannot import name 'x' from 'sgl_kernel'", FailureReason.MISSING_DEPENDENCY),
        (
            "Exception: flashinfer_python is installed with version 0.6.3, which is less than the minimum required "
            "version 0.7.2. Please uninstall the old version.",
            FailureReason.MISSING_DEPENDENCY,
        ),
        ("RuntimeError: Could not find nvcc and default cuda_home", FailureReason.MISSING_DEPENDENCY),
        ("RuntimeError: something else", FailureReason.DIED_STARTING),
    ],
)
def test_exceptions_while_starting(exception: str, reason: FailureReason) -> None:
    failure = starting(BEGIN + END + POOL + scheduler_died(exception))
    assert failure.reason is reason
    assert failure.evidence == exception


def test_weights_of_another_shape_are_told_by_the_frames() -> None:
    frame = '  File "/opt/sglang/llama.py", line 9, in load_weights\n    weight_loader(param, loaded)\n'
    failure = starting(BEGIN + scheduler_died("AssertionError", frame=frame))
    assert failure.reason is FailureReason.MODEL_MISMATCH


def test_the_first_traceback_counts_and_not_the_noise_of_the_other_ranks() -> None:
    follow_up = scheduler_died("torch.distributed.DistBackendError: NCCL error: ncclRemoteError: remote process exited")
    assert starting(BEGIN + scheduler_died(OOM) + follow_up).reason is FailureReason.OUT_OF_MEMORY_LOADING


def test_a_traceback_that_was_survived_yields_to_the_one_that_ended_a_process() -> None:
    survived = TRACE + FRAME + "ImportError: cannot import name 'extra'\n\n"
    assert starting(BEGIN + survived + END + scheduler_died(OOM)).reason is FailureReason.OUT_OF_MEMORY_POOL


def test_what_happened_before_the_server_was_ready_did_not_end_it() -> None:
    survived = TRACE + FRAME + "ImportError: cannot import name 'extra'\n\n"
    failure = diagnose(-9, BEGIN + survived + READY + "[2026-11-29 15:16:00] Decode batch\n", ready=True)
    assert failure.reason is FailureReason.DIED_SERVING
    assert "Decode batch" in failure.evidence


def test_other_processes_lines_inside_a_traceback_are_stepped_over() -> None:
    frame = FRAME + "[2026-11-29 15:16:01 TP1] Decode batch. #running-req: 3\n" + FRAME
    assert starting(BEGIN + scheduler_died(OOM, frame=frame)).evidence == OOM


def test_torchs_rank_prefix_is_no_part_of_a_traceback() -> None:
    text = "".join(f"[rank3]: {line}\n" for line in (TRACE + FRAME + "MemoryError: no room").splitlines())
    assert starting(text).reason is FailureReason.MAIN_MEMORY_EXHAUSTED


@pytest.mark.parametrize(
    ("line", "ready", "reason"),
    [
        (
            "[rank2]:[E] Watchdog caught collective operation timeout: WorkNCCL(OpType=ALLREDUCE)",
            True,
            FailureReason.COMMUNICATION_HUNG,
        ),
        ("Scheduler watchdog timeout (self.watchdog_timeout=300, ...)", True, FailureReason.WATCHDOG_TIMEOUT),
        (
            "Scheduler watchdog timeout (self.watchdog_timeout=300, ...)",
            False,
            FailureReason.WATCHDOG_TIMEOUT,
        ),
        ("node1:77:91 [0] NCCL WARN Invalid config blocking value -1", False, FailureReason.COMMUNICATION_FAILED),
        ("node1:77:91 [0] NCCL WARN Invalid config blocking value -1", True, FailureReason.DIED_SERVING),
        ("  what():  CUDA error: out of memory", True, FailureReason.OUT_OF_MEMORY_SERVING),
        ("  what():  CUDA error: an illegal memory access was encountered", True, FailureReason.ENGINE_BUG),
        ("Fatal Python error: Segmentation fault", False, FailureReason.DIED_STARTING),
    ],
)
def test_lines_outside_any_traceback(line: str, ready: bool, reason: FailureReason) -> None:
    failure = diagnose(-6, BEGIN + END + POOL + (READY if ready else "") + line + "\n", ready=ready)
    assert failure.reason is reason
    assert failure.evidence.endswith(line.strip())


def test_a_request_whose_text_looks_like_a_parser_error_explains_nothing() -> None:
    log = BEGIN + END + POOL + READY + "[2026-11-29 15:16:00] prog: error: argument --x: expected one argument\n"
    assert diagnose(-9, log, ready=True).reason is FailureReason.DIED_SERVING


def test_a_kernels_fault_is_tried_again_rather_than_held_against_the_configuration() -> None:
    log = BEGIN + END + POOL + READY + scheduler_died("RuntimeError: CUDA error: an illegal memory access")
    failure = diagnose(-9, log, ready=True)
    assert failure.reason is FailureReason.ENGINE_BUG
    assert failure.reason.blame is Blame.UNKNOWN
    assert "fault of the engine" in failure.message


@pytest.mark.parametrize(("exit_status", "words"), [(1, "exit status 1"), (137, "SIGKILL"), (-9, "SIGKILL")])
def test_an_empty_log_leaves_the_exit_status(exit_status: int, words: str) -> None:
    failure = starting("", exit_status)
    assert failure.reason is FailureReason.DIED_STARTING
    assert failure.evidence == ""
    assert failure.message.endswith(words)


def test_an_exit_status_that_nobody_read_is_not_made_up() -> None:
    failure = starting("", None)
    assert failure.exit_status is None
    assert "exit status" not in failure.message
