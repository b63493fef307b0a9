from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from builders import level_run, measurement, plan, spec

from autotune.domain.confirmation import Replicate
from autotune.domain.measurement import DeviceWindow
from autotune.domain.study import Budget
from autotune.domain.trial import Origin, TrialRequest
from autotune.domain.workload import Prompt
from autotune.launch.telemetry import REASONS
from autotune.trial_runner.hygiene import (
    POWER_CAP,
    SLOWDOWNS,
    WatchedLevel,
    promised_prompts,
    settled,
    uneven_caps,
    unrepeated,
    verdict,
    why_no_repeat,
)


def gpu(index: int = 0, **shares: float) -> DeviceWindow:
    """A window of 50 readings; shares by reason, blanks as underscores."""
    throttled = {reason.replace("_", " "): share for reason, share in shares.items()}
    return DeviceWindow(index, "NVIDIA H200", 50, temperature_c=71.0 + index, throttled=throttled)


def level(throughput: float | None = 400.0, *disturbed: str, **more: Any) -> WatchedLevel:
    return WatchedLevel(level_run(), measurement(10, throughput, **more), disturbed)


class Prompts:
    """Only counts."""

    def __init__(self, capacity: int, position: int) -> None:
        self.capacity, self.position = capacity, position

    def take(self, count: int) -> list[Prompt]:
        raise NotImplementedError


def test_the_policy_speaks_the_words_that_readings_are_told_in() -> None:
    assert {*SLOWDOWNS, POWER_CAP} <= set(REASONS.values())


@pytest.mark.parametrize("reason", SLOWDOWNS)
def test_a_slowdown_disturbs_the_window_and_the_gpu_is_named(reason: str) -> None:
    (found,) = verdict([gpu(0), gpu(3, **{reason: 0.24})], ())
    assert found == f"{reason} on GPU 3 (24% of 50 readings, up to 74 °C)"


@pytest.mark.parametrize(
    "windows",
    [
        [],
        [gpu()],
        [gpu(software_power_cap=1.0)],  # how a GPU runs at full load
        [gpu(application_clocks_setting=1.0)],  # the owner's own wish
        [gpu(hardware_slowdown=0.05)],  # a blink as load sets in
    ],
)
def test_what_is_normal_disturbs_nothing(windows: list[DeviceWindow]) -> None:
    assert verdict(windows, ()) == ()


def test_a_stranger_disturbs_a_window_of_healthy_gpus() -> None:
    assert verdict([gpu()], ("GPU 0: pid 7 (python3 of bob), 1.0 GiB",)) == (
        "another's process on the trial's GPUs: GPU 0: pid 7 (python3 of bob), 1.0 GiB",
    )


@pytest.mark.parametrize(
    ("windows", "remarked"),
    [
        ([gpu(0, software_power_cap=0.9), gpu(1)], True),
        ([gpu(0, software_power_cap=0.9), gpu(1, software_power_cap=0.1)], True),
        ([gpu(0, software_power_cap=0.9), gpu(1, software_power_cap=0.8)], False),
        ([gpu(0, software_power_cap=0.5), gpu(1)], False),
        ([gpu(0, software_power_cap=1.0)], False),
        ([], False),
    ],
)
def test_a_power_cap_is_remarked_where_it_holds_some_gpus_and_not_others(
    windows: list[DeviceWindow], remarked: bool
) -> None:
    assert bool(uneven_caps(windows)) is remarked


def test_a_clean_second_window_replaces_the_first_and_says_so() -> None:
    stands = settled(level(380.0, "hardware slowdown on GPU 3"), level(402.5, remarks=("earlier",)))
    assert stands.measurement.output_throughput is not None
    assert stands.measurement.output_throughput.value == 402.5
    assert stands.disturbed == ()
    assert stands.measurement.remarks == (
        "earlier",
        "measured twice: the first window was disturbed and gave 380 tok/s (hardware slowdown on GPU 3)",
    )


def test_after_two_disturbed_windows_the_first_stands_marked_with_both() -> None:
    stands = settled(level(380.0, "a thermal thing"), level(None, "a stranger"))
    assert stands.measurement.output_throughput is not None
    assert stands.measurement.output_throughput.value == 380.0
    assert stands.measurement.remarks == (
        "disturbed: a thermal thing",
        "measured again, no throughput, and disturbed again: a stranger",
    )


def test_a_level_that_is_not_repeated_says_why() -> None:
    marked = unrepeated(level(380.0, "x"), "no time")
    assert marked.measurement.remarks == ("disturbed: x; not measured again: no time",)


def test_a_level_is_repeated_where_fresh_prompts_can_be_spared() -> None:
    asked = plan(1, 10)  # 12 and 70 prompts
    first, second = asked.levels
    spared = (first.prompts + second.prompts) * 2  # one other trial, then the rest of this one
    needed = {first: first.prompts + second.prompts, second: second.prompts}
    for each, own in needed.items():
        enough = Prompts(spared + 500 + own, 500)
        assert why_no_repeat(asked, each, enough, promised=spared, hopeless=False) == ""
        short = Prompts(spared + 500 + own - 1, 500)
        why = why_no_repeat(asked, each, short, promised=spared, hopeless=False)
        assert why == f"it takes {each.prompts} fresh prompts, and {each.prompts - 1} can be spared"


def test_a_launch_whose_repetition_did_not_help_is_not_repeated_again() -> None:
    asked = plan(1)
    plenty = Prompts(10**9, 0)
    assert "did not help" in why_no_repeat(asked, asked.levels[0], plenty, promised=0, hopeless=True)


def test_prompts_are_promised_to_the_trials_that_the_budget_still_has() -> None:
    study = spec(budget=Budget(trials=5))
    first, last, later = (TrialRequest(n, study.baseline, Origin.GREEDY) for n in (0, 4, 9))
    assert promised_prompts(study, first) == 4 * study.plan().prompts
    assert promised_prompts(study, last) == 0
    assert promised_prompts(study, later) == 0
    assert promised_prompts(replace(study, budget=Budget(hours=1)), first) == 0


def test_a_run_of_a_confirmation_leaves_what_every_later_run_of_it_may_need() -> None:
    study, plan = spec(), Replicate(7, 3, 4, (7, 9))
    request = TrialRequest(70, study.baseline, Origin.CONFIRMATION, plan)
    assert promised_prompts(study, request) == 2 * 3 * study.plan().prompts
