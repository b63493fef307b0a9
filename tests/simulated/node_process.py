"""A simulated node as a process of the test's own: started, asked, ended."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil

READY = "The server is fired up and ready to roll!"
BASE = ["--model-path", "m", "--tp", "8", "--attention-backend", "flashinfer", "--cuda-graph-max-bs", "128"]
TREE = ["--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", "d", "--speculative-num-steps", "2"]
TUNED = {"NCCL_PROTO": "LL", "NCCL_ALGO": "Ring", "NCCL_P2P_LEVEL": "SYS"}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Node:
    """One launched node; `log` is its stderr so far."""

    def __init__(self, folder, flags, setting, port=None, environment=None):
        self.port = port or free_port()
        self.log_path = Path(folder) / "node.log"
        given = {"speed": 50, "noise": 0.0, "startup_s": 2.0, **setting}
        env = {"PATH": os.environ["PATH"], "AUTOTUNE_SIMULATED_NODE": json.dumps(given), **(environment or TUNED)}
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "autotune.simulated_node", *BASE, *flags, "--port", str(self.port)],
                stdout=log,
                stderr=log,
                env=env,
                start_new_session=True,
            )

    @property
    def log(self):
        return self.log_path.read_text(encoding="utf-8")

    def wait_for(self, text):
        until(lambda: text in self.log or self.process.poll() is not None)
        assert text in self.log, self.log
        return self

    def exit_status(self):
        return self.process.wait(timeout=20)

    def ask(self, path, body=None, method=None):
        """(status, text)"""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        with contextlib.closing(connection):
            data = None if body is None else json.dumps(body)
            connection.request(method or ("GET" if data is None else "POST"), path, data)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def generate(self, prompt="write a parser", tokens=32, stream=False, **more):
        sampling = {"max_new_tokens": tokens, "temperature": 0.0, "ignore_eos": True}
        body = {"text": prompt, "sampling_params": sampling, "stream": stream, **more}
        status, text = self.ask("/generate", body)
        assert status == 200, text
        if not stream:
            return json.loads(text)
        lines = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
        assert lines.pop() == "[DONE]"
        return [json.loads(line) for line in lines]

    def end(self):
        """Kills the node's whole session, which is its own."""
        members = [self.process.pid, *(child.pid for child in session_of(self.process.pid))]
        for pid in members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(timeout=20)


def session_of(leader):
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(ProcessLookupError, psutil.Error):
            if os.getsid(process.pid) == leader and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return [process for process in found if process.pid != leader]


def until(condition, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)
