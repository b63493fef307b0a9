"""`autotune bench` against a real SGLang on the CPU that somebody else started."""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from programs import autotune, environment

from autotune.launch import free_port

pytestmark = pytest.mark.real_cpu
KIT = Path(os.environ.get("AUTOTUNE_REAL_CPU", "/nonexistent"))
FLAGS = ("--device", "cpu", "--attention-backend", "torch_native", "--max-total-tokens", "8192")
MORE_FLAGS = ("--max-running-requests", "8", "--random-seed", "1", "--served-model-name", "theirs")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port, log = free_port(), tmp_path_factory.mktemp("bench") / "server.log"
    argv = [str(KIT / "venv/bin/python"), "-m", "sglang.launch_server", "--model-path", str(KIT / "models/tiny8")]
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*argv, "--host", "127.0.0.1", "--port", str(port), *FLAGS, *MORE_FLAGS],
            env=environment(OMP_NUM_THREADS="1", SGLANG_USE_CPU_ENGINE="1"),
            stdout=out,
            stderr=out,
        )
        try:
            deadline = time.monotonic() + 300
            while not healthy(url := f"http://127.0.0.1:{port}"):
                assert process.poll() is None, log.read_text()[-2000:]
                assert time.monotonic() < deadline, log.read_text()[-2000:]
                time.sleep(1)
            yield url
        finally:
            process.terminate()
            process.wait(timeout=60)


def healthy(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", timeout=30).status_code == 200
    except httpx.HTTPError:
        return False


@pytest.mark.parametrize("endpoint", ["generate", "chat", "completions"])
def test_bench_measures_a_server_that_runs(server: str, endpoint: str, tmp_path: Path) -> None:
    plan = ("--concurrency", "1,4", "--max-tokens", "32", "--endpoint", endpoint, "--json")
    done = autotune("bench", "--url", server, *plan, cwd=tmp_path, timeout=600)
    assert done.returncode == 0, done.stderr
    levels = json.loads(done.stdout)["levels"]
    assert [level["concurrency"] for level in levels] == [1, 4]
    for level in levels:
        assert level["requests_ok"] == level["requests_total"] >= 10
        seen = level["output_throughput"]
        assert 0 < seen["low"] < seen["value"] < seen["high"]


def test_bench_narrows_its_interval_where_it_is_asked_to(server: str, tmp_path: Path) -> None:
    plan = ("--concurrency", "2", "--max-tokens", "32", "--precision", "10%", "--json")
    done = autotune("bench", "--url", server, *plan, cwd=tmp_path, timeout=600)
    assert done.returncode == 0, done.stderr
    (level,) = json.loads(done.stdout)["levels"]
    seen = level["output_throughput"]
    narrow = (seen["high"] - seen["low"]) / 2 <= 0.1 * seen["value"]
    assert narrow or level["requests_total"] >= 8 * 10
