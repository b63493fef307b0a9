"""HTTP/1.1 on a raw asyncio protocol: one request at a time on a connection, kept alive, streams chunked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, cast
from urllib.parse import parse_qsl

import httptools

from autotune.simulated_node.logs import raw

STATUS = {
    200: b"HTTP/1.1 200 OK",
    400: b"HTTP/1.1 400 Bad Request",
    401: b"HTTP/1.1 401 Unauthorized",
    404: b"HTTP/1.1 404 Not Found",
    405: b"HTTP/1.1 405 Method Not Allowed",
    500: b"HTTP/1.1 500 Internal Server Error",
    503: b"HTTP/1.1 503 Service Unavailable",
}


class Call:
    """One request as read. `query` keeps the last value of each name."""

    __slots__ = ("authorization", "body", "connection", "method", "path", "query")

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.method = ""
        self.path = ""
        self.query: dict[str, str] = {}
        self.authorization = ""
        self.body = b""


class Connection(asyncio.Protocol):
    """`handle` is called with each complete request; the answer is written with the methods below."""

    def __init__(self, handle: Callable[[Call], None]) -> None:
        self._handle = handle
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._call = Call(self)
        self._waiting: list[Call] = []
        self._busy = False
        self._keep_alive = True
        self._peer = ""
        self.on_lost: Callable[[], None] | None = None

    # what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transports do not inherit from it
        peer = transport.get_extra_info("peername")
        self._peer = f"{peer[0]}:{peer[1]}" if peer else "-"

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.answer(400, {"error": "not HTTP/1.1"})
            if self._transport is not None:
                self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        lost, self.on_lost = self.on_lost, None
        if lost is not None:
            lost()

    # what httptools calls

    def on_url(self, url: bytes) -> None:
        parsed = httptools.parse_url(url)
        self._call.path = (parsed.path or b"/").decode("latin-1")
        self._call.query = dict(parse_qsl((parsed.query or b"").decode("latin-1")))

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"authorization":
            self._call.authorization = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._call.body += body

    def on_message_complete(self) -> None:
        call, self._call = self._call, Call(self)
        call.method = self._parser.get_method().decode("latin-1")
        self._keep_alive = self._parser.should_keep_alive()
        self._waiting.append(call)
        self._next()

    # what the server calls

    def answer(self, status: int, body: Any, content_type: str = "application/json") -> None:
        payload = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        head = b"%s\r\ncontent-type: %s\r\ncontent-length: %d\r\n\r\n"
        self._write(head % (STATUS[status], content_type.encode(), len(payload)) + payload)
        self._done()

    def begin_stream(self) -> None:
        self._write(
            STATUS[200] + b"\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
        )

    def send(self, data: bytes) -> None:
        self._write(b"%x\r\n%s\r\n" % (len(data), data))

    def end_stream(self) -> None:
        self._write(b"0\r\n\r\n")
        self._done()

    def log_access(self, call: Call, status: int) -> None:
        reason = STATUS[status][9:].decode()
        raw(f'INFO:     {self._peer} - "{call.method} {call.path} HTTP/1.1" {reason}')

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _next(self) -> None:
        if self._waiting and not self._busy:
            self._busy = True
            self._handle(self._waiting.pop(0))

    def _done(self) -> None:
        self._busy = False
        self.on_lost = None
        if not self._keep_alive:
            self.close()
        elif self._waiting:
            asyncio.get_running_loop().call_soon(self._next)

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)
