"""One keep-alive connection to the server: an asyncio protocol that stamps what arrives before it looks at it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import perf_counter

from httptools import HttpParserError, HttpResponseParser

from autotune.domain.engine import Wire
from autotune.load.request import LiveRequest

_ITEMS_A_TURN = 16
_PENDING_LIMIT = 16 * 2**20
_ERROR_SHOWN = 300


class Inbox:
    """What arrived and has not been read yet, as (connection, stamp, data); data is None for the end of a connection.

    A decode step of the server makes all streams speak at once. If each were parsed where it is received, the last
    of 256 would be stamped milliseconds late. So receiving only stamps, and reading follows in turns of a few
    items, between which the loop goes back to the sockets. Reading is not put off to the end of a request: the
    texts are cumulative, so the raw bytes of 256 answers would grow to gigabytes, and the end would not be seen.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._items: deque[tuple[Connection, float, bytes | None]] = deque()
        self._reading = False

    def put(self, connection: Connection, stamp: float, data: bytes | None) -> None:
        self._items.append((connection, stamp, data))
        if not self._reading:
            self._reading = True
            self._loop.call_soon(self._read)

    def _read(self) -> None:
        for _ in range(min(_ITEMS_A_TURN, len(self._items))):
            connection, stamp, data = self._items.popleft()
            connection.read(stamp, data)
        if self._items:
            self._loop.call_soon(self._read)
        else:
            self._reading = False


class Connection(asyncio.Protocol):
    """Carries one request at a time. `on_progress(stamp)`: new tokens came; `on_end(stamp, error)`: the request is
    over, and the connection can carry the next one if it is `usable`."""

    def __init__(
        self,
        inbox: Inbox,
        wire: Wire,
        *,
        on_progress: Callable[[float], None],
        on_end: Callable[[float, str | None], None],
    ) -> None:
        self.closed = asyncio.Event()
        self._inbox = inbox
        self._wire = wire
        self._on_progress = on_progress
        self._on_end = on_end
        self._transport: asyncio.Transport | None = None
        self._lost_because: Exception | None = None
        self._request: LiveRequest | None = None
        self._reply = _Reply()

    @property
    def usable(self) -> bool:
        return self._transport is not None and not self._transport.is_closing() and not self.closed.is_set()

    def send(self, request: LiveRequest, message: bytes, *, since: float | None = None) -> None:
        """`since`: the moment that counts as its sending; now, where it is left out."""
        if self._transport is None:
            raise RuntimeError("a request was sent before its connection was made")
        self._request, self._reply = request, _Reply()
        request.mark_sent(perf_counter() if since is None else since)
        self._transport.write(message)

    def abort(self) -> None:
        """Closes at once. The server sees its client gone and stops generating."""
        self._request = None
        if self._transport is not None:
            self._transport.abort()

    async def wait_closed(self) -> None:
        if self._transport is not None:
            await self.closed.wait()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        stamp = perf_counter()
        self._inbox.put(self, stamp, data)

    def connection_lost(self, exc: Exception | None) -> None:
        stamp = perf_counter()
        self._lost_because = exc
        self.closed.set()
        self._inbox.put(self, stamp, None)

    def read(self, stamp: float, data: bytes | None) -> None:
        """Called by the inbox, in the order of arrival."""
        request = self._request
        if request is None:
            return
        if data is None:
            self._end(stamp, self._reply.verdict(request) or self._lost(request))
            return
        try:
            self._reply.feed(data)
        except HttpParserError as error:
            self._end(stamp, f"unreadable HTTP: {error}")
            return
        failed = self._apply_events(request, stamp)
        if failed is None and self._reply.pending > _PENDING_LIMIT:
            failed = "the server sent 16 MiB without the end of an event"
        if failed is not None:
            self._end(stamp, failed)
        elif self._reply.complete:
            self._end(stamp, self._reply.verdict(request) or self._unfinished(request))

    def _apply_events(self, request: LiveRequest, stamp: float) -> str | None:
        if self._reply.status != 200:
            return None
        progress = False
        for data in self._reply.events():
            try:
                event = self._wire.event(data)
            except ValueError as error:
                return f"unreadable event: {error}: {_shown(data)}"
            progress = request.apply(event, stamp) or progress
            if event.error is not None:
                return f"the server reported an error in the stream: {event.error[:_ERROR_SHOWN]}"
        if progress:
            self._on_progress(stamp)
        return None

    def _lost(self, request: LiveRequest) -> str | None:
        if request.finished:
            return None
        because = f": {self._lost_because}" if self._lost_because else ""
        return f"connection lost {_tokens_so_far(request)}{because}"

    def _unfinished(self, request: LiveRequest) -> str | None:
        if request.finished:
            return None
        return f"the stream ended {_tokens_so_far(request)} without a finish reason or [DONE]"

    def _end(self, stamp: float, error: str | None) -> None:
        self._request = None
        if (error is not None or not self._reply.keeps_alive) and self._transport is not None:
            self._transport.abort()
        self._on_end(stamp, error)


class _Reply:
    """The HTTP answer to one request, and the lines of its body. Callbacks of the parser only collect: an exception
    raised inside them would come out as the parser's own."""

    def __init__(self) -> None:
        self.status: int | None = None
        self.complete = False
        self.keeps_alive = True
        self._parser = HttpResponseParser(self)
        self._body = b""

    @property
    def pending(self) -> int:
        return len(self._body)

    def feed(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()

    def on_body(self, data: bytes) -> None:
        self._body += data

    def on_message_complete(self) -> None:
        self.complete = True
        self.keeps_alive = self._parser.should_keep_alive()

    def events(self) -> list[bytes]:
        """The `data:` lines that are complete by now. Servers of this kind write one line an event."""
        lines = self._body.split(b"\n")
        self._body = b"" if self.complete else lines.pop()
        return [payload for line in lines if line.startswith(b"data:") and (payload := line[5:].strip())]

    def verdict(self, request: LiveRequest) -> str | None:
        """What the HTTP layer has to say against an answer that is over."""
        if self.status is None or self.status == 200:
            return None
        return f"HTTP {self.status} {_shown(self._body)}".rstrip()


def _shown(data: bytes) -> str:
    return data[:_ERROR_SHOWN].decode(errors="replace").strip()


def _tokens_so_far(request: LiveRequest) -> str:
    return f"after {request.completion_tokens or 0} of {request.tokens} tokens"
