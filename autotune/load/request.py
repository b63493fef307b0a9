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

    @property
    def completion_tokens(self) -> int | None:
        return self._counts[-1] if self._counts else None

    def mark_sent(self, stamp: float) -> None:
        self.sent = self.last_progress = stamp

    def apply(self, event: StreamEvent, stamp: float) -> bool:
        """Returns whether the event brought new tokens. Only such events are chunks of the record: an event without
        a count, or one that repeats the count (a closing event), says nothing about when a token came."""
        if event.prompt_tokens is not None:
            self._prompt_tokens = event.prompt_tokens
        if event.verify_count is not None:
            self._verify_count = event.verify_count
        if event.text is not None:
            self._text = event.text
        if event.finish_reason is not None:
            self._finish_reason = event.finish_reason
        self.finished = self.finished or event.done or event.finish_reason is not None
        count = event.completion_tokens
        if count is None or count <= (self._counts[-1] if self._counts else 0):
            return False
        self._times.append(stamp)
        self._counts.append(count)
        self.last_progress = stamp
        return True

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
        )
