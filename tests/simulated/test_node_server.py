"""The simulated node as a process: started, asked, killed, on loopback."""

import json
import signal
import socket
import threading
import time

import pytest
from node_process import READY, TREE, TUNED, Node, session_of, until


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
