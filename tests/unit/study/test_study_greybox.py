"""The grey-box model on data made by its own law, and by laws that break it."""

import math
import random
from dataclasses import replace

import pytest
from made_up_throughput import LEVELS, SPACE, candidates, observation, true_accept, true_cycle

from autotune.domain.configuration import Configuration
from autotune.study.model.feasibility import Death, Feasibility
from autotune.study.model.greybox import GreyBox


def fitted(count: int, *, decompose: bool = True, seed: int = 0) -> tuple[GreyBox, list[Configuration]]:
    rng = random.Random(seed)
    everything = candidates()
    rng.shuffle(everything)
    model = GreyBox(SPACE, LEVELS, decompose=decompose)
    model.fit([observation(configuration, rng) for configuration in everything[:count]])
    return model, everything[count:]


def error(model: GreyBox, unseen: list[Configuration]) -> float:
    """Root mean square of the logarithm over unseen configurations and levels."""
    mean = model.predict_mean(unseen)
    errors = [
        mean[i][j] - math.log(level * true_accept(c) / true_cycle(c, level))
        for i, c in enumerate(unseen)
        for j, level in enumerate(LEVELS)
    ]
    return math.sqrt(sum(e * e for e in errors) / len(errors))


def test_thirty_trials_foretell_the_rest_of_a_separable_node_to_a_few_percent():
    model, unseen = fitted(30)
    assert error(model, unseen) < 0.05


def test_knowing_what_throughput_is_made_of_foretells_better_than_not_knowing():
    knowing, unseen = fitted(16)
    ignorant, _ = fitted(16, decompose=False)
    assert error(knowing, unseen) < error(ignorant, unseen)


def test_one_trial_of_a_setting_teaches_something_about_configurations_that_were_never_near_it():
    rng = random.Random(1)
    plain = Configuration({"speculative_algorithm": None, "graph": 64, "NCCL_PROTO": None})
    fast = plain.replace(NCCL_PROTO="LL")
    tree = Configuration({**plain, "speculative_algorithm": "E", "speculative_num_steps": 4})
    model = GreyBox(SPACE, LEVELS)
    model.fit([observation(plain, rng), observation(fast, rng), observation(tree, rng)])
    slow, quick = model.predict_mean([tree, tree.replace(NCCL_PROTO="LL")])
    assert (quick > slow + 0.05).all()


def test_what_was_measured_is_foretold_to_the_noise_and_what_was_not_is_uncertain():
    rng = random.Random(2)
    known = candidates()[0]
    strange = candidates()[-1]
    model = GreyBox(SPACE, LEVELS)
    model.fit([observation(known, rng)])
    prediction = model.predict([known, strange])
    deviations = [math.sqrt(prediction.covariance[i][0][0]) for i in range(2)]
    assert deviations[0] < 0.03
    assert deviations[1] > 0.15


def test_a_covariance_is_one():
    model, unseen = fitted(12)
    covariance = model.predict(unseen[:20]).covariance
    for block in covariance:
        assert block == pytest.approx(block.T)
        assert block.diagonal().min() > 0


def test_how_noisy_the_figures_are_is_learnt():
    def noisier(noise: float) -> float:
        rng = random.Random(8)
        model = GreyBox(SPACE, LEVELS)
        model.fit([observation(configuration, rng, noise) for configuration in candidates()[::4]])
        return model.noisier

    assert noisier(0.008) <= 1.0
    assert noisier(0.15) >= 16.0


def test_a_trial_with_a_wide_interval_moves_the_model_less():
    rng, configuration = random.Random(9), candidates()[0]
    known = [observation(c, rng) for c in candidates()[::5]]
    odd = observation(configuration, rng)
    odd = replace(odd, throughput={level: 1.5 * value for level, value in odd.throughput.items()})
    moved = []
    for deviation in (0.0, 0.5):
        model = GreyBox(SPACE, LEVELS)
        model.fit([*known[1:], replace(odd, deviation=dict.fromkeys(LEVELS, deviation))])
        moved.append(model.predict_mean([configuration])[0])
    assert (moved[0] > moved[1] + 0.1).all()


def test_of_a_drafter_seen_once_the_accept_length_of_longer_chains_follows():
    rng = random.Random(0)
    plain = Configuration({"speculative_algorithm": None, "graph": 64, "NCCL_PROTO": None})
    trees = [
        Configuration({**plain, "speculative_algorithm": "E", "speculative_num_steps": steps}) for steps in (1, 2, 4)
    ]
    model = GreyBox(SPACE, LEVELS)
    model.fit([observation(plain, rng), observation(trees[1], rng)])
    mean, _variance = model._accept.predict(trees)
    for foretold, tree in zip(mean, trees, strict=True):
        assert math.exp(foretold) == pytest.approx(true_accept(tree), rel=0.06)


def test_accept_length_of_what_was_seen_without_drafts_is_one_for_certain():
    model = GreyBox(SPACE, LEVELS)
    plain = Configuration({"speculative_algorithm": None, "graph": 64, "NCCL_PROTO": None})
    model.fit([observation(plain, random.Random(0))])
    mean, variance = model._accept.predict([plain.replace(graph=16)])
    assert (mean[0], variance[0]) == (0.0, 0.0)


def test_a_value_that_alone_explains_the_crashes_is_shunned_and_one_that_survived_is_cleared():
    alive = [Configuration({"graph": 64, "NCCL_PROTO": proto}) for proto in (None, "LL")]
    dead = [Configuration({"graph": 16, "NCCL_PROTO": "LL"})]
    chances = learnt(alive, dead, [Configuration({"graph": 16, "NCCL_PROTO": None}), alive[1]])
    assert chances[0] < 0.1
    assert chances[1] > 0.8


def test_one_crash_with_many_new_values_condemns_none_of_them():
    alive = [Configuration({"graph": 64, "NCCL_PROTO": None, "speculative_algorithm": None})]
    dead = [Configuration({"graph": 16, "NCCL_PROTO": "LL", "speculative_algorithm": "E"})]
    assert learnt(alive, dead, [alive[0].replace(graph=16)])[0] > 0.4


def test_a_corner_is_learnt_where_no_single_value_is_to_blame():
    names = ("NCCL_PROTO", "graph")
    alive = [Configuration(dict(zip(names, pair, strict=True))) for pair in (("LL", 16), (None, 64), (None, 16))]
    corner = Configuration({"NCCL_PROTO": "LL", "graph": 64})
    assert learnt(alive, [corner], [corner])[0] < 0.2


@pytest.mark.parametrize(("memory", "spared"), [(False, False), (True, True)])
def test_a_lack_of_memory_is_held_against_what_asks_for_as_much_and_less_against_what_asks_for_less(memory, spared):
    alive = [Configuration({"graph": 64, "speculative_num_steps": steps}) for steps in (1, 4)]
    dead = Configuration({"graph": 256, "speculative_num_steps": 4})
    less = dead.replace(speculative_num_steps=1)
    same, fewer = learnt(alive, [dead] * 2, [dead, less], memory=memory)
    assert same < 0.2
    assert bool(fewer > 2 * same) is spared


def test_a_value_never_tried_is_the_less_likely_to_live_the_more_new_ones_have_died():
    known, new = Configuration({"graph": 64, "NCCL_PROTO": None}), Configuration({"graph": 64, "NCCL_PROTO": "LL"})
    alive = [known, known.replace(backend="a")]
    dead = [known.replace(backend=backend) for backend in ("b", "c")]
    assert learnt(alive, dead, [new])[0] < learnt(alive, [], [new])[0] < learnt(alive, [], [known])[0]


def learnt(alive, dead, asked, *, memory=False):
    feasibility = Feasibility(SPACE)
    feasibility.learn(alive, [Death(configuration, memory) for configuration in dead])
    return feasibility.chances(asked)
