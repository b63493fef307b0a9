"""The all-reduce probe with the real torch of a serving environment, two ranks over gloo on the CPU."""

import os
import time
from pathlib import Path

import pytest
from programs import processes_naming

from autotune.launch.collectives import AllReduceProbe, time_allreduce

pytestmark = pytest.mark.real_cpu
PYTHON = Path(os.environ.get("AUTOTUNE_REAL_CPU", "/nonexistent")) / "venv" / "bin" / "python"


def probe(folder: Path, **fields: object) -> AllReduceProbe:
    given: dict[str, object] = {
        "python": str(PYTHON),
        "environment": {"PATH": os.environ["PATH"], "TMPDIR": str(folder), "GLOO_SOCKET_IFNAME": "lo"},
        "gpus": (0, 1),
        "log_path": folder / "probe.log",
        "sizes": (8192, 65536),
        "backend": "gloo",
        "repeats": 5,
        **fields,
    }
    return AllReduceProbe(**given)  # type: ignore[arg-type]


def test_every_size_is_summed_rightly_and_timed_and_nothing_is_left(tmp_path: Path) -> None:
    answer = time_allreduce(probe(tmp_path))
    assert answer.outcome == "measured", answer.message
    assert [time.size for time in answer.times] == [8192, 65536]
    for seen in answer.times:
        assert 0 < seen.p10_us <= seen.median_us <= seen.p90_us
    assert answer.versions["torch"]
    assert processes_naming(str(tmp_path)) == []


def test_a_hang_costs_the_time_limit_and_is_held_against_the_setting(tmp_path: Path) -> None:
    """More work than the limit allows looks, from outside, as a hang does."""
    began = time.monotonic()
    large = probe(tmp_path, sizes=(64 * 2**20,), repeats=100_000, timeout_s=4.0)
    answer = time_allreduce(large)
    assert answer.outcome == "communication"
    assert "hung" in answer.message
    assert time.monotonic() - began < 60
    assert processes_naming(str(tmp_path)) == []


def test_a_setting_that_the_library_refuses_is_held_against_it_with_its_message(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path), "GLOO_SOCKET_IFNAME": "nosuch0"}
    answer = time_allreduce(probe(tmp_path, environment=environment))
    assert answer.outcome == "communication"
    assert "nosuch0" in answer.message
    assert "nosuch0" in (tmp_path / "probe.log").read_text()


def test_without_gpus_nothing_is_learnt_of_the_setting(tmp_path: Path) -> None:
    answer = time_allreduce(probe(tmp_path, backend="nccl", setup_s=60.0))
    assert answer.outcome == "unavailable", answer.message


def test_an_interpreter_without_torch_teaches_nothing(tmp_path: Path) -> None:
    answer = time_allreduce(probe(tmp_path, python="/usr/bin/python3"))
    assert answer.outcome == "unavailable"
    assert "torch" in answer.message
