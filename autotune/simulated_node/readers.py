"""What is done with a request's tokens: streamed, collected for one answer, or only waited for."""

from __future__ import annotations

from collections.abc import Callable

from autotune.simulated_node.http_protocol import Call
from autotune.simulated_node.plan import ServingPlan
from autotune.simulated_node.scheduler import Request
from autotune.simulated_node.wire import DONE, chunk_head, chunk_of, error_body, event, final_answer

BROKEN = "the request failed after its stream had begun (fault error_rate)"


class GenerateReader:
    """`salt`: 0 for greedy text. `broken`: the request fails once it has tokens, the HTTP status being 200 by then.

    `on_end` is called once, when nothing more will be written; `stop` takes the request out of the step loop.
    """

    def __init__(
        self,
        call: Call,
        plan: ServingPlan,
        *,
        streaming: bool,
        salt: int,
        broken: bool,
        stop: Callable[[Request], None],
        on_end: Callable[[Request], None],
    ) -> None:
        self._call = call
        self._plan = plan
        self._streaming = streaming
        self._salt = salt
        self._broken = broken
        self._stop = stop
        self._on_end = on_end
        self._head = b""
        self._ended = False

    def open(self, request: Request) -> None:
        """Call once, before the request is handed to the step loop."""
        connection = self._call.connection
        connection.on_lost = lambda: self._lost(request)
        if self._streaming:
            connection.begin_stream()

    def progress(self, request: Request) -> None:
        request.emitted = request.tokens
        if self._broken:
            self._fail(request)
            self._stop(request)
        elif self._streaming and not self._ended:
            if not self._head:
                self._head = chunk_head(request)
            self._call.connection.send(chunk_of(self._head, request.tokens))

    def finished(self, request: Request) -> None:
        if self._ended:
            return
        if self._broken:
            self._fail(request)
            return
        answer = final_answer(request, self._plan, self._salt)
        connection = self._call.connection
        if self._streaming:
            connection.send(event(answer) + DONE)
            connection.end_stream()
        else:
            connection.answer(200, answer)
        self._end(request, 200)

    def _fail(self, request: Request) -> None:
        if self._ended:
            return
        if self._streaming:
            self._call.connection.send(event(error_body(BROKEN)) + DONE)
            self._call.connection.end_stream()
        else:
            self._call.connection.answer(500, error_body(BROKEN))
        self._end(request, 200 if self._streaming else 500)

    def _end(self, request: Request, status: int) -> None:
        self._ended = True
        self._call.connection.log_access(self._call, status)
        self._on_end(request)

    def _lost(self, request: Request) -> None:
        if not self._ended:
            self._ended = True
            self._on_end(request)
            self._stop(request)


class Probe:
    """A request of the server's own: warm-up and /health_generate."""

    def __init__(self, then: Callable[[], None]) -> None:
        self._then = then

    def progress(self, request: Request) -> None:
        request.emitted = request.tokens

    def finished(self, request: Request) -> None:
        self._then()
