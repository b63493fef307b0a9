"""`autotune bench` against a simulated node that somebody else started, and against what is not there."""

import http.server
import json
import socket
import threading
from contextlib import contextmanager

import pytest
from programs import autotune

FAST = {"speed": 20, "startup_s": 1.0}


def address(node):
    return f"http://127.0.0.1:{node.port}"


@contextmanager
def answering(status, headers=()):
    """A server that gives one answer to everything; yields its address and the paths that were asked."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self):
            asked.append(self.path)
            self.send_response(status)
            for name, value in headers:
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_POST = answer

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_running_server_is_measured_at_each_level_in_one_line_each(launch, tmp_path):
    node = launch(**FAST)
    done = autotune("bench", "--url", address(node), "--concurrency", "1,4", "--max-tokens", "32", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    first, second, stamp = done.stdout.splitlines()
    assert first.startswith("C=  1 | 10 requests | throughput: ")
    assert second.startswith("C=  4 | 20 requests | throughput: ")
    assert second.endswith("| ok: 20/20")
    assert stamp.startswith("SIMULATED")
    assert list(tmp_path.iterdir()) == [tmp_path / "0"]  # the node's own folder: bench leaves no file


def test_the_figures_are_the_nodes_own_truth_within_the_interval_or_two_percent(launch, tmp_path):
    node = launch(**FAST)
    done = autotune("bench", "--url", address(node), "--concurrency", "8", "--max-tokens", "96", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    (level,) = said["levels"]
    prompt_tokens = 150
    _, text = node.ask(f"/simulated/truth?concurrency=8&max_tokens=96&prompt_tokens={prompt_tokens}")
    truth = json.loads(text)["output_throughput"]
    assert level["output_throughput"]["value"] == pytest.approx(truth, rel=0.1)
    assert said["simulated"] is True
    assert said["server_version"] is not None
    assert (level["requests_ok"], level["requests_total"]) == (40, 40)


def test_a_rate_is_measured_in_an_open_loop(launch, tmp_path):
    node = launch(**FAST)
    done = autotune(
        *("bench", "--url", address(node), "--rate", "2", "--requests", "30", "--max-tokens", "32", "--json"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    (level,) = json.loads(done.stdout)["levels"]
    assert level["rate"] == 2.0
    assert (level["requests_ok"], level["requests_total"]) == (30, 30)
    assert level["output_throughput"]["value"] == pytest.approx(2 * 32, rel=0.6)  # 30 arrivals: ± 18 % is one sigma


def test_a_rate_that_the_server_does_not_sustain_ends_with_that_remark(launch, tmp_path):
    node = launch("--max-running-requests", "2", **FAST)
    done = autotune(
        *("bench", "--url", address(node), "--rate", "20", "--requests", "400", "--max-tokens", "256", "--json"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    (level,) = json.loads(done.stdout)["levels"]
    assert any(remark.startswith("the rate is above what the server sustains") for remark in level["remarks"])
    assert level["requests_ok"] < level["requests_total"]


def test_a_key_is_read_from_the_environment_and_never_shown(launch, tmp_path):
    node = launch("--api-key", "hush-hush-7", "--skip-server-warmup", **FAST)
    line = ("bench", "--url", address(node), "--concurrency", "1", "--max-tokens", "8")
    denied = autotune(*line, cwd=tmp_path)
    assert denied.returncode == 2
    assert "answers 401" in denied.stderr
    assert "--api-key-env" in denied.stderr
    wrong = autotune(*line, "--api-key-env", "MY_KEY", cwd=tmp_path, MY_KEY="sesame-9")
    assert wrong.returncode == 2
    let_in = autotune(*line, "--api-key-env", "MY_KEY", "--json", cwd=tmp_path, MY_KEY="hush-hush-7")
    assert let_in.returncode == 0, let_in.stderr
    assert "hush" not in let_in.stdout + let_in.stderr
    assert "sesame" not in wrong.stdout + wrong.stderr


def test_a_variable_that_is_not_set_is_told_before_anything_is_asked(tmp_path):
    done = autotune("bench", "--url", "http://127.0.0.1:9", "--api-key-env", "NOT_SET_HERE", cwd=tmp_path)
    assert done.returncode == 2
    assert "NOT_SET_HERE" in done.stderr


def test_a_server_that_dies_under_load_ends_with_status_1_and_its_reason(launch, tmp_path):
    node = launch(faults={"die_after_requests": 6}, **FAST)
    done = autotune("bench", "--url", address(node), "--concurrency", "4", "--max-tokens", "32", cwd=tmp_path)
    assert done.returncode == 1
    assert "requests failed" in done.stderr or "no request of" in done.stderr
    assert "Traceback" not in done.stderr


def test_nobody_at_the_address_is_told_with_status_2(tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    done = autotune("bench", "--url", f"http://127.0.0.1:{port}", cwd=tmp_path)
    assert done.returncode == 2
    assert f"nothing answers at http://127.0.0.1:{port}" in done.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--url", "https://127.0.0.1:9"], "speaks http only"),
        (["--url", "http://127.0.0.1"], "must be a host and a port"),
        (["--url", "http://127.0.0.1:9/v1"], "must be a host and a port"),
        (["--url", "http://me:pw@127.0.0.1:9"], "no user name or password"),
        (["--url", "http://127.0.0.1:port"], "not an address"),
        (["--url", "http://127.0.0.1:9", "--concurrency", "1,x"], "numbers with commas"),
        (["--url", "http://127.0.0.1:9", "--concurrency", "0"], "numbers above 0"),
        (["--url", "http://127.0.0.1:9", "--requests", "20"], "level 64 needs at least 320 requests"),
        (["--url", "http://127.0.0.1:9", "--rate", "nan"], "a rate must be above 0"),
        (["--url", "http://127.0.0.1:9", "--endpoint", "embed"], "an endpoint is one of"),
        (["--url", "http://127.0.0.1:9", "--prompts", "mine.txt"], "prompts are `coding`"),
        ([], "either --url URL or --self-test"),
    ],
)
def test_bad_input_is_told_with_status_2(options, said, tmp_path):
    done = autotune("bench", *options, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert "pw" not in done.stderr


def test_a_redirect_is_not_followed(tmp_path):
    with (
        answering(200) as (elsewhere, asked_elsewhere),
        answering(307, [("Location", f"{elsewhere}/stolen")]) as (url, asked),
    ):
        done = autotune("bench", "--url", url, "--concurrency", "1", "--max-tokens", "4", cwd=tmp_path)
    assert done.returncode == 1
    assert "HTTP 307" in done.stderr
    assert "/generate" in asked
    assert asked_elsewhere == []


@pytest.mark.parametrize("endpoint", ["generate", "chat", "completions"])
def test_the_client_can_be_tested_without_any_server(endpoint, tmp_path):
    done = autotune("bench", "--self-test", "--concurrency", "2", "--endpoint", endpoint, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    tested = json.loads(done.stdout)["self_test"]
    assert tested["levels"][0]["concurrency"] == 2
    assert tested["levels"][0]["delivered"] == pytest.approx(1.0, abs=0.05)
    assert 30 < tested["levels"][0]["true_rate"] < 120  # less than the 100 that are asked where the machine stops
