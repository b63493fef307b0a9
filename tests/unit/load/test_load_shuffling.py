from __future__ import annotations

import itertools

import pytest

from autotune.load.shuffling import Permutation


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 16, 17, 832, 4096, 5000])
def test_every_index_comes_out_exactly_once(size: int) -> None:
    assert sorted(Permutation(size, "key")) == list(range(size))


def test_keys_give_different_orders() -> None:
    orders = {tuple(Permutation(100, f"key {n}")) for n in range(20)}
    assert len(orders) == 20


def test_the_order_does_not_look_like_the_input() -> None:
    order = list(Permutation(1000, "key"))
    assert sum(abs(b - a) == 1 for a, b in itertools.pairwise(order)) < 10


@pytest.mark.parametrize("index", [-1, 10])
def test_an_index_outside_is_refused(index: int) -> None:
    with pytest.raises(IndexError):
        Permutation(10, "key")[index]


def test_a_permutation_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one element"):
        Permutation(0, "key")
