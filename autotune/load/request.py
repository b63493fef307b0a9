"""One request while it is in flight, and the record that is made of it."""

from __future__ import annotations

from collections.abc import Callable

from autotune.domain.engine import StreamEvent
from autotune.domain.measurement import RequestRecord
from autotune.domain.workload import Prompt

TEXT_KEPT = 2000
"""Characters of an answer that a record keeps: enough to compare greedy texts, too little to fill a disk."""


class LiveRequest:
    """Stamps are `time.perf_counter()`; `record` is where they become ticks of the level."""

    def __init__(self, prompt: Prompt, tokens: int, *, warmup: bool) -> None:
        self.prompt = prompt
        self.tokens = tokens
        self.warmup = warmup
        self.sent = 0.0
        self.last_progress = 0.0
        self.finished = False  # the server said that the answer is complete
        self._times: list[float] = []
        self._counts: list[int] = []
        self._prompt_tokens: int | None = None
        self._verify_count: int | None = None
        self._finish_reason: str | None = None
        self._text = ""
        self._uncounted: float | None = None  # when text first came without a count
        self._total: int | None = None
        self._ended: float | None = None

    @property
    def completion_tokens(self) -> int | None:
        return self._counts[-1] if self._counts else self._total

    def mark_sent(self, stamp: float) -> None:
        self.sent = self.last_progress = stamp

    def apply(self, event: StreamEvent, stamp: float) -> bool:
        """Returns whether the event brought new tokens or text. Only events with a higher count are chunks of the
        record: one without a count, or one that repeats it (a closing event), does not say how many tokens came.

        A first count that comes after text without any is the total of the answer, not of a chunk: then there are no
        chunks, and the stamps of the first text and of the end are kept instead.
        """
        if event.prompt_tokens is not None:
            self._prompt_tokens = event.prompt_tokens
        if event.verify_count is not None:
            self._verify_count = event.verify_count
        if event.text is not None:
            self._text = event.text
        if event.finish_reason is not None:
            self._finish_reason = event.finish_reason
        if self._ended is None and (event.done or event.finish_reason is not None):
            self._ended = stamp
        self.finished = self.finished or event.done or event.finish_reason is not None
        count = event.completion_tokens
        if event.delta and self._note_delta(event.delta, stamp, counted=count is not None or bool(self._counts)):
            return True
        if count is None or count <= (self._counts[-1] if self._counts else 0):
            return False
        if self._uncounted is not None:
            self._total = count
            return False
        self._times.append(stamp)
        self._counts.append(count)
        self.last_progress = stamp
        return True

    def _note_delta(self, delta: str, stamp: float, *, counted: bool) -> bool:
        """Returns whether it was text of a stream without counts."""
        if len(self._text) < TEXT_KEPT:
            self._text += delta
        if counted and self._uncounted is None:
            return False
        if self._uncounted is None:
            self._uncounted = stamp
        self.last_progress = stamp
        return not counted

    def record(
        self, ticks: Callable[[float], float], *, error: str | None = None, cancelled: bool = False
    ) -> RequestRecord:
        return RequestRecord(
            identity=self.prompt.identity,
            prompt=self.prompt.text,
            warmup=self.warmup,
            requested_tokens=self.tokens,
            sent_s=ticks(self.sent),
            chunk_times_s=tuple(ticks(stamp) for stamp in self._times),
            chunk_tokens=tuple(self._counts),
            prompt_tokens=self._prompt_tokens,
            completion_tokens=self.completion_tokens,
            verify_count=self._verify_count,
            finish_reason=self._finish_reason,
            text=self._text[:TEXT_KEPT],
            error=error,
            cancelled=cancelled,
            first_text_s=None if self._uncounted is None else ticks(self._uncounted),
            ended_s=None if self._uncounted is None or self._ended is None else ticks(self._ended),
        )
