from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from made_up_nvml import LIBRARY_NOT_FOUND, NOT_SUPPORTED, MadeUpGpu, MadeUpNvml

from autotune.errors import NodeBusy
from autotune.launch.gpu_watch import BUSY_PATIENCE_S, GpuWatch, Waiting
from autotune.launch.nvml import GpuChoice

PARENT = os.getppid()


class Scene:
    """A watch over made-up GPUs, whose waiting takes no time; `then` is done when it has waited `after_s`."""

    def __init__(self, *gpus: MadeUpGpu, then: Callable[[], None] | None = None, after_s: float = 3.0) -> None:
        self.now = 0.0
        self.notes: list[str] = []
        self.phases: list[str] = []
        self._then, self._after_s = then, after_s
        self.driver = MadeUpNvml(*gpus)
        self.watch = GpuWatch(
            GpuChoice(), self.notes.append, binding=self.driver, waiting=Waiting(lambda: self.now, self._pause)
        )

    def _pause(self, seconds: float) -> None:
        self.now += seconds
        if self._then is not None and self.now >= self._after_s:
            self._then()


def test_idle_gpus_are_taken_at_once_without_a_word() -> None:
    scene = Scene(MadeUpGpu(), MadeUpGpu())
    scene.watch.await_free(scene.phases.append)
    assert (scene.now, scene.notes, scene.phases) == (0.0, [], [])
    assert scene.driver.uses == 0


def test_memory_of_an_ended_process_is_waited_for() -> None:
    gpu = MadeUpGpu(used_gib=90.0)
    scene = Scene(gpu, then=lambda: setattr(gpu, "used_gib", 0.0))
    scene.watch.await_free(scene.phases.append)
    assert scene.now == pytest.approx(3.0)
    assert scene.notes == []
    assert set(scene.phases) == {"waiting for the GPUs"}


def test_a_process_that_does_not_go_is_named_after_a_minute() -> None:
    scene = Scene(MadeUpGpu(), MadeUpGpu(used_gib=40.0, compute={PARENT: 39.5}))
    with pytest.raises(NodeBusy) as caught:
        scene.watch.await_free()
    assert scene.now == pytest.approx(BUSY_PATIENCE_S)
    assert f"GPU 1: pid {PARENT}" in caught.value.message
    assert "39.5 GiB" in caught.value.message
    assert caught.value.hint
    assert scene.driver.uses == 0


def test_a_little_memory_that_stays_is_noted_with_figures() -> None:
    scene = Scene(MadeUpGpu(used_gib=5.0))
    scene.watch.await_free()
    assert scene.notes == [
        "before the launch, GPU 0 had 5.0 of 140 GiB in use, and no process that could be named",
    ]


@pytest.mark.parametrize(
    ("prepare", "why"),
    [
        (lambda scene: setattr(scene.driver, "init_error", LIBRARY_NOT_FOUND), "error 12"),
        (lambda scene: scene.driver.gpus.clear(), "opens none"),
        (lambda scene: scene.driver.gpus[0].refuses.update(all=15), "opens none"),
        (
            lambda scene: scene.driver.gpus[0].refuses.update(
                nvmlDeviceGetMemoryInfo=NOT_SUPPORTED,
                nvmlDeviceGetMemoryInfo_v2=NOT_SUPPORTED,
                nvmlDeviceGetComputeRunningProcesses=NOT_SUPPORTED,
            ),
            "neither processes nor memory",
        ),
    ],
    ids=["no driver", "no GPU", "lost GPU", "nothing told"],
)
def test_what_cannot_be_seen_is_one_remark_and_never_a_failure(prepare: Callable[[Scene], None], why: str) -> None:
    scene = Scene(MadeUpGpu())
    prepare(scene)
    scene.watch.await_free()
    scene.watch.serving(lambda: [1])
    assert scene.watch.sampler() is None
    scene.watch.confirm_gone()
    (note,) = scene.notes
    assert why in note


def test_where_no_process_is_listed_the_gpus_are_read_and_strangers_are_not_looked_for() -> None:
    scene = Scene(MadeUpGpu())
    scene.watch.await_free()
    scene.driver.gpus[0].used_gib = 120.0
    scene.watch.serving(lambda: [41])
    assert scene.watch.sampler() is not None
    (note,) = scene.notes
    assert "lists no processes here" in note


def test_a_trial_that_leaves_nothing_is_gone_at_once() -> None:
    scene = Scene(gpu := MadeUpGpu())
    scene.watch.await_free()
    gpu.compute = {41: 120.0}
    scene.watch.serving(lambda: [40, 41])
    gpu.compute = {}
    scene.watch.confirm_gone()
    assert (scene.now, scene.notes) == (0.0, [])


def test_what_a_trial_leaves_is_noted_with_figures_after_a_few_seconds() -> None:
    scene = Scene(gpu := MadeUpGpu())
    scene.watch.await_free()
    gpu.compute, gpu.used_gib = {41: 120.0}, 3.004
    scene.watch.serving(lambda: [40, 41])
    scene.watch.confirm_gone()
    assert scene.now == pytest.approx(5.0)
    assert scene.notes == [
        "after the stop, GPU 0 had 3.0 GiB more in use than before the launch; "
        "the driver still listed pid 41 of the trial's"
    ]
