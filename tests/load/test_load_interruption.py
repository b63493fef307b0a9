"""Ctrl-C and SIGTERM in the middle of a level: prompt, and nothing stays behind."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import pytest
from reference_server import Behaviour, ReferenceWire, ServerThread

from autotune.domain.workload import LevelPlan, MeasurementPlan
from autotune.errors import Interrupted
from autotune.load import Clock, prompt_source, run_level


class AskedToStop(Exception):
    pass


def endless_level(port: int, concurrency: int = 8) -> None:
    level = LevelPlan(concurrency, 1000)
    plan = MeasurementPlan((level,), 1000)
    prompts = prompt_source("coding", seed=0)
    run_level("127.0.0.1", port, wire=ReferenceWire(), plan=plan, level=level, prompts=prompts, clock=Clock())


@contextmanager
def handler(number: int, action: object) -> Iterator[None]:
    before = signal.signal(number, action)  # type: ignore[arg-type]
    try:
        yield
        assert signal.getsignal(number) is action
    finally:
        signal.signal(number, before)


@contextmanager
def signal_once_streaming(thread: ServerThread, number: int, established: int = 8) -> Iterator[None]:
    """Sends the signal when so many connections stand, and checks that it took effect soon and closed every socket."""
    sent_at: list[float] = []

    def send() -> None:
        while thread.server.open_connections < established:
            time.sleep(0.001)
        sent_at.append(time.monotonic())
        os.kill(os.getpid(), number)

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    yield
    sender.join()
    assert time.monotonic() - sent_at[0] < 2
    deadline = time.monotonic() + 5
    while thread.server.open_connections:
        assert time.monotonic() < deadline, "connections were left open"
        time.sleep(0.01)


def test_ctrl_c_raises_keyboard_interrupt_after_all_connections_are_closed() -> None:
    with (
        ServerThread(Behaviour(chunk_delay_s=0.01)) as thread,
        handler(signal.SIGINT, signal.default_int_handler),
        signal_once_streaming(thread, signal.SIGINT),
        pytest.raises(KeyboardInterrupt),
    ):
        endless_level(thread.port)


def test_an_exception_of_the_programs_own_sigterm_handler_reaches_the_caller() -> None:
    def ask(_number: int, _frame: FrameType | None) -> None:
        raise AskedToStop

    with (
        ServerThread(Behaviour(chunk_delay_s=0.01)) as thread,
        handler(signal.SIGTERM, ask),
        signal_once_streaming(thread, signal.SIGTERM),
        pytest.raises(AskedToStop),
    ):
        endless_level(thread.port)


def test_a_handler_that_only_takes_a_note_still_ends_the_level() -> None:
    notes: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        notes.append(number)

    with (
        ServerThread(Behaviour(chunk_delay_s=0.01)) as thread,
        handler(signal.SIGTERM, note),
        signal_once_streaming(thread, signal.SIGTERM),
        pytest.raises(Interrupted, match="SIGTERM while a level was measured"),
    ):
        endless_level(thread.port)
    assert notes == [signal.SIGTERM]


@pytest.mark.parametrize("established", [1, 20, 60])
def test_a_signal_while_connections_are_still_being_made_ends_the_level_too(established: int) -> None:
    def ask(_number: int, _frame: FrameType | None) -> None:
        raise AskedToStop

    with (
        ServerThread(Behaviour(chunk_delay_s=0.01)) as thread,
        handler(signal.SIGTERM, ask),
        signal_once_streaming(thread, signal.SIGTERM, established),
        pytest.raises(AskedToStop),
    ):
        endless_level(thread.port, concurrency=100)
