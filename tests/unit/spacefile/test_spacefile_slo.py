"""The section `slo`."""

import pytest

from autotune import spacefile
from autotune.domain.slo import Slo
from autotune.errors import SpaceFileError

SMALL = """\
study: small
engine: {name: sglang, model: /models/m}
workload: {concurrency: {1: 1, 64: 1}}
budget: {trials: 3}
"""


def read(text, *overrides):
    return spacefile.load_text(SMALL + text, "s.yaml", overrides)


def test_without_the_section_there_are_no_bounds():
    assert read("").slo == Slo()


def test_bounds_stand_for_all_levels_for_single_ones_or_both():
    spec = read("slo: {ttft_p95_ms: 500, 64: {ttft_p95_ms: 2000, per_request_rate: 12.5}}")
    assert spec.slo == Slo({"ttft_p95_ms": 500.0}, {64: {"ttft_p95_ms": 2000.0, "per_request_rate": 12.5}})


def test_what_was_read_is_written_out_and_loads_again():
    spec = read("slo: {e2e_p99_s: 20, 1: {tpot_p50_ms: 9.5}}")
    again = spacefile.load_text(spacefile.dump(spec.source), "study.yaml")
    assert again.slo == spec.slo


def test_an_override_sets_one_bound():
    spec = read("slo: {ttft_p95_ms: 500}", "slo.ttft_p95_ms=800", "slo.64.tpot_p95_ms=30")
    assert spec.slo == Slo({"ttft_p95_ms": 800.0}, {64: {"tpot_p95_ms": 30.0}})


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("slo: {ttft_p90_ms: 5}", "s.yaml:5:7: unknown key `ttft_p90_ms` in slo\n    hint: did you mean"),
        ("slo: {ttft_p95_ms: 0}", "s.yaml:5:20: slo.ttft_p95_ms must be a number above 0, but got `0`"),
        ("slo: {8: {ttft_p95_ms: 5}}", "s.yaml:5:7: a level of slo must be one of workload.concurrency, but got `8`"),
        ("slo: {64: 5}", "s.yaml:5:11: slo.64 must be a mapping"),
        ("slo: 500", "s.yaml:5:6: slo must be a mapping"),
        ("slo: {good_share: 95, ttft_ms: 5}", "s.yaml:5:19: slo.good_share must be a share above 0 and of at most 1"),
        ("slo: {good_share: 0.9}", "slo.good_share must be told which requests are good, at level 1 too"),
        (
            "slo: {64: {ttft_ms: 5}}\nobjective: {metric: weighted_goodput}",
            "weighted_goodput must be told which requests are good, at level 1 too",
        ),
    ],
)
def test_a_fault_is_told_with_its_place(text, fault):
    with pytest.raises(SpaceFileError) as error:
        read(text)
    assert fault in str(error.value)


def test_goodput_with_bounds_at_every_level_is_taken():
    spec = read("slo: {ttft_ms: 500, tpot_ms: 30}\nobjective: {metric: weighted_goodput}")
    assert spec.objective.metric == "weighted_goodput"
    assert spec.slo.of_a_request(64) == {"ttft_ms": 500.0, "tpot_ms": 30.0}
