from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from autotune.launch import Server, gpu_count, node_facts
from autotune.launch.devices import gpu_holders, gpu_memory_used

GIB = 2**30

HOLDS_ONE_GIB = """
import ctypes, signal
cuda = ctypes.CDLL('libcuda.so.1')
device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
for status in (
    cuda.cuInit(0),
    cuda.cuDeviceGet(ctypes.byref(device), 0),
    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device),
    cuda.cuCtxSetCurrent(context),
    cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(1 << 30)),
):
    if status:
        raise SystemExit(f'CUDA error {status}')
print('holding', flush=True)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    signal.pause()
"""


@pytest.mark.gpu
def test_gpu_memory_of_a_killed_server_is_seen_free(
    serve: Callable[..., Server], eventually: Callable[..., None]
) -> None:
    before = gpu_memory_used(os.environ)
    assert before is not None
    server = serve(HOLDS_ONE_GIB)
    eventually(lambda: "holding" in server.log() or server.exit_status() is not None, timeout_s=60)
    assert server.exit_status() is None, server.log()
    during = gpu_memory_used(os.environ)
    assert during is not None
    assert during - before >= GIB
    report = server.stop(grace_s=0.2)
    assert report.killed
    assert report.gpu_bytes_kept is not None
    assert report.gpu_bytes_kept < GIB / 2
    assert server.pid not in gpu_holders()


@pytest.mark.gpu
def test_gpus_are_counted_and_named() -> None:
    facts = node_facts()
    assert int(facts["gpu_count"]) == gpu_count() > 0
    assert {"gpu_names", "gpu_memory_gib", "driver", "cuda_driver", "gpu_links"} <= facts.keys()
