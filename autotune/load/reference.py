"""python -m autotune.load.reference: a server that streams at a known pace, and knows afterwards what it sent when.

The load client is held against it: what it delivers, how late, at which cost. It speaks `/generate`,
`/v1/completions` and `/v1/chat/completions` of the dialect that real servers speak. Like a real server it steps: at
every step each stream that is past its first token gets one chunk, all at once, which is hard on a client.

    GET  /reference/truth   what was sent since the last reset, as JSON (Truth in reference_truth.py); resets
    POST /reference/pace   {"interval_s": 0.01, "ttft_s": 0.02, "tokens_per_chunk": 1}

Stamps are time.perf_counter(), which on Linux all processes of a machine share.
"""

from __future__ import annotations

import asyncio
import json
import sys
from array import array
from collections.abc import Callable
from time import perf_counter, process_time
from typing import Any

import httptools
import uvloop

READY_LINE = "reference server on port "
_MODEL = b'{"object":"list","data":[{"id":"reference","object":"model","max_model_len":1000000}]}'
_INFO = b'{"version":"reference","max_running_requests":100000,"internal_states":[]}'
_CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_DONE = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"
_WORD = "word "


class Pace:
    """Times in seconds."""

    def __init__(self) -> None:
        self.interval_s = 0.01
        self.ttft_s = 0.02
        self.tokens_per_chunk = 1


class Stream:
    """One answer. `events(tokens, finished)` gives the payload of a chunk."""

    def __init__(self, talk: Talk, limit: int, head: bytes, tail: bytes, last_tail: bytes) -> None:
        self.talk = talk
        self.limit = limit
        self.sent = 0
        self._head, self._tail, self._last_tail = head, tail, last_tail

    def advance(self, tokens: int) -> bool:
        """Writes one chunk; returns whether it was the last."""
        self.sent = min(self.limit, self.sent + tokens)
        last = self.sent == self.limit
        payload = b"data: %s%d%s\n\n" % (self._head, self.sent, self._last_tail if last else self._tail)
        message = b"%x\r\n%s\r\n" % (len(payload), payload)
        self.talk.write(message + _DONE if last else message)
        return last


class Reference:
    """The streams, the steps, and the truth."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.pace = Pace()
        self._streams: set[Stream] = set()
        self._stepping = False
        self._due = 0.0
        self.reset()

    def reset(self) -> None:
        self._steps, self._tokens, self._chunks = array("d"), array("q"), array("q")
        self._received, self._answered = array("d"), array("d")
        self._cpu_started, self._started = process_time(), perf_counter()

    def truth(self) -> dict[str, Any]:
        spent = (process_time() - self._cpu_started) / max(1e-9, perf_counter() - self._started)
        found = {
            "steps": list(self._steps),
            "tokens": list(self._tokens),
            "chunks": list(self._chunks),
            "received": list(self._received),
            "answered": list(self._answered),
            "cpu_share": spent,
        }
        self.reset()
        return found

    def begin(self, stream: Stream) -> None:
        received = perf_counter()
        self._loop.call_later(self.pace.ttft_s, self._first, stream, received)

    def end(self, talk: Talk) -> None:
        self._streams = {stream for stream in self._streams if stream.talk is not talk}

    def _first(self, stream: Stream, received: float) -> None:
        if stream.talk.gone:
            return
        self._received.append(received)
        self._answered.append(perf_counter())
        self._note(1, 1)
        if not stream.advance(1):
            self._streams.add(stream)
        if not self._stepping and self._streams:
            self._stepping = True
            self._due = perf_counter() + self.pace.interval_s
            self._loop.call_at(self._loop.time() + self.pace.interval_s, self._step)

    def _step(self) -> None:
        tokens = chunks = 0
        self._due += self.pace.interval_s
        for stream in tuple(self._streams):
            before = stream.sent
            if stream.advance(self.pace.tokens_per_chunk):
                self._streams.discard(stream)
            tokens += stream.sent - before
            chunks += 1
        self._note(tokens, chunks)
        self._stepping = bool(self._streams)
        if self._stepping:
            self._loop.call_later(max(0.0, self._due - perf_counter()), self._step)

    def _note(self, tokens: int, chunks: int) -> None:
        self._steps.append(perf_counter())
        self._tokens.append(tokens)
        self._chunks.append(chunks)


class Talk(asyncio.Protocol):
    """One connection, kept alive; one request at a time."""

    def __init__(self, reference: Reference) -> None:
        self._reference = reference
        self._parser = httptools.HttpRequestParser(self)
        self._transport: Any = None
        self._url, self._body = b"", b""
        self.gone = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone = True
        self._reference.end(self)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._transport.close()

    def on_message_begin(self) -> None:
        self._url, self._body = b"", b""

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        path = self._url.split(b"?")[0]
        if path in _ANSWERS:
            self._stream(_ANSWERS[path])
        elif path == b"/v1/models":
            self._answer(_MODEL)
        elif path in (b"/server_info", b"/get_server_info"):
            self._answer(_INFO)
        elif path == b"/reference/truth":
            self._answer(json.dumps(self._reference.truth()).encode())
        elif path == b"/reference/pace":
            vars(self._reference.pace).update(json.loads(self._body))
            self._answer(b"{}")
        else:
            self._answer(b"{}", b"200 OK" if path.startswith((b"/health", b"/flush")) else b"404 Not Found")

    def _stream(self, parts: Callable[[int], tuple[bytes, bytes, bytes]]) -> None:
        try:
            asked = json.loads(self._body)
            sampling = asked.get("sampling_params", asked)
            limit = int(sampling.get("max_new_tokens", sampling.get("max_tokens", 16)))
        except (ValueError, AttributeError, TypeError):
            self._answer(b'{"error":"not a request"}', b"400 Bad Request")
            return
        self.write(_CHUNKED)
        self._reference.begin(Stream(self, max(1, limit), *parts(limit)))

    def _answer(self, body: bytes, status: bytes = b"200 OK") -> None:
        head = b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        self.write(head % (status, len(body)) + body)

    def write(self, data: bytes) -> None:
        if not self.gone:
            self._transport.write(data)


def _generate(limit: int) -> tuple[bytes, bytes, bytes]:
    meta = f'"prompt_tokens":100,"finish_reason":{{"type":"length","length":{limit}}}}}}}'.encode()
    head = b'{"text":"' + 10 * _WORD.encode() + b'","meta_info":{"id":"0","completion_tokens":'
    return head, b',"prompt_tokens":100,"finish_reason":null}}', b"," + meta


def _openai(kind: bytes, said: bytes, nothing: bytes) -> Callable[[int], tuple[bytes, bytes, bytes]]:
    head = b'{"id":"0","object":"%s","model":"reference","usage":{"prompt_tokens":100,"completion_tokens":' % kind
    tail = b'},"choices":[{"index":0,%s,"finish_reason":%s}]}'
    return lambda _limit: (head, tail % (said, b"null"), tail % (nothing, b'"length"'))


_TEXT = b'"text":"word "'
_DELTA = b'"delta":{"content":"word "}'
_ANSWERS = {
    b"/generate": _generate,
    b"/v1/completions": _openai(b"text_completion", _TEXT, _TEXT),
    b"/v1/chat/completions": _openai(b"chat.completion.chunk", _DELTA, _DELTA),
}


async def _serve(port: int) -> None:
    loop = asyncio.get_running_loop()
    reference = Reference(loop)
    server = await loop.create_server(lambda: Talk(reference), "127.0.0.1", port, backlog=4096)
    sys.stdout.write(f"{READY_LINE}{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await loop.create_future()


def main() -> None:
    """`python -m autotune.load.reference [PORT]`; 0, the default, takes a free one."""
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(port))


if __name__ == "__main__":
    main()
