"""A streaming server over loopback that knows what it sent and when: the truth that the client is held against.

Its stamps are `time.perf_counter()`, which all processes of one machine share on Linux. It can misbehave on purpose:
`fault(n)` names what the n-th request (from 0) meets, or None.

    status 503 | error_event | drop (half-way) | garbage | no_end | silent | no_keep_alive | split (odd packet borders)
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, ClassVar

from autotune.domain.engine import StreamEvent

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"


def faultless(_ordinal: int) -> str | None:
    return None


@dataclass
class Behaviour:
    tokens_per_chunk: int = 1
    chunk_delay_s: float = 0.002
    fault: Callable[[int], str | None] = faultless


@dataclass
class Sent:
    """`chunks`: (stamp just before the write, tokens reported so far)."""

    prompt: str
    tokens: int
    received: float
    chunks: list[tuple[float, int]] = field(default_factory=list)
    cut_off: bool = False


class ReferenceWire:
    path = "/generate"
    headers: ClassVar[dict[str, str]] = {}

    def body(self, prompt: str, max_tokens: int, *, temperature: float, ignore_eos: bool, rid: str) -> bytes:
        return json.dumps({"prompt": prompt, "tokens": max_tokens, "rid": rid}).encode()

    def event(self, data: bytes) -> StreamEvent:
        if data == b"[DONE]":
            return StreamEvent(done=True)
        return StreamEvent(**json.loads(data))


class ReferenceServer:
    """Coroutines of one loop; `start` returns the port."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.served: list[Sent] = []
        self.open_connections = 0
        self._server: asyncio.Server | None = None
        self._talks: dict[asyncio.StreamWriter, asyncio.Task[None]] = {}

    async def start(self) -> int:
        self._server = await asyncio.start_server(self._begin, "127.0.0.1", 0, backlog=1024)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Returns when every socket is closed.

        asyncio loses a connection that it has accepted but not yet handed to a server when that server closes: the
        transport's set-up fails in Server._attach, and nobody closes its socket. So first nothing more is accepted,
        then what has been accepted gets its turn, and then the server closes.
        """
        if self._server is None:
            return
        for listening in self._server.sockets:
            asyncio.get_running_loop().remove_reader(listening.fileno())
        await asyncio.sleep(0)
        self._server.close()
        await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task(), *self._talks.values()}))  # the accepting
        for writer, talk in self._talks.items():
            talk.cancel()  # before its first step too: then its own `finally` never runs
            writer.transport.abort()
        await asyncio.gather(*self._talks.values(), return_exceptions=True)
        await asyncio.gather(*(writer.wait_closed() for writer in self._talks), return_exceptions=True)

    def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._talks[writer] = asyncio.get_running_loop().create_task(self._talk(reader, writer))

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open_connections += 1
        try:
            while (await self._answer(reader, writer)) is not False:
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.open_connections -= 1
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool | None:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        asked = json.loads(await reader.readexactly(int(head.split(b"content-length:")[1].split()[0])))
        sent = Sent(asked["prompt"], asked["tokens"], perf_counter())
        self.served.append(sent)
        fault = self.behaviour.fault(len(self.served) - 1)
        if fault == "status 503":
            writer.write(b"HTTP/1.1 503 Busy\r\nContent-Length: 10\r\n\r\nqueue full")
            return None
        writer.write(HEAD + (b"Connection: close\r\n\r\n" if fault == "no_keep_alive" else b"\r\n"))
        if fault == "silent":
            await reader.read()
            return False
        try:
            return await self._stream(sent, fault, writer)
        except ConnectionError:
            sent.cut_off = True
            raise

    async def _stream(self, sent: Sent, fault: str | None, writer: asyncio.StreamWriter) -> bool | None:
        count, step = 0, self.behaviour.tokens_per_chunk
        due = perf_counter()
        while count < sent.tokens:
            count = min(sent.tokens, count + step)
            await self._event(sent, count, writer, split=fault == "split")
            if fault in ("drop", "error_event", "garbage") and count >= sent.tokens / 2:
                if fault == "error_event":
                    write(writer, chunked({"error": "scheduler is gone"}))
                elif fault == "garbage":
                    write(writer, chunked_bytes(b"data: {not json\n\n"))
                await writer.drain()
                return False if fault == "drop" else None
            if count == sent.tokens:
                break
            due += self.behaviour.chunk_delay_s
            await asyncio.sleep(max(0.0, due - perf_counter()))
        if fault != "no_end":
            write(writer, chunked_bytes(b"data: [DONE]\n\n"))
        write(writer, b"0\r\n\r\n")
        await writer.drain()
        return False if fault == "no_keep_alive" else None

    async def _event(self, sent: Sent, count: int, writer: asyncio.StreamWriter, *, split: bool) -> None:
        event = {"completion_tokens": count, "prompt_tokens": 7, "verify_count": count // 2, "text": "word " * count}
        message = chunked(event)
        sent.chunks.append((perf_counter(), count))
        if split:
            write(writer, message[: len(message) // 2])
            await asyncio.sleep(0.001)
            message = message[len(message) // 2 :]
        write(writer, message)
        await writer.drain()


def chunked(event: dict[str, Any]) -> bytes:
    return chunked_bytes(b"data: " + json.dumps(event).encode() + b"\n\n")


def chunked_bytes(payload: bytes) -> bytes:
    return f"{len(payload):x}\r\n".encode() + payload + b"\r\n"


def write(writer: asyncio.StreamWriter, data: bytes) -> None:
    if writer.transport.is_closing():
        raise ConnectionResetError
    writer.write(data)


class ServerThread:
    """The reference server on a loop and thread of its own, for `with`."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.server = ReferenceServer(behaviour)
        self._loop = asyncio.SelectorEventLoop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.port = 0

    def __enter__(self) -> ServerThread:
        self._thread.start()
        self.port = self._call(self.server.start())
        return self

    def __exit__(self, *_: object) -> None:
        self._call(self.server.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(timeout=10)
