"""The simulated node as a process: started, asked, killed, on loopback."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

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


@pytest.fixture
def launch(tmp_path):
    nodes = []

    def start(*flags, ready=True, environment=None, port=None, **setting):
        folder = tmp_path / str(len(nodes))
        folder.mkdir()
        nodes.append(Node(folder, flags, setting, port, environment))
        return nodes[-1].wait_for(READY) if ready else nodes[-1]

    yield start
    for node in nodes:
        node.end()


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    """One node that no test harms."""
    flags = ["--served-model-name", "trial-7", "--stream-interval", "4", "--enable-metrics"]
    started = Node(tmp_path_factory.mktemp("node"), [*flags, *TREE, "--speculative-eagle-topk", "1"], {})
    yield started.wait_for(READY)
    started.end()


def test_the_log_tells_the_stages_in_sglangs_words_and_order(node):
    stages = ("server_args=ServerArgs(", "Load weight begin", "Load weight end", "Capture cuda graph begin")
    stages += ("Capture cuda graph end", "Uvicorn running on", READY)
    places = [node.log.find(stage) for stage in stages]
    assert -1 not in places
    assert places == sorted(places)


def test_identity_health_and_model_info(node):
    assert node.ask("/health")[0] == 200
    assert node.ask("/health_generate")[0] == 200
    models = json.loads(node.ask("/v1/models")[1])
    assert [model["id"] for model in models["data"]] == ["trial-7"]
    assert json.loads(node.ask("/get_model_info")[1])["model_path"] == "m"
    assert node.ask("/nowhere")[0] == 404
    assert node.ask("/health", {}, "POST")[0] == 405


def test_server_info_has_the_resolved_arguments_and_the_internal_state(node):
    node.generate("a prompt for the acceptance", tokens=200)
    for path in ("/server_info", "/get_server_info"):
        info = json.loads(node.ask(path)[1])
        assert info["version"] == "0.5.9"
        assert info["speculative_num_draft_tokens"] == 3
        assert info["max_running_requests"] == 48
        state = info["internal_states"][0]
        assert state["effective_max_running_requests_per_dp"] == 48
        assert 1.0 < state["avg_spec_accept_length"] <= 3.0
        assert state["last_gen_throughput"] > 0
        assert info["simulated_node"] == {"name": "rtx-pro-6000-x8", "speed": 50}


def test_a_stream_counts_up_to_the_limit_and_ends_with_the_facts(node):
    events = node.generate("count for me", tokens=50, stream=True, rid="mine")
    counts = [event["meta_info"]["completion_tokens"] for event in events]
    assert counts == sorted(counts)
    assert counts[-1] == 50
    assert all(event["meta_info"]["id"] == "mine" for event in events)
    last = events[-1]["meta_info"]
    assert last["finish_reason"] == {"type": "length", "length": 50}
    assert 16 < last["spec_verify_ct"] < 50
    assert sum(last["spec_accept_histogram"]) == last["spec_verify_ct"]
    assert last["e2e_latency"] > 0
    assert all(event["meta_info"]["finish_reason"] is None for event in events[:-1])


def test_greedy_text_is_the_prompts_own_and_sampled_text_is_not(node):
    first, again, other = (node.generate(prompt)["text"] for prompt in ("same", "same", "other"))
    assert first == again
    assert first != other
    body = {"text": "same", "sampling_params": {"max_new_tokens": 32, "temperature": 1.0, "ignore_eos": True}}
    sampled = {json.loads(node.ask("/generate", body)[1])["text"] for _ in range(3)}
    assert len(sampled) == 3


def test_a_replayed_prompt_is_cached_until_the_flush(node):
    cached = [node.generate("the replayed prompt")["meta_info"]["cached_tokens"] for _ in range(2)]
    assert node.ask("/flush_cache", {}, "POST")[0] == 200
    cached.append(node.generate("the replayed prompt")["meta_info"]["cached_tokens"])
    assert cached == [0, 4, 0]


def test_answers_end_by_themselves_where_eos_counts(node):
    ends = set()
    for number in range(12):
        body = {"text": f"question {number}", "sampling_params": {"max_new_tokens": 400, "temperature": 0.0}}
        meta = json.loads(node.ask("/generate", body)[1])["meta_info"]
        ends.add(meta["finish_reason"]["type"])
        assert meta["completion_tokens"] <= 400
    assert ends == {"stop", "length"}


@pytest.mark.parametrize("body", [{}, {"text": ["a", "b"]}, {"text": "a", "sampling_params": {"max_new_tokens": 0}}])
def test_a_request_that_cannot_be_read_is_a_400(node, body):
    status, text = node.ask("/generate", body)
    assert status == 400
    assert "error" in json.loads(text)


def test_metrics_carry_sglangs_names(node):
    before = node.ask("/metrics")[1]
    node.generate("metrics", tokens=20)
    after = node.ask("/metrics")[1]

    def tokens(text):
        line = next(line for line in text.splitlines() if line.startswith("sglang:generation_tokens_total{"))
        return float(line.rsplit(" ", 1)[1])

    assert tokens(after) - tokens(before) == 20
    assert 'sglang:spec_accept_length{model_name="trial-7"}' in after


def test_the_truth_is_given_for_a_level_and_bad_questions_are_refused(node):
    one, ten = (
        json.loads(node.ask(f"/simulated/truth?concurrency={level}&max_tokens=64&prompt_tokens=50")[1])
        for level in (1, 10)
    )
    assert 60 < one["output_throughput"] < ten["output_throughput"] < 600
    assert node.ask("/simulated/truth?concurrency=0&max_tokens=64")[0] == 400
    assert node.ask("/simulated/truth")[0] == 400


def test_a_client_that_goes_away_frees_its_slot(node):
    sampling = {"max_new_tokens": 100_000, "ignore_eos": True}
    with socket.create_connection(("127.0.0.1", node.port)) as client:
        body = json.dumps({"text": "long", "stream": True, "sampling_params": sampling}).encode()
        client.sendall(b"POST /generate HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        assert client.recv(100).startswith(b"HTTP/1.1 200 OK")
        assert node.ask("/flush_cache")[0] == 400
    until(lambda: node.ask("/flush_cache")[0] == 200)


def test_abort_request_ends_a_stream_with_its_reason(node):
    events = []
    reader = threading.Thread(target=lambda: events.extend(node.generate("long", 100_000, True, rid="victim")))
    reader.start()
    until(lambda: node.ask("/flush_cache")[0] == 400)
    assert node.ask("/abort_request", {"rid": "victim"})[0] == 200
    reader.join(timeout=20)
    assert events[-1]["meta_info"]["finish_reason"]["type"] == "abort"


def test_the_delivered_throughput_is_that_of_the_model(launch):
    node = launch("--stream-interval", "8", speed=10)
    node.generate("warm", tokens=16)
    started = time.monotonic()
    for number in range(2):
        node.generate(f"a prompt of its own, {number}", tokens=256, stream=True)
    seen = 512 / ((time.monotonic() - started) * 10)
    truth = json.loads(node.ask("/simulated/truth?concurrency=1&max_tokens=256&prompt_tokens=6")[1])
    ratio = seen / truth["output_throughput"]
    assert 0.7 < ratio < 1.01  # a busy machine makes it slower, nothing makes it faster


@pytest.mark.parametrize(
    ("flags", "environment", "status", "evidence"),
    [
        (["--cuda-graph-max-bs-decode", "8"], {}, 2, "unrecognized arguments"),
        (["--attention-backend", "flash"], {}, 2, "invalid choice: 'flash'"),
        (
            [*TREE, "--speculative-eagle-topk", "4", "--speculative-num-draft-tokens", "8"],
            {"SGLANG_ENABLE_SPEC_V2": "1"},
            1,
            "ValueError: Spec v2 currently only supports topk = 1",
        ),
        (
            [*TREE, "--speculative-eagle-topk", "2", "--speculative-num-draft-tokens", "32"],
            {},
            -signal.SIGKILL,
            "selected index k out of range",
        ),
        (["--attention-backend", "fa3"], {}, -signal.SIGKILL, "FlashAttention v3 Backend requires SM>=80 and SM<=90"),
        (["--mem-fraction-static", "0.5"], {}, -signal.SIGKILL, "Please try to increase --mem-fraction-static"),
        (["--mem-fraction-static", "0.999"], {}, -signal.SIGKILL, "Capture cuda graph failed: CUDA out of memory"),
    ],
)
def test_what_sglang_refuses_is_refused_with_its_status_and_words(launch, flags, environment, status, evidence):
    node = launch(*flags, ready=False, environment={**TUNED, **environment}, startup_s=0.5)
    assert node.exit_status() == status
    assert evidence in node.log
    if status == -signal.SIGKILL:
        assert "Received sigquit from a child process. It usually means the child failed." in node.log
    assert session_of(node.process.pid) == []


def test_an_unknown_key_of_the_nodes_nature_is_refused(launch):
    node = launch(ready=False, sped=3)
    assert node.exit_status() == 2
    assert "'sped'" in node.log


def test_a_taken_port_is_noticed_only_after_the_load(launch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        node = launch(ready=False, port=taken.getsockname()[1])
        assert node.exit_status() == 1
    assert node.log.index("Load weight end") < node.log.index("[Errno 98]")
    assert "address already in use" in node.log


def test_sigterm_lets_running_requests_finish_and_exits_with_0(launch):
    node = launch()
    events = []
    reader = threading.Thread(target=lambda: events.extend(node.generate("long", 3000, True)))
    reader.start()
    until(lambda: node.ask("/flush_cache")[0] == 400)
    node.process.terminate()
    node.wait_for("Gracefully exiting... Remaining number of requests 1")
    assert node.ask("/health")[0] == 503
    assert node.exit_status() == 0
    reader.join(timeout=20)
    assert events[-1]["meta_info"]["completion_tokens"] == 3000
    assert session_of(node.process.pid) == []


def test_a_killed_node_takes_its_scheduler_along(launch):
    node = launch()
    (scheduler,) = session_of(node.process.pid)
    assert scheduler.name() == "simulated::sche"
    node.process.kill()
    node.exit_status()
    until(lambda: session_of(node.process.pid) == [])


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
