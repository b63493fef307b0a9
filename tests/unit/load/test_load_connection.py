"""What a connection makes of bytes, with no socket under it: the test plays the transport and the loop's turns."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import ClassVar

import pytest

from autotune.domain.engine import StreamEvent
from autotune.domain.workload import Prompt
from autotune.load.connection import Connection, Inbox
from autotune.load.request import LiveRequest

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


class Wire:
    path = "/generate"
    headers: ClassVar[dict[str, str]] = {}

    def body(self, prompt: str, max_tokens: int, *, temperature: float, ignore_eos: bool, rid: str) -> bytes:
        raise NotImplementedError

    def event(self, data: bytes) -> StreamEvent:
        return StreamEvent(done=True) if data == b"[DONE]" else StreamEvent(**json.loads(data))


class Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.aborted = False

    def write(self, data: object) -> None:
        self.written += bytes(data)  # type: ignore[call-overload]

    def abort(self) -> None:
        self.aborted = True

    def is_closing(self) -> bool:
        return self.aborted


class Turns:
    """The part of a loop that an inbox needs."""

    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.due.append(callback)

    def run_one(self) -> None:
        self.due.pop(0)()


class Line:
    """A connection with one request on it; `say` is what the server sends."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.progress: list[float] = []
        self.ends: list[str | None] = []
        self.connection = Connection(
            Inbox(self.turns),  # type: ignore[arg-type]
            Wire(),
            on_progress=self.progress.append,
            on_end=lambda _stamp, error: self.ends.append(error),
        )
        self.transport = Transport()
        self.connection.connection_made(self.transport)
        self.request = self.send()

    def send(self) -> LiveRequest:
        request = LiveRequest(Prompt("id", "text"), 4, warmup=False)
        self.connection.send(request, b"POST")
        return request

    def say(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.connection.data_received(piece)
        self.read()

    def read(self) -> None:
        while self.turns.due:
            self.turns.run_one()


def chunk(payload: bytes) -> bytes:
    return f"{len(payload):x}\r\n".encode() + payload + b"\r\n"


FOUR_TOKENS = chunk(b'data: {"completion_tokens": 4}\n\n')
DONE = chunk(b"data: [DONE]\n\n")
LAST = b"0\r\n\r\n"


def test_an_answer_that_ends_properly_leaves_the_connection_usable() -> None:
    line = Line()
    line.say(HEAD + FOUR_TOKENS, DONE + LAST)
    assert line.ends == [None]
    assert line.request.completion_tokens == 4
    assert line.connection.usable
    second = line.send()
    line.say(HEAD + FOUR_TOKENS + DONE + LAST)
    assert line.ends == [None, None]
    assert second.completion_tokens == 4


@pytest.mark.parametrize(
    "payload",
    [
        b'data: {"completion_tokens": 4}\r\n\r\n',
        b'data:{"completion_tokens": 4}\n\n',
        b': ping\n\nevent: token\ndata: {"completion_tokens": 4}\n\n',
    ],
    ids=["carriage returns", "no blank after the colon", "comments and other fields"],
)
def test_other_spellings_of_server_sent_events_are_read(payload: bytes) -> None:
    line = Line()
    line.say(HEAD + chunk(payload) + DONE + LAST)
    assert line.ends == [None]
    assert line.request.completion_tokens == 4


def test_bytes_may_arrive_one_at_a_time() -> None:
    line = Line()
    line.say(*(bytes([byte]) for byte in HEAD + FOUR_TOKENS + DONE + LAST))
    assert line.ends == [None]
    assert len(line.progress) == 1


def test_receiving_only_stamps_and_reading_comes_in_turns() -> None:
    line = Line()
    line.connection.data_received(HEAD)
    for count in range(1, 100):
        line.connection.data_received(chunk(b'data: {"completion_tokens": %d}\n\n' % count))
    assert line.request.completion_tokens is None
    line.turns.run_one()
    assert 1 <= (line.request.completion_tokens or 0) < 99
    line.read()
    assert line.request.completion_tokens == 99


def test_a_finish_reason_without_a_proper_end_of_the_body_is_enough_when_the_server_hangs_up() -> None:
    line = Line()
    line.say(HEAD + chunk(b'data: {"completion_tokens": 4, "finish_reason": "length"}\n\n'))
    assert line.ends == []
    line.connection.connection_lost(None)
    line.read()
    assert line.ends == [None]
    assert not line.connection.usable


def test_a_connection_lost_between_requests_is_nobodys_error() -> None:
    line = Line()
    line.say(HEAD + FOUR_TOKENS + DONE + LAST)
    line.connection.connection_lost(ConnectionResetError("reset"))
    line.read()
    assert line.ends == [None]
    assert not line.connection.usable


def test_a_lost_connection_says_how_far_the_answer_was_and_why() -> None:
    line = Line()
    line.say(HEAD + chunk(b'data: {"completion_tokens": 3}\n\n'))
    line.connection.connection_lost(ConnectionResetError("reset by peer"))
    line.read()
    assert line.ends == ["connection lost after 3 of 4 tokens: reset by peer"]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"SSH-2.0-OpenSSH_9.7\r\n", "unreadable HTTP"),
        (b"HTTP/1.1 400 Bad\r\nContent-Length: 7\r\n\r\nbad rid", "HTTP 400 bad rid"),
        (b'HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{"text": "x"}', "after 0 of 4 tokens without a finish reason"),
        (HEAD + chunk(b"data: {\n\n"), "unreadable event"),
        (HEAD + FOUR_TOKENS + chunk(b'data: {"error": "out of pages"}\n\n'), "error in the stream: out of pages"),
        (HEAD + chunk(b"data: " + b"x" * (17 * 2**20)), "16 MiB without the end of an event"),
    ],
    ids=["no HTTP", "status", "not a stream", "broken JSON", "error event", "endless event"],
)
def test_a_faulty_answer_fails_the_request_and_closes_the_connection(answer: bytes, said: str) -> None:
    line = Line()
    line.say(answer)
    assert len(line.ends) == 1
    assert said in str(line.ends[0])
    assert not line.connection.usable
    line.say(LAST)
    assert len(line.ends) == 1
