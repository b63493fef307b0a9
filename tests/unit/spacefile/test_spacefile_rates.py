"""`workload.rates`, and what it asks of the rest of the file."""

import pytest

from autotune import spacefile
from autotune.domain.level import Rate
from autotune.domain.slo import Slo
from autotune.errors import SpaceFileError

HEAD = "study: small\nengine: {name: sglang, model: /models/m}\nbudget: {trials: 3}\n"
GOOD = "objective: {metric: weighted_goodput}\nslo: {ttft_ms: 500}\n"


def read(text, *overrides, good=GOOD):
    return spacefile.load_text(HEAD + good + text, "s.yaml", overrides)


def test_rates_stand_alone_or_beside_levels():
    assert read("workload: {rates: {4: 1, 0.5: 2}}").workload.weights == {Rate(0.5): 2.0, Rate(4.0): 1.0}
    both = read("workload: {concurrency: {8: 3}, rates: {4: 1}}").workload
    assert both.weights == {8: 3.0, Rate(4.0): 1.0}


def test_what_was_read_is_written_out_and_loads_again():
    spec = read("workload: {rates: {0.25: 1, 4: 2}}", "slo.4 req/s.ttft_p95_ms=900")
    text = spacefile.dump(spec.source)
    assert "concurrency" not in text
    again = spacefile.load_text(text, "study.yaml")
    assert (again.workload, again.slo) == (spec.workload, spec.slo)


def test_a_study_without_rates_is_written_without_the_key():
    spec = read("workload: {concurrency: {1: 1}}", good="")
    assert "rates" not in spec.source["workload"]


def test_bounds_at_one_rate_take_the_place_of_the_general_ones():
    spec = spacefile.load_text(
        HEAD
        + "objective: {metric: weighted_goodput}\nworkload: {concurrency: {4: 1}, rates: {4: 1}}\n"
        + "slo: {ttft_ms: 500, 4 req/s: {ttft_ms: 900, good_share: 0.95}}",
        "s.yaml",
    )
    assert spec.slo == Slo({"ttft_ms": 500.0}, {Rate(4.0): {"ttft_ms": 900.0, "good_share": 0.95}})
    assert spec.slo.of_a_request(4) == {"ttft_ms": 500.0}
    assert spec.slo.of_a_request(Rate(4.0)) == {"ttft_ms": 900.0}


def test_a_precision_beside_rates_is_that_of_the_levels():
    assert read("workload: {concurrency: {8: 1}, rates: {4: 1}, precision: 2%}").workload.precision == 0.02


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("workload: {rates: {}}", "6:19: workload.rates must be a mapping of rates to weights"),
        ("workload: {rates: 4}", "6:19: workload.rates must be a mapping of rates to weights, but got `4`"),
        ("workload: {rates: {0: 1}}", "6:20: a rate must be a number above 0, but got `0`"),
        ("workload: {rates: {true: 1}}", "6:20: a rate must be a number above 0, but got `true`"),
        ("workload: {rates: {fast: 1}}", "6:20: a rate must be a number above 0, but got `fast`"),
        ("workload: {rates: {.inf: 1}}", "6:20: a rate must be a number above 0, but got `.inf`"),
        ("workload: {rates: {0.0004: 1}}", "6:20: a rate must be a multiple of 0.001 requests a second"),
        ("workload: {rates: {1.0005: 1}}", "6:20: a rate must be a multiple of 0.001 requests a second"),
        ("workload: {rates: {4: 1, 4.0: 2}}", "6:26: the key `workload.rates.4.0` stands twice"),
        ("workload: {rates: {4: 0}}", "6:23: workload.rates.4 must be a number above 0, but got `0`"),
        ("workload: {rates: {4: 1}, precision: 2%}", "workload.precision is for levels of workload.concurrency"),
        ("workload: {rates: {4: 1}, level_seconds: 9}", "workload.level_seconds is for levels of workload.concurrency"),
        ("workload: {arrivals: {4: 1}, concurrency: {1: 1}}", "6:12: unknown key `arrivals` in workload"),
    ],
)
def test_a_fault_is_told_with_its_place(text, fault):
    with pytest.raises(SpaceFileError) as error:
        read(text)
    assert fault in str(error.value)


@pytest.mark.parametrize("metric", ["weighted_throughput", "weighted_speedup"])
def test_an_objective_of_throughput_is_refused_at_rates_with_the_one_that_ranks(metric):
    with pytest.raises(SpaceFileError) as error:
        read("workload: {concurrency: {1: 1}, rates: {4: 1}}", good=f"objective: {{metric: {metric}}}\n")
    (fault,) = error.value.faults
    assert "at a rate that is sustained the throughput is the rate" in str(fault)
    assert "weighted_goodput" in fault.hint


def test_goodput_at_a_rate_must_be_told_what_is_good():
    with pytest.raises(SpaceFileError, match="which requests are good, at 4 req/s too"):
        read("workload: {rates: {4: 1}}", good="objective: {metric: weighted_goodput}\n")


@pytest.mark.parametrize(("key", "source"), [("8 req/s", "workload.rates"), ("4", "workload.concurrency")])
def test_bounds_at_a_level_that_is_not_measured_are_a_fault(key, source):
    with pytest.raises(SpaceFileError, match=f"a level of slo must be one of {source}"):
        read(
            f"workload: {{rates: {{4: 1}}}}\nslo: {{ttft_ms: 500, {key}: {{ttft_ms: 9}}}}",
            good="objective: {metric: weighted_goodput}\n",
        )


def test_rates_that_no_number_here_tells_apart_are_a_fault():
    with pytest.raises(SpaceFileError, match="a rate may stand once, but got `9007199254740993`"):
        read("workload: {rates: {9007199254740992: 1, 9007199254740993: 1}}")


@pytest.mark.parametrize(
    ("overrides", "weights"),
    [
        (["workload.rates.4=2"], {Rate(4.0): 2.0}),
        (["workload.rates.4.00=2"], {Rate(4.0): 2.0}),
        (["workload.rates.0.5=2"], {Rate(4.0): 1.0, Rate(0.5): 2.0}),
        (["workload.rates..25=2", "workload.rates.0.25=3"], {Rate(4.0): 1.0, Rate(0.25): 3.0}),
        (["workload.rates={8: 1}"], {Rate(8.0): 1.0}),
    ],
)
def test_an_override_finds_a_rate_by_its_number(overrides, weights):
    assert read("workload: {rates: {4.0: 1}}", *overrides).workload.weights == weights


@pytest.mark.parametrize("key", ["-1", "0", "1e400", "0.5.1", "1_0", "fast"])
def test_an_override_of_a_rate_that_is_none_is_a_fault(key):
    with pytest.raises(SpaceFileError, match="a rate must be a number above 0"):
        read("workload: {rates: {4: 1}}", f"workload.rates.{key}=2")


@pytest.mark.parametrize("nothing", ["{}", "", "unset"])
def test_levels_may_be_taken_away_where_rates_are_given_and_the_other_way_round(nothing):
    text = "workload: {concurrency: {8: 1}, rates: {4: 1}}"
    assert read(text, f"workload.concurrency={nothing}").workload.weights == {Rate(4.0): 1.0}
    assert read(text, f"workload.rates={nothing}").workload.weights == {8: 1.0}
    with pytest.raises(SpaceFileError, match=r"workload\.rates must be a mapping"):
        read(text, f"workload.concurrency={nothing}", f"workload.rates={nothing}")


@pytest.mark.parametrize("key", ["0.5 req/s", "0.50 req/s"])
def test_an_override_sets_a_bound_at_a_rate_with_a_point(key):
    text = "workload: {rates: {0.5: 1}}"
    whole = read(text, f"slo.{key}={{ttft_ms: 900}}", f"slo.{key}.ttft_ms=800", "slo.0.5 req/s.e2e_s=9")
    assert whole.slo.levels == {Rate(0.5): {"ttft_ms": 800.0, "e2e_s": 9.0}}


def test_two_spellings_of_one_rate_in_slo_are_a_fault():
    with pytest.raises(SpaceFileError) as error:
        read(
            "workload: {rates: {4: 1}}\nslo: {ttft_ms: 500, 4 req/s: {good_share: 0.9}, 4.0 req/s: {ttft_ms: 9}}",
            good="objective: {metric: weighted_goodput}\n",
        )
    (fault,) = error.value.faults
    assert "s.yaml:6:49: 4 req/s stands twice in slo" in str(fault)
