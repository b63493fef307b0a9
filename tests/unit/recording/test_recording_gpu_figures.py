from __future__ import annotations

import json
from pathlib import Path

import pytest
from builders import measurement, spec, study_result, trial

from autotune.domain.measurement import DeviceWindow
from autotune.errors import RunFolderError
from autotune.recording import RunFolder
from autotune.recording.codec import decode_trial, encode_trial
from autotune.recording.run_content import trial_content

TOLD = DeviceWindow(0, "NVIDIA H200", 50, 400.0, 1890.0, 1800.0, 3201.0, 60.0, 0.97, 131.0, {"sync boost": 0.5})
SILENT = DeviceWindow(1, "NVIDIA H200", 50)


def metrics(folder: Path, *devices: DeviceWindow) -> dict[tuple[str, int], float]:
    seen = trial(0, measurements=(measurement(10, devices=devices),))
    content = trial_content(seen, study_result(seen), RunFolder.create(folder, spec(), "", simulated=False))
    return {(name, step): value for name, value, step in content.metrics if name.startswith("gpu_")}


def test_the_gpus_of_a_window_are_read_back_as_they_were_written() -> None:
    seen = trial(0, measurements=(measurement(1), measurement(10, devices=(TOLD, SILENT))))
    assert decode_trial(json.loads(json.dumps(encode_trial(seen)))) == seen


def test_a_share_that_is_no_number_is_refused_with_its_place() -> None:
    data = json.loads(json.dumps(encode_trial(trial(0, measurements=(measurement(10, devices=(TOLD,)),)))))
    data["measurements"][0]["devices"][0]["throttled"]["sync boost"] = "half"
    with pytest.raises(RunFolderError, match="throttled"):
        decode_trial(data)


def test_mlflow_gets_the_power_of_all_and_the_clock_of_the_slowest(tmp_path: Path) -> None:
    other = DeviceWindow(1, "NVIDIA H200", 50, power_w=300.0, sm_clock_mhz=1500.0)
    assert metrics(tmp_path, TOLD, other) == {("gpu_power_w", 10): 700.0, ("gpu_sm_clock_mhz", 10): 1500.0}


def test_a_power_that_one_gpu_does_not_tell_is_no_power_of_all(tmp_path: Path) -> None:
    assert metrics(tmp_path, TOLD, SILENT) == {("gpu_sm_clock_mhz", 10): 1890.0}


def test_levels_that_were_not_watched_have_no_figures_of_gpus(tmp_path: Path) -> None:
    assert metrics(tmp_path) == {}
