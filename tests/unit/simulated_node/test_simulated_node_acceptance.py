import itertools
from dataclasses import replace

import pytest

from autotune.simulated_node.acceptance import CLASSES, DraftTree, mean_length, reach_of
from autotune.simulated_node.nodes import RTX_PRO_6000_X8

LAW = replace(RTX_PRO_6000_X8.acceptance, first=0.6, depth_decay=0.8, sibling_exponent=0.5, spread=0.0)


def test_a_chain_accepts_with_the_product_along_its_path():
    reach = reach_of(LAW, DraftTree("EAGLE3", 3, 1, 4), 0)
    assert reach == pytest.approx((0.6, 0.6 * 0.48, 0.6 * 0.48 * 0.384))


def test_siblings_raise_the_first_position_with_diminishing_returns():
    first = [reach_of(LAW, DraftTree("EAGLE3", 1, topk, topk + 1), 0)[0] for topk in (1, 2, 4, 8)]
    gains = [after - before for before, after in itertools.pairwise(first)]
    assert first[0] == pytest.approx(0.6)
    assert gains[0] > 0
    assert all(later < 2 * earlier for earlier, later in itertools.pairwise(gains))
    assert first[3] == pytest.approx(1 - 0.4 * 8**-0.5)


def test_draft_tokens_bound_the_tree():
    lengths = [mean_length(LAW, DraftTree("EAGLE3", 2, 4, tokens)) for tokens in (3, 6, 10, 16, 21)]
    assert lengths == sorted(lengths)
    assert lengths[-1] < 3.0  # two steps can add two tokens to the bonus token
    two = reach_of(LAW, DraftTree("EAGLE3", 2, 4, 3), 0)
    assert sum(two) == pytest.approx(0.6 + 0.6 * 0.48)  # the best two of the tree are the chain


def test_a_tree_that_holds_the_chain_is_never_worse_than_it():
    chain = mean_length(LAW, DraftTree("EAGLE3", 3, 1, 4))
    for topk in (2, 4, 8):
        assert mean_length(LAW, DraftTree("EAGLE3", 3, topk, 4)) >= chain - 1e-12


def test_prompts_differ_and_the_mean_over_them_is_harmonic():
    law = replace(LAW, spread=0.1)
    tree = DraftTree("EAGLE3", 2, 1, 3)
    lengths = [1 + sum(reach_of(law, tree, index)) for index in range(CLASSES)]
    assert lengths == sorted(lengths)
    assert mean_length(law, tree) < sum(lengths) / CLASSES
    assert mean_length(law, tree) == pytest.approx(CLASSES / sum(1 / length for length in lengths))


def test_candidates_are_those_of_sglangs_tree():
    assert DraftTree("EAGLE3", 1, 4, 5).candidates == 4
    assert DraftTree("EAGLE3", 3, 4, 16).candidates == 4 + 2 * 16
