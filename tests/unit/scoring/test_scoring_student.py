import math

import pytest

from autotune.scoring.student import t_quantile


@pytest.mark.parametrize(
    ("freedom", "known"),
    [
        (1, 12.7062),
        (2, 4.30265),
        (4, 2.77645),
        (7, 2.36462),
        (10, 2.22814),
        (19, 2.09302),
        (30, 2.04227),
        (120, 1.97993),
        (1000, 1.96234),
        (math.inf, 1.95996),
    ],
)
def test_the_quantile_agrees_with_printed_tables(freedom: float, known: float) -> None:
    assert t_quantile(freedom) == pytest.approx(known, abs=1e-4)


def test_degrees_of_freedom_that_are_not_whole_lie_between_their_neighbours() -> None:
    assert t_quantile(5) < t_quantile(4.5) < t_quantile(4)


def test_the_two_ways_of_computing_it_meet() -> None:
    assert t_quantile(300.0) == pytest.approx(t_quantile(300.0001), abs=1e-6)


@pytest.mark.parametrize("freedom", [0, -1, math.nan])
def test_no_degrees_of_freedom_have_no_quantile(freedom: float) -> None:
    with pytest.raises(ValueError, match="degrees of freedom"):
        t_quantile(freedom)
