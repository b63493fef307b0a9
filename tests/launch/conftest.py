from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autotune.domain.trial import LaunchCommand
from autotune.launch import Server, complete_environment, start
from autotune.launch.guard import process_table


@pytest.fixture
def script_command(tmp_path: Path) -> Callable[..., LaunchCommand]:
    """A toy server: the text of a Python program as a launch command."""

    def make(text: str, *arguments: str, **environment: str) -> LaunchCommand:
        script = tmp_path / "toy_server.py"
        script.write_text(text)
        bare = LaunchCommand((sys.executable, "-S", str(script), *arguments), environment)
        return complete_environment(bare, os.environ, tmpdir=tmp_path / "t")

    return make


@pytest.fixture
def serve(tmp_path: Path, script_command: Callable[..., LaunchCommand]) -> Iterator[Callable[..., Server]]:
    """Starts a toy server, which is stopped at the end of the test at the latest."""
    servers: list[Server] = []

    def begin(text: str, *arguments: str, **environment: str) -> Server:
        command = script_command(text, *arguments, **environment)
        servers.append(start(command, log_path=tmp_path / "server.log", tmpdir=tmp_path / "t"))
        return servers[-1]

    yield begin
    for server in servers:
        server.stop(grace_s=0.0)


@pytest.fixture
def eventually() -> Callable[..., None]:
    """Waits for a condition, and fails the test if it does not come true."""

    def wait(condition: Callable[[], object], timeout_s: float = 10.0) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline, "the condition did not come true in time"
            time.sleep(0.02)

    return wait


@pytest.fixture
def alive() -> Callable[[int], bool]:
    """Whether a process runs. A zombie that its new parent does not collect does not."""
    return lambda pid: any(entry.alive for entry in process_table() if entry.pid == pid)
