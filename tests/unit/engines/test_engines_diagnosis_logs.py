"""Logs as they come: several ranks in one file, colours, other line ends, cut, huge, or not SGLang's at all."""

from __future__ import annotations

import random
import string
import time
from collections.abc import Callable, Iterator

import pytest

from autotune.domain.trial import Failure, FailureReason
from autotune.engines.dialect.diagnosis import diagnose
from autotune.engines.dialect.tracebacks import chains

BEGIN = "[2026-11-29 15:15:43] Load weight begin. avail mem=94.1 GB\n"
READY = "[2026-11-29 15:15:50] The server is fired up and ready to roll!\n"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
REMOTE = "torch.distributed.DistBackendError: NCCL error: ncclRemoteError: remote process exited"
DIED = (FailureReason.DIED_STARTING, FailureReason.DIED_SERVING)


def traceback(exception: str, depth: int = 4) -> list[str]:
    frames = [f'  File "/opt/sglang/f{n}.py", line {n}, in f{n}\n    f{n + 1}()\n    ^^^^' for n in range(depth)]
    return ["Traceback (most recent call last):", *"\n".join(frames).split("\n"), exception]


def died(log: str, *, ready: bool = False, status: int | None = -9) -> Failure:
    return diagnose(status, log, ready=ready)


def shuffled(streams: list[list[str]], seed: int) -> Iterator[str]:
    """Lines of several processes in one file: the order of each is kept."""
    rng, rest = random.Random(seed), [list(reversed(stream)) for stream in streams]
    while rest:
        stream = rng.choice(rest)
        yield stream.pop()
        if not stream:
            rest.remove(stream)


@pytest.mark.parametrize("seed", range(10))
def test_eight_ranks_that_print_line_by_line_into_each_other(seed: int) -> None:
    """Rank 5 fails first; the others follow while it is still printing, and their exceptions come after its own."""
    first, others = traceback(OOM), [traceback(REMOTE, depth=9) for _ in range(7)]
    mixed = list(shuffled([first[:-1], *(other[:-1] for other in others)], seed))
    failure = died(BEGIN + "\n".join([*mixed, OOM, *[REMOTE] * 7]) + "\n")
    assert failure.reason is FailureReason.OUT_OF_MEMORY_LOADING
    assert failure.evidence == OOM


@pytest.mark.parametrize("seed", range(10))
def test_eight_ranks_whose_follow_up_comes_first(seed: int) -> None:
    streams = [traceback(OOM, depth=12), *(traceback(REMOTE, depth=2) for _ in range(7))]
    failure = died(BEGIN + "\n".join(shuffled(streams, seed)) + "\n")
    assert failure.reason is FailureReason.OUT_OF_MEMORY_LOADING
    assert failure.evidence == OOM


@pytest.mark.parametrize("seed", range(10))
def test_ranks_that_torch_marks_are_read_one_by_one(seed: int) -> None:
    key = "KeyError: 'model.layers.0.w'"
    loading = [*traceback(key)[:-1], '  File "/opt/sglang/loader.py", line 1, in load_weights', key]
    streams = [[f"[rank{n}]: {line}" for line in (loading if n == 3 else traceback(REMOTE, depth=6))] for n in range(8)]
    mixed = list(shuffled(streams, seed))
    failure = died(BEGIN + "\n".join(mixed) + "\n")
    assert failure.reason is FailureReason.MODEL_MISMATCH
    assert failure.evidence == key


def test_tp8_where_each_rank_writes_its_whole_traceback_at_once() -> None:
    whole = "".join(
        f"[2026-11-29 15:15:4{n} TP{n}] Scheduler hit an exception: " + "\n".join(traceback(exception)) + "\n\n"
        for n, exception in enumerate([OOM, *[REMOTE] * 7])
    )
    failure = died(BEGIN + whole + "[2026-11-29 15:15:50] Received sigquit from a child process.\n")
    assert failure.reason is FailureReason.OUT_OF_MEMORY_LOADING
    assert failure.evidence == OOM


def test_chains_of_two_ranks_in_each_other_keep_their_roots() -> None:
    link = ["", "During handling of the above exception, another exception occurred:", ""]
    one = [*traceback("ValueError: one"), *link, *traceback("RuntimeError: of one")]
    two = [*traceback("KeyError: 'two'"), *link, *traceback("RuntimeError: of two")]
    mixed = [line for pair in zip(one, two, strict=True) for line in pair]
    found = [[raised.line for raised in chain.exceptions] for chain in chains(mixed)]
    assert found == [["ValueError: one", "RuntimeError: of one"], ["KeyError: 'two'", "RuntimeError: of two"]]


def test_a_long_message_is_kept_whole_and_is_no_exception_of_its_own() -> None:
    (chain,) = chains([*traceback("ValueError: none of these:"), "(1) this", "Error: not an exception", "", "end"])
    assert chain.exceptions[0].message.split("\n")[1:] == ["(1) this", "Error: not an exception"]
    assert len(chain.exceptions) == 1


def test_an_exception_that_carries_a_traceback_in_its_text() -> None:
    carried = [
        *traceback("tvm.error.InternalError: Traceback (most recent call last):"),
        "  [bt] (3) run",
        "TVMError: x",
    ]
    (chain,) = chains(carried)
    assert chain.exceptions[0].kind == "InternalError"
    assert "TVMError: x" in chain.exceptions[0].message


def test_log_levels_at_the_start_of_a_line_are_no_exceptions() -> None:
    lines = traceback("ValueError: real")
    lines.insert(3, 'INFO:     127.0.0.1:4 - "GET /health HTTP/1.1" 503')
    assert chains(lines)[0].exceptions[0].line == "ValueError: real"


def test_colours_are_no_part_of_the_text(sample: Callable[[str], str]) -> None:
    plain = sample("died_tree_too_large_0_5_23.log")
    coloured = "\n".join(f"\x1b[1;31m{line}\x1b[0m\x1b[K" for line in plain.splitlines())
    assert died(coloured) == died(plain)


@pytest.mark.parametrize("name", ["died_tree_too_large_0_5_23.log", "died_port_taken_0_5_23.log"])
def test_windows_line_ends_change_nothing(sample: Callable[[str], str], name: str) -> None:
    plain = sample(name)
    assert died(plain.replace("\n", "\r\n")) == died(plain)


TRAFFIC = '[2026-11-29 15:23:05] INFO:     127.0.0.1:1 - "POST /generate HTTP/1.1" 200 OK\n'


@pytest.mark.parametrize("place", [0, 300_000, 629_000])
def test_fifty_megabytes_are_read_quickly_and_the_exception_is_found_wherever_it_is(place: int) -> None:
    fatal = "[2026-11-29 15:23:06] Scheduler hit an exception: " + "\n".join(traceback(OOM)) + "\n"
    log = READY + TRAFFIC * place + fatal + TRAFFIC * (640_000 - place)
    assert len(log) > 50_000_000
    began = time.process_time()
    failure = died(log, ready=True)
    assert time.process_time() - began < 5
    assert failure.reason is FailureReason.OUT_OF_MEMORY_SERVING
    assert failure.evidence == OOM


def test_a_traceback_at_the_seam_of_what_is_kept_is_not_lost() -> None:
    fatal = "[2026-11-29 15:23:06] Scheduler hit an exception: " + "\n".join(traceback(OOM, depth=60)) + "\n"
    for before in range(5_900, 6_110, 15):
        log = TRAFFIC * before + fatal + TRAFFIC * 40_000
        assert died(log).reason is FailureReason.OUT_OF_MEMORY, before


def test_one_line_of_fifty_megabytes() -> None:
    began = time.process_time()
    assert died("x" * 50_000_000).reason is FailureReason.DIED_STARTING
    assert time.process_time() - began < 5


def test_ten_thousand_tracebacks_are_read_in_time() -> None:
    began = time.process_time()
    assert died("\n".join(traceback("ValueError: x", depth=1) * 10_000)).evidence
    assert time.process_time() - began < 10


def test_a_log_cut_anywhere_is_the_right_reason_or_none(sample: Callable[[str], str]) -> None:
    log = sample("died_fa3_on_cpu_0_5_23.log")
    whole = died(log).reason
    assert whole is FailureReason.UNSUPPORTED_HARDWARE
    for cut in range(0, len(log), 97):
        assert died(log[:cut]).reason in (whole, *DIED), log[:cut][-80:]


def test_a_partial_last_line_is_shown_as_it_is() -> None:
    failure = died(BEGIN + "[2026-11-29 15:15:44] Multi-thread load", status=-11)
    assert failure.reason is FailureReason.DIED_STARTING
    assert failure.evidence.endswith("Multi-thread load")


def test_a_traceback_without_its_exception_says_nothing() -> None:
    failure = died(BEGIN + "\n".join(traceback(OOM)[:-1]))
    assert failure.reason is FailureReason.DIED_STARTING


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("ready", [True, False])
def test_random_text_is_no_reason(seed: int, ready: bool) -> None:
    rng = random.Random(seed)
    lines = ["".join(rng.choices(string.printable, k=rng.randrange(120))) for _ in range(500)]
    last = "the last line"
    failure = died("\n".join([*lines, last]), ready=ready, status=1)
    assert failure.reason is (FailureReason.DIED_SERVING if ready else FailureReason.DIED_STARTING)
    assert failure.evidence.endswith(last)


OTHERS = {
    "nginx": '2026/11/29 15:00:01 [emerg] 7#7: host not found in upstream "app" in /etc/nginx/nginx.conf:41\n',
    "java": 'Exception in thread "main" java.lang.IllegalStateException: no\n\tat x.Main.main(Main.java:7)\n',
    "rust": "thread 'main' panicked at src/main.rs:4:5:\nindex out of range\nnote: run with RUST_BACKTRACE=1\n",
    "go": "panic: runtime error: invalid memory address\n\ngoroutine 1 [running]:\nmain.main()\n\t/x/main.go:9 +0x1d\n",
    "bash": "/opt/start.sh: line 3: numactl: command not found\n",
    "docker": "docker: Error response from daemon: could not select device driver with capabilities: [[gpu]].\n",
    "python": 'Traceback (most recent call last):\n  File "/opt/app/main.py", line 3, in x\n    f()\nValueError: no\n',
    "llama.cpp": "llama_model_load: error loading model: tensor 'token_embd.weight' has wrong shape\nexiting\n",
    "gcc": "main.c:3:5: error: expected ';' before 'return'\ncc1: all warnings being treated as errors\n",
    "empty": "",
    "json": '{"level": "error", "msg": "listener failed", "code": 17}\n',
}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("ready", [True, False])
def test_logs_of_other_programs_are_no_reason(name: str, ready: bool) -> None:
    failure = died(OTHERS[name], ready=ready, status=1)
    assert failure.reason is (FailureReason.DIED_SERVING if ready else FailureReason.DIED_STARTING)
    assert all(line in OTHERS[name] for line in failure.evidence.splitlines())
    assert bool(failure.evidence) is bool(OTHERS[name])


@pytest.mark.parametrize("name", ["stopped_eagle3_0_5_15.log", "stopped_cpu_0_5_23.log", "stopped_ngram_0_5_15.log"])
@pytest.mark.parametrize("status", [1, -6, -9])
def test_a_healthy_log_cut_off_anywhere_is_no_reason(sample: Callable[[str], str], name: str, status: int) -> None:
    log = sample(name)
    for cut in range(0, log.index("SIGTERM received"), 211):
        ready = READY[22:].strip() in log[:cut]
        failure = died(log[:cut], ready=ready, status=status)
        assert failure.reason is (FailureReason.DIED_SERVING if ready else FailureReason.DIED_STARTING), log[:cut][-99:]


def test_a_traceback_that_was_followed_by_progress_did_not_end_the_server() -> None:
    survived = "\n".join(traceback("ModuleNotFoundError: No module named 'extra'")) + "\n"
    assert died(survived).reason is FailureReason.MISSING_DEPENDENCY
    assert died(survived + BEGIN).reason is FailureReason.DIED_STARTING
    refused = "\n".join(traceback("ValueError: request too long")) + "\n"
    after = READY + survived + refused + "[2026-11-29 15:16:00 TP0] Decode batch, #running-req: 3\n"
    failure = died(after, ready=True)
    assert failure.reason is FailureReason.DIED_SERVING
    assert "Decode batch" in failure.evidence


def test_a_server_that_died_with_nothing_logged_since_it_was_ready_shows_its_last_lines() -> None:
    assert died(BEGIN + READY, ready=True).evidence.endswith("ready to roll!")
