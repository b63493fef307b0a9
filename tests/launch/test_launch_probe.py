from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from autotune.errors import ServingEnvironmentError
from autotune.launch import disk_free, gpu_count, node_facts, probe


def test_a_probe_gives_stdout_and_not_stderr() -> None:
    assert probe([sys.executable, "-c", "import sys; print('0.5.23'); print('warning', file=sys.stderr)"]) == "0.5.23\n"


def test_a_probe_gets_the_servers_environment_and_not_the_shells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/somewhere/else")
    assert "PYTHONPATH" not in probe([sys.executable, "-c", "import os; print(*os.environ)"])


def test_a_missing_interpreter_says_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(ServingEnvironmentError, match="No such file") as raised:
        probe([str(tmp_path / "python")])
    assert "engine.python" in raised.value.hint


def test_a_failing_probe_shows_its_last_line() -> None:
    with pytest.raises(ServingEnvironmentError, match="status 1: ModuleNotFoundError: No module named 'sglang_x'"):
        probe([sys.executable, "-c", "import sglang_x"])


def test_a_silent_failure_is_said_to_be_silent() -> None:
    with pytest.raises(ServingEnvironmentError, match="status 4: nothing on stderr"):
        probe([sys.executable, "-c", "raise SystemExit(4)"])


def test_a_probe_that_hangs_is_ended_with_what_it_started() -> None:
    began = time.monotonic()
    hang = "import subprocess, time; subprocess.Popen(['sleep', '30']); time.sleep(30)"
    with pytest.raises(ServingEnvironmentError, match=r"no answer within 0\.5 s"):
        probe([sys.executable, "-S", "-c", hang], timeout_s=0.5)
    assert time.monotonic() - began < 10


def test_node_facts_name_the_machine_and_no_gpu_that_is_not_there() -> None:
    facts = node_facts()
    assert {"cpu_threads", "memory_gib", "kernel"} <= facts.keys()
    assert all(facts.values())
    assert ("gpu_names" in facts) == (gpu_count() > 0)


def test_disk_space_is_that_of_the_folder_that_will_hold_the_path(tmp_path: Path) -> None:
    assert disk_free(tmp_path / "not" / "there" / "yet") > 0
