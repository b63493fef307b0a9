import math

import pytest
from builders import measurement

from autotune.domain.measurement import Estimate, Measurement, Objective
from autotune.errors import InputError
from autotune.scoring import compare, score

THROUGHPUT = Objective("weighted_throughput")
SPEEDUP = Objective("weighted_speedup")
WEIGHTS = {1: 1.0, 10: 3.0}


def levels(low: float | None, high: float | None, half: float | None = 1.0) -> tuple[Measurement, ...]:
    return measurement(1, low, half), measurement(10, high, half)


def test_weighted_throughput_is_the_weighted_mean() -> None:
    scored = score(levels(100.0, 200.0), THROUGHPUT, WEIGHTS, None)
    assert scored is not None
    assert scored.metric == "weighted_throughput"
    assert scored.estimate.value == pytest.approx(175.0)
    assert scored.per_level == {1: 100.0, 10: 200.0}


def test_errors_of_levels_add_as_independent_ones_with_the_t_of_the_sum() -> None:
    scored = score(levels(100.0, 200.0, 2.262), THROUGHPUT, WEIGHTS, None)
    assert scored is not None
    error = math.hypot(0.25, 0.75)  # 2.262 is t for the 10 batches behind each level: standard errors of 1
    freedom = error**4 / (0.25**4 / 9 + 0.75**4 / 9)
    assert 9 < freedom < 18
    assert scored.estimate.half_width == pytest.approx(error * 2.20, rel=0.01)
    assert scored.estimate.batches == 20


def test_many_levels_of_few_batches_do_not_keep_the_wide_t_of_few() -> None:
    eight = [
        measurement(level, 100.0, output_throughput=Estimate(100.0, 100 - 2.776, 100 + 2.776, batches=5))
        for level in range(1, 9)
    ]
    scored = score(eight, THROUGHPUT, dict.fromkeys(range(1, 9), 1.0), None)
    assert scored is not None
    assert scored.estimate.half_width == pytest.approx(2.037 / math.sqrt(8), rel=0.001)  # t of 32


def test_levels_without_a_weight_do_not_matter() -> None:
    scored = score(levels(100.0, None), THROUGHPUT, {1: 1.0, 10: 0.0}, None)
    assert scored is not None
    assert scored.estimate.value == pytest.approx(100.0)
    assert scored.per_level == {1: 100.0}


@pytest.mark.parametrize("missing", [levels(100.0, None), levels(100.0, 200.0)[:1], ()])
def test_a_missing_level_means_no_score(missing: tuple[Measurement, ...]) -> None:
    assert score(missing, THROUGHPUT, WEIGHTS, None) is None
    assert score(missing, SPEEDUP, WEIGHTS, levels(100.0, 200.0)) is None
    assert compare(missing, levels(100.0, 200.0), THROUGHPUT, WEIGHTS) is None
    assert compare(levels(100.0, 200.0), missing, THROUGHPUT, WEIGHTS) is None


@pytest.mark.parametrize("weights", [{}, {1: 0.0}])
def test_no_weights_mean_no_score(weights: dict[int, float]) -> None:
    assert score(levels(100.0, 200.0), THROUGHPUT, weights, None) is None


def test_a_level_without_an_interval_leaves_the_score_without_one() -> None:
    scored = score((measurement(1, 100.0, None), measurement(10, 200.0)), THROUGHPUT, WEIGHTS, None)
    assert scored is not None
    assert scored.estimate.value == pytest.approx(175.0)
    assert scored.estimate.half_width is None


def test_weighted_speedup_is_the_weighted_geometric_mean_of_ratios() -> None:
    scored = score(levels(200.0, 200.0), SPEEDUP, WEIGHTS, levels(100.0, 200.0))
    assert scored is not None
    assert scored.estimate.value == pytest.approx(2 ** (1 / 4))
    assert scored.per_level == {1: pytest.approx(2.0), 10: pytest.approx(1.0)}


def test_the_error_of_the_baseline_is_part_of_the_speedup() -> None:
    exact = score(levels(110.0, 220.0, 1.0), SPEEDUP, WEIGHTS, levels(100.0, 200.0, 0.0))
    noisy = score(levels(110.0, 220.0, 1.0), SPEEDUP, WEIGHTS, levels(100.0, 200.0, 5.0))
    assert exact is not None
    assert noisy is not None
    assert exact.estimate.half_width is not None
    assert noisy.estimate.half_width is not None
    assert noisy.estimate.half_width > 3 * exact.estimate.half_width


def test_weighted_speedup_needs_the_baseline() -> None:
    assert score(levels(100.0, 200.0), SPEEDUP, WEIGHTS, None) is None
    assert score(levels(100.0, 200.0), SPEEDUP, WEIGHTS, levels(100.0, None)) is None


@pytest.mark.parametrize("objective", [THROUGHPUT, SPEEDUP])
def test_a_run_against_itself_is_one_without_error(objective: Objective) -> None:
    compared = compare(levels(100.0, 200.0), levels(100.0, 200.0), objective, WEIGHTS)
    assert compared is not None
    assert (compared.ratio.value, compared.ratio.half_width, compared.verdict) == (1.0, 0.0, "unclear")


@pytest.mark.parametrize("objective", [THROUGHPUT, SPEEDUP])
@pytest.mark.parametrize(
    ("factor", "half", "verdict"), [(1.1, 1.0, "better"), (0.9, 1.0, "worse"), (1.005, 5.0, "unclear")]
)
def test_the_verdict_follows_from_whether_the_interval_excludes_one(
    objective: Objective, factor: float, half: float, verdict: str
) -> None:
    compared = compare(levels(100 * factor, 200 * factor, half), levels(100.0, 200.0, half), objective, WEIGHTS)
    assert compared is not None
    assert compared.ratio.value == pytest.approx(factor)
    assert compared.verdict == verdict


def test_the_ratio_of_sums_has_the_relative_error_of_both() -> None:
    compared = compare(levels(110.0, 110.0, 2.262), levels(100.0, 100.0, 0.0), THROUGHPUT, {1: 1.0})
    assert compared is not None
    assert compared.ratio.half_width == pytest.approx(2.262 / 100, rel=0.001)


def test_without_an_interval_the_ratio_is_given_and_the_verdict_is_unclear() -> None:
    compared = compare(levels(200.0, 400.0, None), levels(100.0, 200.0), THROUGHPUT, WEIGHTS)
    assert compared is not None
    assert compared.ratio.value == pytest.approx(2.0)
    assert compared.ratio.half_width is None
    assert compared.verdict == "unclear"


def test_an_unknown_metric_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match="weighted_goodput, but got latency"):
        score(levels(1.0, 2.0), Objective("latency"), WEIGHTS, None)
    with pytest.raises(InputError, match="but got latency"):
        compare(levels(1.0, 2.0), levels(1.0, 2.0), Objective("latency"), WEIGHTS)
