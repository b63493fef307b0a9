from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from autotune.errors import ServingEnvironmentError
from autotune.launch import Control, free_port
from autotune.launch.ports import answers


class Echo(BaseHTTPRequestHandler):
    """Answers with what it was asked."""

    def do_GET(self) -> None:
        self._answer(f"{self.command} {self.path} {self.headers.get('Authorization')}")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self._answer(f"{self.command} {self.path} {self.headers.get('Content-Type')} {body}")

    def _answer(self, text: str) -> None:
        self.send_response(404 if self.path == "/missing" else 200)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def echo() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def test_a_reply_has_status_and_text(echo: int) -> None:
    with Control("127.0.0.1", echo) as control:
        assert control.get("/health").text == "GET /health None"
        assert control.get("/missing").status == 404
        assert control.post("/abort", b'{"all":1}').text == 'POST /abort application/json {"all":1}'
        assert control.post("/flush").status == 200


def test_the_key_is_sent_along(echo: int) -> None:
    with Control("127.0.0.1", echo, api_key="k1") as control:
        assert control.get("/").text == "GET / Bearer k1"


def test_a_proxy_of_the_shell_is_not_asked(echo: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with Control("127.0.0.1", echo) as control:
        assert control.get("/health").status == 200


def test_nothing_that_answers_is_no_status(echo: int) -> None:
    with Control("127.0.0.1", free_port()) as control:
        reply = control.get("/health")
    assert reply.status is None
    assert "ConnectError" in reply.text


def test_a_server_that_accepts_and_is_silent_is_no_status() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, Control("127.0.0.1", silent.getsockname()[1]) as control:
        reply = control.get("/health", timeout_s=0.1)
    assert reply.status is None
    assert "Timeout" in reply.text


def test_something_that_is_not_http_is_no_status() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:

        def speak() -> None:
            connection, _ = other.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"220 mail server\r\n")

        thread = threading.Thread(target=speak)
        thread.start()
        with Control("127.0.0.1", other.getsockname()[1]) as control:
            assert control.get("/health").status is None
        thread.join()


def test_ports_are_fresh_and_free() -> None:
    ports = [free_port() for _ in range(20)]
    assert len(set(ports)) == 20
    assert not any(answers("127.0.0.1", port) for port in ports)


def test_a_port_that_another_server_has_answers(echo: int) -> None:
    assert answers("127.0.0.1", echo)
    assert free_port() != echo


def test_a_port_is_not_given_twice_though_the_kernel_offers_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    used, fresh = free_port(), free_port()
    offers = iter([used, used, fresh])

    class Offering(socket.socket):
        def bind(self, address: tuple[str, int]) -> None:  # type: ignore[override]
            super().bind((address[0], next(offers)))

    monkeypatch.setattr("autotune.launch.ports.socket.socket", Offering)
    monkeypatch.setattr("autotune.launch.ports._handed_out", {used})
    assert free_port() == fresh


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(ServingEnvironmentError, match=r"no port can be bound on 192\.0\.2\.1"):
        free_port("192.0.2.1")
