"""What is known of throughput before anything was measured."""

import math

import pytest

from autotune.study.model.serving_law import batch, chain_length, depth, graphs, in_flight, width


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, 128),
        ({"max_running_requests": 48}, 48),
        ({"max_running_requests": 256}, 128),
        ({"max_running_requests": None}, 128),
    ],
)
def test_no_more_are_in_flight_than_the_cap_lets_in(values, expected):
    assert in_flight(values, 128) == expected


@pytest.mark.parametrize(
    ("values", "wide", "deep"),
    [
        ({}, 1, 0),
        ({"speculative_num_steps": 3}, 4, 3),
        ({"speculative_num_steps": 3, "speculative_num_draft_tokens": 16}, 16, 3),
        ({"speculative_num_draft_tokens": 8}, 8, 7),
        ({"speculative_num_steps": True}, 1, 0),
    ],
)
def test_width_counts_the_tokens_verified_and_depth_the_chain(values, wide, deep):
    assert (width(values), depth(values)) == (wide, deep)


@pytest.mark.parametrize(
    ("values", "level", "expected"),
    [
        ({}, 8, "unknown"),
        ({"cuda_graph_max_bs": 16}, 16, "in a graph"),
        ({"cuda_graph_max_bs": 16}, 17, "beyond the graphs"),
        ({"cuda_graph_max_bs": 64, "max_running_requests": 48}, 128, "in a graph"),
        ({"cuda_graph_max_bs": "auto"}, 8, "unknown"),
    ],
)
def test_a_batch_runs_in_a_graph_if_one_is_large_enough(values, level, expected):
    assert batch(values, level) == expected


def test_the_accept_length_of_a_chain_grows_with_its_steps_and_has_a_limit():
    lengths = [math.exp(chain_length(steps)[0]) for steps in (0, 1, 2, 40)]
    assert lengths == pytest.approx([1.0, 1.65, 2.0725, 1 / 0.35], rel=1e-4)


def test_graphs_are_counted_where_their_largest_is_known():
    assert (graphs({}), graphs({"cuda_graph_max_bs": 256})) == (0.0, 32.0)
