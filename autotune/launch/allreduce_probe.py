"""A program of its own: times all-reduces as the serving interpreter's own torch and NCCL make them.

    PYTHON allreduce_probe.py --ranks 2 [--backend nccl] [--gpus 0,1] [--sizes 8192,65536] --log FILE

Run by the serving interpreter, never imported by the tuner: standard library and torch only, Python 3.10 and later.
Two passes, each with fresh processes, one process a GPU. The first has NCCL say what it reads and chooses (NCCL_DEBUG
goes to --log) and checks the sums; the second, without NCCL_DEBUG, times them. stdout gets one line of JSON:

    {"ok": true, "versions": {...}, "sizes": [{"bytes", "median_us", "p10_us", "p90_us", "repeats"}], "seconds"}
    {"ok": false, "kind": "communication" | "unavailable", "stage": "...", "message": "...", "seconds"}

`communication`: the processes stood on their devices, and then NCCL refused, hung or summed wrongly. `unavailable`:
it did not come to that (no torch, fewer GPUs than ranks, no memory left), so nothing is known of the setting.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

DEBUG = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,ENV,TUNING"}
SIZES = "8192,65536,1048576,8388608"

PASSES = ("proof", "timing")
CHECKS = 3
WARM_UP = 5
REPEATS = 30
BATCH = 20  # all-reduces between two events: their mean is one repeat
HEAD_START_CYCLES = 4_000_000  # about 2 ms: as long as the host needs to queue a batch behind it

_POLL_S = 0.05
_REPORT_S = 2.0  # how long the others may still say what they saw, after one rank has failed
_LEAVE_S = 10.0
_BF16 = 2
_PR_SET_PDEATHSIG = 1
_CIRCUMSTANCES = ("address already in use", "eaddrinuse", "out of memory")


def main() -> int:
    asked = _arguments()
    _die_with_the_parent()
    if asked.rank is not None:
        return _rank(asked)
    started = time.monotonic()
    answer = _conduct(asked)
    answer["seconds"] = round(time.monotonic() - started, 2)
    sys.stdout.write(json.dumps(answer) + "\n")
    return 0 if answer["ok"] else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="allreduce_probe.py")
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--backend", default="nccl", choices=("nccl", "gloo"))
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--gpus", default="", help="positions among the visible GPUs, one a rank; default: 0, 1, ...")
    parser.add_argument("--sizes", default=SIZES, help="bytes of each message")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds of communication, both passes together")
    parser.add_argument("--setup-timeout", type=float, default=180.0, help="seconds until every rank has its device")
    parser.add_argument("--log", required=True, help="what the ranks and NCCL print")
    for internal in ("--rank", "--port"):
        parser.add_argument(internal, type=int, help=argparse.SUPPRESS)
    for internal in ("--pass-name", "--report"):
        parser.add_argument(internal, default="", help=argparse.SUPPRESS)
    return parser.parse_args()


def _die_with_the_parent() -> None:
    """A tuner that is killed takes its probe with it, and a probe its ranks."""
    parent = os.getppid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


# --- the parent: starts the ranks of a pass, waits with two deadlines, ends them ---


class _Failed(Exception):
    """A pass that came to nothing: what the answer's fields say."""

    def __init__(self, kind: str, stage: str, message: str) -> None:
        super().__init__(message)
        self.fields = {"ok": False, "kind": kind, "stage": stage, "message": message}


def _conduct(asked: argparse.Namespace) -> dict[str, Any]:
    left_s = asked.timeout
    results: dict[str, list[dict[str, Any]]] = {}
    try:
        for name in PASSES:
            with tempfile.TemporaryDirectory(prefix="allreduce-") as folder:
                ranks = _Ranks(asked, name, folder)
                try:
                    results[name] = ranks.results(left_s)
                finally:
                    ranks.end()
            left_s -= ranks.communicating_s
    except _Failed as failed:
        return failed.fields
    timed = [_slowest([result["sizes"][index] for result in results["timing"]]) for index in range(len(_sizes(asked)))]
    return {"ok": True, "ranks": asked.ranks, "versions": results["proof"][0]["versions"], "sizes": timed}


def _slowest(same_size: list[dict[str, Any]]) -> dict[str, Any]:
    """A collective is as fast as its slowest rank."""
    return max(same_size, key=lambda row: float(row["median_us"]))


class _Ranks:
    """The processes of one pass. Each writes JSON lines on how far it is to a file of its own."""

    def __init__(self, asked: argparse.Namespace, name: str, folder: str) -> None:
        self._asked, self._name = asked, name
        self.communicating_s = 0.0
        self._reports = [Path(folder) / f"rank{rank}.jsonl" for rank in range(asked.ranks)]
        port = _free_port()
        environment = {key: value for key, value in os.environ.items() if key not in (*DEBUG, "NCCL_DEBUG_FILE")}
        if name == "proof":
            environment.update(DEBUG)
        common = [*sys.argv[1:], "--port", str(port), "--pass-name", name]
        self._processes = []
        for rank, report in enumerate(self._reports):
            with Path(asked.log).open("ab") as log:
                process = subprocess.Popen(
                    [
                        sys.executable,
                        str(Path(__file__).absolute()),
                        *common,
                        "--rank",
                        str(rank),
                        "--report",
                        str(report),
                    ],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=environment,
                )
            self._processes.append(process)

    def results(self, limit_s: float) -> list[dict[str, Any]]:
        """One result a rank. Raises _Failed."""
        ready_by, done_by, began = time.monotonic() + self._asked.setup_timeout, None, 0.0
        while True:
            said = [_read(report) for report in self._reports]
            if all("result" in lines for lines in said):
                self.communicating_s = time.monotonic() - (began or time.monotonic())
                return [lines["result"] for lines in said]
            if any("error" in lines for lines in said) or self._ended_silently(said):
                time.sleep(_REPORT_S)
                said = [_read(report) for report in self._reports]
                if not all("result" in lines for lines in said):  # one may have ended well since it was read
                    raise self._failure(said)
            now = time.monotonic()
            if done_by is None and all("device" in lines for lines in said):
                began, done_by = now, now + limit_s
            if done_by is not None and now > done_by:
                raise _Failed("communication", _stage(said), f"hung: not done {limit_s:.0f} s after the ranks were up")
            if done_by is None and now > ready_by:
                message = f"not every rank had its device after {self._asked.setup_timeout:.0f} s"
                raise _Failed("unavailable", "setup", message)
            time.sleep(_POLL_S)

    def _ended_silently(self, said: list[dict[str, Any]]) -> bool:
        pairs = zip(self._processes, said, strict=True)
        return any(process.poll() is not None and "result" not in lines for process, lines in pairs)

    def _failure(self, said: list[dict[str, Any]]) -> _Failed:
        stage = _stage(said)
        kind = (
            "unavailable" if stage == "setup" or any(lines.get("circumstance") for lines in said) else "communication"
        )
        errors = [str(lines["error"]) for lines in said if "error" in lines]
        if errors:
            return _Failed(kind, stage, errors[0])
        statuses = [process.poll() for process in self._processes]
        return _Failed(kind, stage, f"a rank ended without a word (exit statuses {statuses})")

    def end(self) -> None:
        """Those that are done get a moment to leave by themselves; the rest are killed. Returns when all are gone."""
        deadline = time.monotonic() + _LEAVE_S
        done = all("result" in _read(report) for report in self._reports)
        while done and time.monotonic() < deadline and any(p.poll() is None for p in self._processes):
            time.sleep(_POLL_S)
        for process in self._processes:
            if process.poll() is None:
                process.kill()
        for process in self._processes:
            process.wait()


def _stage(said: list[dict[str, Any]]) -> str:
    """How far the slowest rank came: setup, communicator or all-reduce."""
    if not all("device" in lines for lines in said):
        return "setup"
    return "all-reduce" if all("communicator" in lines for lines in said) else "communicator"


def _read(report: Path) -> dict[str, Any]:
    """What a rank has said so far, all lines put together; a line that is half written does not count yet."""
    try:
        lines = report.read_text(encoding="utf-8").split("\n")[:-1]
    except FileNotFoundError:
        return {}
    merged: dict[str, Any] = {}
    for line in lines:
        merged.update(json.loads(line))
    return merged


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _sizes(asked: argparse.Namespace) -> list[int]:
    return [int(word) for word in asked.sizes.split(",")]


# --- one rank ---


def _rank(asked: argparse.Namespace) -> int:
    # The folder of this file is no place to import from: its modules have everyday names.
    here = Path(__file__).resolve().parent
    sys.path[:] = [place for place in sys.path if Path(place or ".").resolve() != here]

    def say(**fields: Any) -> None:
        with Path(asked.report).open("a", encoding="utf-8") as file:
            file.write(json.dumps(fields) + "\n")

    try:
        _take_part(asked, say)
    except (ImportError, OSError, RuntimeError, ValueError) as error:  # NCCL's own is a RuntimeError
        text = f"{type(error).__name__}: {error}"
        sys.stderr.write(f"rank {asked.rank}: {text}\n")
        say(error=text[:2000], circumstance=any(word in text.lower() for word in _CIRCUMSTANCES))
        return _leave(1)
    return _leave(0)


def _leave(status: int) -> int:
    """Past the destructors: after a failed collective they can wait for ever."""
    sys.stderr.flush()
    os._exit(status)


def _take_part(asked: argparse.Namespace, say: Any) -> None:
    import torch
    import torch.distributed as dist

    device = _device(torch, asked)
    torch.zeros(1, device=device)
    say(device=str(device))
    dist.init_process_group(
        asked.backend,
        init_method=f"tcp://127.0.0.1:{asked.port}",
        rank=asked.rank,
        world_size=asked.ranks,
        timeout=timedelta(seconds=asked.timeout + _LEAVE_S),  # the parent is the one who gives up
    )
    dist.all_reduce(torch.zeros(_sizes(asked)[0] // _BF16, dtype=torch.bfloat16, device=device))
    _finish(torch, device)
    say(communicator=True)
    result: dict[str, Any] = {"versions": _versions(torch, asked)}
    for _ in range(CHECKS):
        for size in _sizes(asked):
            _check(torch, dist, asked, device, size)
    if asked.pass_name == "timing":
        result["sizes"] = [_timed(torch, dist, asked, device, size) for size in _sizes(asked)]
        _check(torch, dist, asked, device, _sizes(asked)[-1])
    _finish(torch, device)
    dist.barrier()
    say(result=result)  # before the group is taken down: a hang in that says nothing about the setting
    dist.destroy_process_group()


def _device(torch: Any, asked: argparse.Namespace) -> Any:
    """Raises RuntimeError where the rank has no GPU of its own."""
    if asked.device == "cpu":
        torch.set_num_threads(1)
        return torch.device("cpu")
    chosen = [int(word) for word in asked.gpus.split(",")] if asked.gpus else list(range(asked.ranks))
    position, visible = chosen[asked.rank], torch.cuda.device_count()
    if position >= visible:
        raise RuntimeError(f"rank {asked.rank} needs GPU {position}, but only {visible} are visible")
    torch.cuda.set_device(position)  # before the group: NCCL takes the current device
    return torch.device("cuda", position)


def _versions(torch: Any, asked: argparse.Namespace) -> dict[str, str]:
    versions = {"torch": str(torch.__version__)}
    if asked.backend == "nccl":
        versions["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
        versions["gpu"] = str(torch.cuda.get_device_name())
    return versions


def _finish(torch: Any, device: Any) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def _check(torch: Any, dist: Any, asked: argparse.Namespace, device: Any, size: int) -> None:
    """Whole numbers that bf16 holds exactly, so that the order of summing cannot excuse a difference."""
    pattern = torch.arange(size // _BF16, device=device) % 8
    given = (pattern + asked.rank % 8).to(torch.bfloat16)
    dist.all_reduce(given)
    expected = pattern * asked.ranks + sum(rank % 8 for rank in range(asked.ranks))
    wrong = int((given.to(torch.int64) != expected).sum().item())
    if wrong:
        raise RuntimeError(f"wrong sums: {wrong} of {size // _BF16} elements of an all-reduce of {size} bytes")


def _timed(torch: Any, dist: Any, asked: argparse.Namespace, device: Any, size: int) -> dict[str, Any]:
    message = torch.zeros(size // _BF16, dtype=torch.bfloat16, device=device)
    for _ in range(WARM_UP):
        dist.all_reduce(message)
    _finish(torch, device)
    one = _batch_on_gpu if device.type == "cuda" else _batch_on_cpu
    seen = sorted(one(torch, dist, message) for _ in range(asked.repeats))
    return {
        "bytes": size,
        "median_us": round(statistics.median(seen), 2),
        "p10_us": round(seen[int(0.1 * (len(seen) - 1))], 2),
        "p90_us": round(seen[int(0.9 * (len(seen) - 1) + 0.5)], 2),
        "repeats": len(seen),
    }


def _batch_on_gpu(torch: Any, dist: Any, message: Any) -> float:
    """Microseconds of the GPU for one all-reduce, as the mean of a batch.

    The GPU is kept busy while the host queues the batch, and one all-reduce before the first event lines the ranks
    up: what is timed is neither Python nor the ranks' waiting for one another. A decode step replays a graph, where
    neither is paid either.
    """
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    if hasattr(torch.cuda, "_sleep"):
        torch.cuda._sleep(HEAD_START_CYCLES)
    dist.all_reduce(message)
    first.record()
    for _ in range(BATCH):
        dist.all_reduce(message)
    last.record()
    torch.cuda.synchronize()
    return float(first.elapsed_time(last)) * 1000 / BATCH


def _batch_on_cpu(torch: Any, dist: Any, message: Any) -> float:
    began = time.perf_counter()
    dist.all_reduce(message)
    return (time.perf_counter() - began) * 1e6


if __name__ == "__main__":
    sys.exit(main())
