"""The watch over a real GPU. `pytest -m gpu tests/launch`; needs the driver and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autotune.errors import NodeBusy
from autotune.launch import GpuChoice, GpuWatch, Sampler, Server
from autotune.launch.devices import gpu_facts
from autotune.launch.gpu_watch import Waiting
from autotune.launch.nvml import opened
from autotune.launch.occupancy import listed_pids, occupancy

pytestmark = pytest.mark.gpu

FIRST = GpuChoice(os.environ.get("CUDA_VISIBLE_DEVICES"), (0,))
BUSY_GPU = """
import ctypes, sys
cuda = ctypes.CDLL('libcuda.so.1')
device, context, first, second = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
size = ctypes.c_size_t(1 << 30)
for status in (
    cuda.cuInit(0),
    cuda.cuDeviceGet(ctypes.byref(device), 0),
    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device),
    cuda.cuCtxSetCurrent(context),
    cuda.cuMemAlloc_v2(ctypes.byref(first), size),
    cuda.cuMemAlloc_v2(ctypes.byref(second), size),
):
    if status:
        raise SystemExit(f'CUDA error {status}')
print('holding', flush=True)
while True:
    for _ in range(64):
        cuda.cuMemcpyDtoD_v2(second, first, size)
    if cuda.cuCtxSynchronize():
        raise SystemExit('CUDA error')
"""


def hurried() -> Waiting:
    """A minute of the watch in two seconds."""
    began = time.monotonic()
    return Waiting(lambda: (time.monotonic() - began) * 30, lambda seconds: time.sleep(seconds / 30))


@pytest.fixture
def show(capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Shows what was seen on this node, beside whether it was as it should be."""

    def write(text: str) -> None:
        with capsys.disabled():
            sys.stdout.write(f"\n{text}\n")

    return write


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Starts a program that keeps 2 GiB of the GPU and copies without end; it is no child of any server."""
    started: list[subprocess.Popen[bytes]] = []

    def begin() -> subprocess.Popen[bytes]:
        log = tmp_path / "stranger.log"
        with log.open("wb") as out:
            process = subprocess.Popen([sys.executable, "-S", "-c", BUSY_GPU], stdout=out, stderr=out)
        started.append(process)
        deadline = time.monotonic() + 60
        while b"holding" not in log.read_bytes():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        return process

    yield begin
    for process in started:
        process.kill()
        process.wait()


def names_processes() -> bool:
    with opened() as nvml:
        return bool(listed_pids(nvml, FIRST.devices(nvml)))


def test_an_idle_gpu_is_free_and_is_told_so(show: Callable[[str], None]) -> None:
    notes: list[str] = []
    GpuWatch(FIRST, notes.append).await_free()
    with opened() as nvml:
        seen = occupancy(nvml, FIRST.devices(nvml))
    show(f"idle: {seen}, notes {notes}, {gpu_facts()}")
    assert seen.free
    assert notes == []


def test_a_gpu_in_use_is_not_taken(
    stranger: Callable[[], subprocess.Popen[bytes]], show: Callable[[str], None]
) -> None:
    process = stranger()
    notes: list[str] = []
    watch = GpuWatch(FIRST, notes.append, waiting=hurried())
    if names_processes():
        with pytest.raises(NodeBusy, match=r"GPU \d+: pid \d+") as caught:
            watch.await_free()
        show(f"{caught.value.message} (started as pid {process.pid})")
    else:  # 2 GiB that nobody can be named for, of a large GPU
        watch.await_free()
        assert any("no process that could be named" in note for note in notes)


def test_a_window_under_load_has_every_figure_and_costs_little(
    serve: Callable[..., Server], eventually: Callable[..., None], show: Callable[[str], None]
) -> None:
    server = serve(BUSY_GPU)
    eventually(lambda: "holding" in server.log() or server.exit_status() is not None, timeout_s=60)
    assert server.exit_status() is None, server.log()
    cpu = time.process_time()
    start = time.monotonic()
    with Sampler(FIRST) as watching:
        eventually(
            lambda: any(w.samples >= 10 for w in watching.windows(start, time.monotonic())),
            timeout_s=30,
        )
    end, cpu = time.monotonic(), time.process_time() - cpu
    (window,) = watching.windows(start, end)
    show(f"{window}\ncost of a round {watching.cost_s} s, CPU {cpu:.3f} s in {end - start:.1f} s")
    assert watching.problem == ""
    assert window.power_w is not None
    assert 20 < window.power_w < 2000
    assert window.sm_clock_mhz is not None
    assert window.sm_clock_min_mhz is not None
    assert 100 < window.sm_clock_min_mhz <= window.sm_clock_mhz < 4000
    assert window.temperature_c is not None
    assert 10 < window.temperature_c < 110
    assert window.memory_used_gib is not None
    assert window.memory_used_gib >= 2.0
    assert all(0 < share <= 1 for share in window.throttled.values())
    assert watching.cost_s is not None
    assert watching.cost_s < 0.1


def test_a_trial_is_told_from_a_stranger_and_seen_to_be_gone(
    serve: Callable[..., Server],
    stranger: Callable[[], subprocess.Popen[bytes]],
    eventually: Callable[..., None],
    show: Callable[[str], None],
) -> None:
    notes: list[str] = []
    watch = GpuWatch(FIRST, notes.append)
    watch.await_free()
    server = serve(BUSY_GPU)
    eventually(lambda: "holding" in server.log() or server.exit_status() is not None, timeout_s=60)
    assert server.exit_status() is None, server.log()
    watch.serving(lambda: [pid for pid, _name in server.descendants()])
    sampler = watch.sampler()
    assert sampler is not None
    if notes:
        pytest.skip(notes[0])
    with sampler:
        start = time.monotonic()
        eventually(lambda: sampler.windows(start, time.monotonic()))
        alone = sampler.strangers(start, time.monotonic())
        other = stranger()
        eventually(lambda: sampler.strangers(start, time.monotonic()), timeout_s=10)
        found = sampler.strangers(start, time.monotonic())
        other.kill()
        other.wait()
    show(f"strangers: {[str(process) for process in found]} (started as pid {other.pid})")
    assert alone == ()
    assert len(found) == 1
    server.stop(grace_s=1.0)
    watch.confirm_gone()
    assert notes == []
