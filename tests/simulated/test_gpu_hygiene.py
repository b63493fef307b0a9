"""The trial runner over made-up GPUs: a real launch of the simulated node, whose GPUs a test disturbs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from builders import provenance
from made_up_nvml import LIBRARY_NOT_FOUND, MadeUpGpu, MadeUpNvml
from programs import small_space

from autotune import engines, spacefile
from autotune.domain.engine import Engine
from autotune.domain.measurement import Measurement
from autotune.domain.serving import Serving
from autotune.domain.trial import FailureReason, LaunchCommand, Origin, TrialRequest, TrialResult, TrialState
from autotune.launch import GpuChoice, GpuWatch, Sampler
from autotune.launch.gpu_watch import Waiting
from autotune.load import prompt_source
from autotune.recording import RunFolder
from autotune.trial_runner import TrialRunner, TrialSite

BASELINE_ONLY = """\
study: watched
engine:
  name: simulated
  model: imaginary/model
  args: {tp-size: 8, max-running-requests: 64, stream-interval: 4}
  node: {speed: 100, startup_s: 5}
baseline: {}
parameters: {}
workload: {prompts: coding, max_tokens: 64, min_requests: 10, concurrency: {1: 1, 4: 1}}
objective: {metric: weighted_throughput}
budget: {trials: 1}
"""
HOT, COOL = 0x40, 0x0


class Bench:
    """Evaluates the baseline with one made-up GPU; `passages` are its throttle reasons, passage by passage."""

    def __init__(self, folder: Path, passages: Sequence[int] = (), driver: MadeUpNvml | None = None) -> None:
        self.gpu = MadeUpGpu()
        self.driver = driver or MadeUpNvml(self.gpu)
        self.phases: list[str] = []
        self._passages = iter(passages)
        folder.mkdir(parents=True, exist_ok=True)
        self.spec = spacefile.load(small_space(folder, BASELINE_ONLY))
        self.folder = RunFolder.create(folder / "runs", self.spec, "", simulated=True)

    def evaluate(self) -> TrialResult:
        engine = engines.get("simulated")
        engine.gpus = lambda _command: (0,)  # type: ignore[method-assign]
        version = engine.parse_version('{"sglang": "0.5.9", "simulated": "yes", "python": "3.11"}')
        site = TrialSite(
            self.spec,
            Serving(engine, self.spec.engine, {"": version}),
            provenance(simulated=True),
            self.folder,
            prompt_source("coding", seed=1),
            sys.executable,
            on_phase=self.phases.append,
            gpu_watch=self._watch,
        )
        return TrialRunner(site).evaluate(TrialRequest(0, self.spec.baseline, Origin.BASELINE))

    def _watch(self, choice: GpuChoice, note: Callable[[str], None]) -> GpuWatch:
        now = [0.0]
        waiting = Waiting(lambda: now[0], lambda seconds: now.__setitem__(0, now[0] + seconds))
        bench = self

        class Watch(GpuWatch):
            def sampler(self) -> Sampler | None:
                bench.gpu.reasons = next(bench._passages, COOL)
                return super().sampler()

        return Watch(choice, note, binding=self.driver, waiting=waiting, period_s=0.002)


def evaluated(folder: Path, passages: Sequence[int] = ()) -> tuple[Bench, TrialResult]:
    """A passage in which the machine of the tests itself stood still is measured again, and uses up the next of
    `passages`: such an evaluation is made anew."""
    for number in range(4):
        bench = Bench(folder / str(number), passages)
        result = bench.evaluate()
        if not any("no stream had anything" in told for seen in result.measurements for told in seen.remarks):
            break
    return bench, result


def remarks(result: TrialResult, concurrency: int) -> tuple[str, ...]:
    seen = result.at(concurrency)
    assert seen is not None
    return seen.remarks


def test_a_clean_trial_has_its_gpus_in_every_level_and_no_remark(tmp_path: Path) -> None:
    _bench, result = evaluated(tmp_path)
    assert result.state is TrialState.COMPLETE, result.failure
    for seen in result.measurements:
        (window,) = seen.devices
        assert (window.index, window.power_w, window.throttled) == (0, 400.0, {})
        assert window.samples > 1
        assert not [remark for remark in seen.remarks if "disturbed" in remark]


def test_a_throttled_level_is_measured_once_more_with_fresh_prompts_and_replaced(tmp_path: Path) -> None:
    bench, result = evaluated(tmp_path, [COOL, HOT, COOL])
    assert bench.phases.count("C=4 again") == 1
    assert "C=1 again" not in bench.phases
    (told,) = [remark for remark in remarks(result, 4) if "measured twice" in remark]
    assert "hardware thermal slowdown on GPU 0 (100% of" in told
    assert [seen.devices[0].throttled for seen in result.measurements] == [{}, {}]
    assert len(result.measurements) == 2
    once, _result = evaluated(tmp_path / "other")
    assert bench.folder.prompts_used() > once.folder.prompts_used()


def test_a_level_that_stays_throttled_stands_marked_and_the_next_is_not_tried_again(tmp_path: Path) -> None:
    bench, result = evaluated(tmp_path, [HOT, HOT, HOT])
    assert result.state is TrialState.COMPLETE
    assert [phase for phase in bench.phases if "again" in phase] == ["C=1 again"]
    assert any(remark.startswith("disturbed: ") for remark in remarks(result, 1))
    assert any("disturbed again" in remark for remark in remarks(result, 1))
    assert any("not measured again: it did not help" in remark for remark in remarks(result, 4))
    assert all(seen.devices[0].throttled for seen in result.measurements)


def test_a_busy_node_fails_the_trial_by_circumstance_and_launches_nothing(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.gpu.compute = {os.getppid(): 40.0}
    result = bench.evaluate()
    assert result.state is TrialState.FAILED
    assert result.failure is not None
    assert result.failure.reason is FailureReason.NODE_BUSY
    assert f"pid {os.getppid()}" in result.failure.message
    assert result.attempts == 2
    assert "launching" not in bench.phases


def test_without_a_driver_the_trial_is_measured_and_says_once_that_nobody_watched(tmp_path: Path) -> None:
    result = Bench(tmp_path, driver=MadeUpNvml(MadeUpGpu(), init_error=LIBRARY_NOT_FOUND)).evaluate()
    assert result.state is TrialState.COMPLETE
    assert len([remark for remark in result.remarks if "not watched" in remark]) == 1
    assert all(seen.devices == () for seen in result.measurements)


def test_memory_that_stays_after_the_stop_is_a_remark_of_the_trial(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.driver.before_call = lambda _function: setattr(
        bench.gpu, "used_gib", 0.0 if bench.phases[-1:] in ([], ["waiting for the GPUs"]) else 3.0
    )
    result = bench.evaluate()
    assert [remark for remark in result.remarks if "3.0 GiB more in use than before the launch" in remark]


def test_a_simulated_study_has_no_eye_on_the_nodes_gpus() -> None:
    engine: Engine = engines.get("simulated")
    assert engine.gpus(LaunchCommand(("server", "--tp-size", "8"))) is None
    assert Measurement(1, 0, 0).devices == ()
