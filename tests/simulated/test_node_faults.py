"""The faults that a simulated node can be given by switch, for tests of those who must notice them."""

import http.client
import json
import signal
import socket
import subprocess
import time

import pytest
from node_process import session_of


def test_fault_die_after_requests(launch):
    node = launch(faults={"die_after_requests": 2})
    for number in range(2):
        node.generate(str(number), tokens=4)
    with pytest.raises((http.client.HTTPException, OSError)):
        node.generate("one too many", tokens=4)
    assert node.exit_status() == -signal.SIGKILL
    assert "CUDA error: an illegal memory access" in node.log
    assert "SIGQUIT received" in node.log
    assert session_of(node.process.pid) == []


def test_fault_hang_after_requests_keeps_health_at_200(launch):
    node = launch(faults={"hang_after_requests": 0})
    sampling = {"max_new_tokens": 5, "ignore_eos": True}
    with socket.create_connection(("127.0.0.1", node.port), timeout=0.5) as client:
        body = json.dumps({"text": "long", "stream": True, "sampling_params": sampling}).encode()
        client.sendall(b"POST /generate HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        assert client.recv(4096).endswith(b"\r\n\r\n")  # the head, and then nothing
        with pytest.raises(TimeoutError):
            client.recv(1)
        assert node.ask("/health")[0] == 200


def test_fault_hang_at_start(launch):
    node = launch(ready=False, faults={"hang_at_start": True}, startup_s=0.1).wait_for("Load weight begin")
    with pytest.raises(subprocess.TimeoutExpired):
        node.process.wait(timeout=0.5)
    assert "Load weight end" not in node.log
    node.process.terminate()
    assert node.exit_status() == -signal.SIGTERM


@pytest.mark.parametrize(("death", "evidence"), [("oom", "CUDA out of memory"), ("exception", "RuntimeError")])
def test_fault_die_at_start(launch, death, evidence):
    node = launch(ready=False, faults={"die_at_start": death}, startup_s=0.5)
    assert node.exit_status() == -signal.SIGKILL
    assert evidence in node.log


def test_fault_serve_as_is_a_lie_about_identity(launch):
    node = launch("--served-model-name", "mine", faults={"serve_as": "another"})
    assert '"another"' in node.ask("/v1/models")[1]
    assert '"mine"' not in node.ask("/v1/models")[1]


def test_fault_error_rate_breaks_the_stream_under_a_200(launch):
    node = launch(faults={"error_rate": 1.0})
    events = node.generate("anything", tokens=500, stream=True)
    assert "error" in events[-1]
    assert all("error" not in event for event in events[:-1])


def test_fault_ignore_sigterm(launch):
    node = launch(faults={"ignore_sigterm": True})
    node.process.terminate()
    with pytest.raises(subprocess.TimeoutExpired):
        node.process.wait(timeout=0.5)
    assert node.ask("/health")[0] == 200


def test_fault_orphan_leaves_a_child_that_ignores_sigterm(launch):
    node = launch(faults={"orphan": True})
    assert len(session_of(node.process.pid)) == 2
    node.process.terminate()
    assert node.exit_status() == 0
    (orphan,) = session_of(node.process.pid)
    orphan.terminate()
    time.sleep(0.1)
    assert [process.pid for process in session_of(node.process.pid)] == [orphan.pid]
