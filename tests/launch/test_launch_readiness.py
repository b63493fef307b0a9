from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from autotune.errors import ServerDied, ServerStuck, WrongServer
from autotune.launch import Control, Readiness, Server, await_ready, free_port

Serve = Callable[..., Server]

# Arguments: port, served name, seconds of silence before it listens. Says 503 to the first health check.
HONEST = """
import http.server, sys, time
port, name, delay = int(sys.argv[1]), sys.argv[2], float(sys.argv[3])
class Handler(http.server.BaseHTTPRequestHandler):
    asked = 0
    def do_GET(self):
        Handler.asked += self.path == '/health'
        self.send_response(503 if self.path == '/health' and Handler.asked == 1 else 200)
        self.end_headers()
        self.wfile.write(name.encode())
time.sleep(delay)
server = http.server.HTTPServer(('127.0.0.1', port), Handler)
print('The server is fired up')
server.serve_forever()
"""


def readiness(name: str = "trial-1") -> Readiness:
    return Readiness("fired up", "/health", "/names", name, lambda text: tuple(re.findall(r"\S+", text)))


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def control(port: int) -> Iterator[Control]:
    with Control("127.0.0.1", port) as control:
        yield control


def test_a_server_is_ready_when_log_health_and_name_agree(serve: Serve, control: Control, port: int) -> None:
    phases: list[str] = []
    server = serve(HONEST, str(port), "trial-1", "0.2")
    seconds = await_ready(server, control, readiness(), silence_s=10, start_s=20, on_phase=phases.append)
    assert phases == ["loading", "answering", "ready"]
    assert 0.2 <= seconds < 15
    assert '"GET /health HTTP/1.1" 503' in server.log()


def test_a_log_that_speaks_of_a_taken_port_does_not_end_a_start(serve: Serve, control: Control, port: int) -> None:
    told = "print('[Errno 98] address already in use: error while attempting to bind', flush=True)\n"
    server = serve(told + HONEST, str(port), "trial-1", "0.2")
    await_ready(server, control, readiness(), silence_s=10, start_s=20)
    assert "[Errno 98]" in server.log()


def test_seconds_are_the_nodes_own(serve: Serve, control: Control, port: int) -> None:
    server = serve(HONEST, str(port), "trial-1", "0.2")
    seconds = await_ready(server, control, readiness(), silence_s=600, start_s=3600, clock_rate=100.0)
    assert seconds >= 20


def test_another_name_is_another_server(serve: Serve, control: Control, port: int) -> None:
    server = serve(HONEST, str(port), "somebody-else", "0")
    with pytest.raises(WrongServer, match="answers as somebody-else and not as trial-1"):
        await_ready(server, control, readiness(), silence_s=10, start_s=20)


def test_a_stranger_on_the_port_is_not_taken_for_the_server(serve: Serve, control: Control, port: int) -> None:
    class Stranger(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"stranger")

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", port), Stranger) as stranger:
        thread = threading.Thread(target=stranger.serve_forever, args=(0.05,))
        thread.start()
        try:
            server = serve("import time; print('fired up'); time.sleep(60)")
            with pytest.raises(WrongServer, match="stranger"):
                await_ready(server, control, readiness(), silence_s=10, start_s=20)
        finally:
            stranger.shutdown()
            thread.join()


def test_a_server_that_ends_while_starting_is_dead_at_once(serve: Serve, control: Control) -> None:
    server = serve("import sys; print('loading'); print('error: argument --x', file=sys.stderr); sys.exit(2)")
    with pytest.raises(ServerDied, match="exit status 2; its last line: error: argument --x") as raised:
        await_ready(server, control, readiness(), silence_s=10, start_s=20)
    assert raised.value.exit_status == 2


def test_a_server_that_is_killed_while_starting_names_the_signal(serve: Serve, control: Control) -> None:
    server = serve("import os; print('loading'); os.kill(os.getpid(), 9)")
    with pytest.raises(ServerDied, match="killed by SIGKILL") as raised:
        await_ready(server, control, readiness(), silence_s=10, start_s=20)
    assert raised.value.exit_status == -9


def test_silence_is_stuck(serve: Serve, control: Control) -> None:
    server = serve("import time; print('loading'); time.sleep(60)")
    with pytest.raises(ServerStuck, match="for 1 s; its last line: loading"):
        await_ready(server, control, readiness(), silence_s=1, start_s=20)


@pytest.mark.parametrize(
    "sign",
    [
        "print('shard', n)",
        "sum(range(8_000_000))",
        "open(os.path.join(os.environ['TMPDIR'], str(n)), 'w').close()",
        "subprocess.run(['sleep', '0.9'])",
    ],
    ids=["log lines", "CPU time", "files", "processes"],
)
def test_any_sign_of_life_keeps_a_start_waiting(serve: Serve, control: Control, port: int, sign: str) -> None:
    busy = f"""
import os, subprocess, time
ends = time.monotonic() + 5
n = 0
while time.monotonic() < ends:
    n += 1
    {sign}
    time.sleep(0.1)
"""
    server = serve(busy + HONEST, str(port), "trial-1", "0")
    seconds = await_ready(server, control, readiness(), silence_s=3.5, start_s=30)
    assert seconds >= 5


def test_a_busy_start_is_bounded_all_the_same(serve: Serve, control: Control) -> None:
    server = serve("import time\nwhile True: print('shard'); time.sleep(0.05)")
    with pytest.raises(ServerStuck, match="not ready 1 s after its start"):
        await_ready(server, control, readiness(), silence_s=10, start_s=1)


def test_a_server_that_says_ready_and_does_not_answer_is_stuck_however_busy(serve: Serve, control: Control) -> None:
    server = serve("import time\nprint('fired up')\nwhile True: print('busy'); time.sleep(0.05)")
    with pytest.raises(ServerStuck, match="never answered 200"):
        await_ready(server, control, readiness(), silence_s=1, start_s=20)
